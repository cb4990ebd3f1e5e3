"""Tables filled arm by arm and seed by seed, with settings tuned on held-out samples."""

import hashlib
import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console

from nonneg.data.sources import is_own_file
from nonneg.encoder import WEIGHTS_FILE
from nonneg.evaluation.evaluation import Evaluation
from nonneg.evaluation.subject import EvaluationSettings
from nonneg.io import digest_of_file
from nonneg.metrics.figures import Figure, Figures
from nonneg.paper.tables import Arm, Grid, Plan
from nonneg.runs.evaluating import EVALUATION_FILES, evaluate_run
from nonneg.runs.experiment import Experiment, read_experiment, run_experiment
from nonneg.settings import with_overrides
from nonneg.training.run_folder import RunFolder, read_history, what_counts


class OutOfBudgetError(Exception):
    """No time is left to begin something new."""


@dataclass(frozen=True)
class RunStore:
    """A store of runs, which trains and evaluates what is missing.

    Args:
        preset: What arms change.
        runs: The folder of all runs, shared by all tables.
        data_dir: Where data sets lie.
        changes: Settings for all arms.
        may_begin: Called before long work begins; False ends it.
        watch: Told what is being done.
    """

    preset: str
    runs: Path
    data_dir: Path | None = None
    changes: tuple[str, ...] = ()
    may_begin: Callable[[], bool] = lambda: True
    watch: Callable[[str], None] = lambda _: None

    def experiment(self, arm: Arm, seed: int) -> Experiment:
        """All settings of an arm's run with a seed."""
        changes = [*self.changes, *arm.changes, f"seed={seed}"]
        if arm.starts_from is not None:
            changes.append(f"start={self.folder(arm.starts_from, seed)}")
        preset = (arm.preset or self.preset) + ("-cl" if arm.signed else "")
        return read_experiment(preset, changes)[1]

    def folder(self, arm: Arm, seed: int) -> Path:
        """Where the run of an arm with a seed is, or will be."""
        experiment = self.experiment(arm, seed)
        # Defaults too: a run made with another default must not pass for this one.
        counts = what_counts(experiment.model_dump(mode="json"))
        counts.pop("seed", None)
        if experiment.start:
            # Its place on this machine does not matter, its own settings do.
            counts["start"] = Path(experiment.start).name
        digest = hashlib.sha256(json.dumps(counts, sort_keys=True).encode()).hexdigest()[:8]
        preset = arm.preset or self.preset
        return self.runs / f"{preset}-{experiment.method}-{digest}-seed{seed}"

    def trained(self, arm: Arm, seed: int) -> Path:
        """The folder of a finished run; trains it, and what it starts from, where missing."""
        if arm.starts_from is not None:
            self.trained(arm.starts_from, seed)
        folder, experiment = self.folder(arm, seed), self.experiment(arm, seed)
        is_finished = RunFolder(folder).is_finished
        # A file of one's own may have changed since; run_experiment looks, and trains nothing.
        if is_finished and not is_own_file(experiment.data.name):
            return folder
        if not is_finished:
            self._begin(f"{arm.name}, seed {seed}: training")
        result = run_experiment(
            experiment,
            out=folder,
            data_dir=self.data_dir,
            resume=True,
            console=Console(quiet=True),
        )
        if result.interrupted_by:
            raise InterruptedError(
                f"training was stopped by {result.interrupted_by}; the same command continues it"
            )
        return folder

    def figures(
        self,
        arm: Arm,
        seed: int,
        sections: Iterable[str],
        *,
        split: str = "test",
        evaluation: Iterable[str] = (),
    ) -> Figures:
        """The figures of an arm's run with a seed; trains and measures what is missing.

        Args:
            arm: Of the table.
            seed: Of the run.
            sections: Of the evaluation.
            split: ``"test"`` or ``"held-out"``.
            evaluation: Changes to the evaluation's settings.
        """
        folder = self.trained(arm, seed)
        settings = EvaluationSettings.read(with_overrides({}, evaluation))
        missing = _missing(folder, list(sections), split, settings)
        if missing:
            self._begin(f"{arm.name}, seed {seed}: measuring")
            evaluate_run(
                folder,
                only=missing,
                settings=settings,
                split=split,
                data_dir=self.data_dir,
                watch=lambda text: self.watch(f"{arm.name}, seed {seed}: {text}"),
            )
        return Evaluation.read(folder / EVALUATION_FILES[split]).figures()

    def skipped(self, arm: Arm, seed: int, sections: Iterable[str]) -> dict[str, str]:
        """Which of these sections do not apply to the test data of an arm's run, and why."""
        found = Evaluation.read(self.folder(arm, seed) / EVALUATION_FILES["test"])
        return {name: found.skipped[name] for name in sections if name in found.skipped}

    def _begin(self, what: str) -> None:
        if not self.may_begin():
            raise OutOfBudgetError(what)
        self.watch(what)


def with_changes(arm: Arm, *changes: str) -> Arm:
    """The same arm with more settings changed."""
    return replace(arm, changes=(*arm.changes, *changes))


def _missing(
    folder: Path, sections: list[str], split: str, settings: EvaluationSettings
) -> list[str]:
    path = folder / EVALUATION_FILES[split]
    if not path.exists():
        return sections
    found = Evaluation.read(path)
    if found.model != digest_of_file(folder / WEIGHTS_FILE):
        return sections
    wanted = settings.model_dump(mode="json")
    # A setting that came after the measurement had its default then.
    before = EvaluationSettings().model_dump(mode="json")
    return [
        name
        for name in sections
        # What was skipped is asked for again: files that it wants may be there now.
        if name not in found.sections or before | found.sections[name].settings != wanted
    ]


_N_ACCURACIES = 8

Curve = list[tuple[float, float]]
"""Steps taken and the accuracy on held-out samples after them, in order."""


def accuracy_curve(history: Sequence[Mapping[str, Any]]) -> Curve:
    """The accuracy over training, from a run's history; empty where none was measured.

    Args:
        history: One record per epoch, with any measurements within it.

    Example:
        >>> accuracy_curve([{"step": 4, "accuracy": 0.5, "within": [{"step": 2, "accuracy": 0.3}]}])
        [(2, 0.3), (4, 0.5)]
    """
    points: dict[float, float] = {}
    for record in history:
        for measured in (*record.get("within", ()), record):
            if "accuracy" in measured:
                points[measured["step"]] = measured["accuracy"]
    return sorted(points.items())


def steps_to_reach(curve: Curve, accuracy: float) -> float | None:
    """The number of steps after which an accuracy was first reached, linearly interpolated.

    None where it never was. An accuracy already reached at the first measurement gets its
    step.

    Example:
        >>> steps_to_reach([(10, 0.4), (20, 0.6)], 0.5)
        15.0
    """
    before: tuple[float, float] | None = None
    for step, reached in curve:
        if reached >= accuracy:
            if before is None:
                return float(step)
            share = (accuracy - before[1]) / (reached - before[1])
            return before[0] + share * (step - before[0])
        before = (step, reached)
    return None


def fixed_accuracies(curves: Mapping[str, Mapping[int, Curve]]) -> list[float]:
    """Accuracies to compare by: every 5 points, the last eight that some run reaches."""
    highest = max(
        (y for runs in curves.values() for curve in runs.values() for _, y in curve), default=0.0
    )
    reached = [percent / 100 for percent in range(5, 100, 5) if percent / 100 <= highest]
    return reached[-_N_ACCURACIES:]


@dataclass(frozen=True)
class Tuned:
    """An arm at its best value, and what every value gave.

    Args:
        arm: With the best value among its changes.
        best: The value.
        tried: The held-out figure by value, in rising order; None where training diverged
            or gave none.
    """

    arm: Arm
    best: float
    tried: dict[float, float | None]


def tuned(store: RunStore, arm: Arm, grid: Grid, *, seed: int) -> Tuned:
    """Try three values of a setting, and more beyond an edge while the best lies there.

    Args:
        store: Where runs are made.
        arm: What is tuned.
        grid: What is tried, and how it is judged.
        seed: Of all these runs.

    Raises:
        FloatingPointError: If training diverges with every value.
    """
    tried = {place: _value(store, arm, grid, place, seed) for place in (-1, 0, 1)}
    while len(tried) < grid.most:
        best = _best(tried)
        if min(tried) < best < max(tried):
            break
        beyond = best - 1 if best == min(tried) else best + 1
        tried[beyond] = _value(store, arm, grid, beyond, seed)
    best = _best(tried)
    if tried[best] is None:
        raise FloatingPointError(
            f"training diverged, or gave no figure, with every {grid.setting} that was tried"
        )
    return Tuned(
        _at(arm, grid, best),
        _setting(grid, best),
        {_setting(grid, place): tried[place] for place in sorted(tried)},
    )


def _best(tried: dict[int, float | None]) -> int:
    return max(tried, key=lambda place: -math.inf if (v := tried[place]) is None else v)


def _value(store: RunStore, arm: Arm, grid: Grid, place: int, seed: int) -> float | None:
    try:
        figures = store.figures(_at(arm, grid, place), seed, [grid.section], split="held-out")
    except FloatingPointError:
        return None
    return figures[grid.figure].value


def _at(arm: Arm, grid: Grid, place: int) -> Arm:
    return with_changes(arm, f"{grid.setting}={_setting(grid, place)!r}")


def _setting(grid: Grid, place: int) -> float:
    # Two digits are enough to name a value, and read the same in every file.
    return float(f"{grid.middle * grid.factor**place:.2g}")


@dataclass
class Filled:
    """A plan with the figures of its runs.

    Args:
        plan: What was asked for.
        preset: What was changed; None for tables without presets.
        seeds: Of the runs.
        figures: By arm, then seed.
        arms: As they were run: with the tuned value, where there was tuning.
        settings: All that an arm was run with, but for the seed.
        tuning: What tuning found, by arm.
        seconds: Spent, by arm, then seed.
        curves: Accuracy over training, by arm, then seed; only of supervised runs.
        missing: What was left out for lack of time or data.
        not_measured: Sections that do not apply, and why.
        timed: What the seconds were spent on.
    """

    plan: Plan
    preset: str | None
    seeds: tuple[int, ...]
    figures: dict[str, dict[int, Figures]] = field(default_factory=dict)
    arms: dict[str, Arm] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    tuning: dict[str, Tuned] = field(default_factory=dict)
    seconds: dict[str, dict[int, float]] = field(default_factory=dict)
    curves: dict[str, dict[int, Curve]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    not_measured: dict[str, str] = field(default_factory=dict)
    timed: str = "training"

    @property
    def title(self) -> str:
        """Its name, and the preset's: what its files are called."""
        return table_title(self.plan.name, self.preset)


def table_title(name: str, preset: str | None) -> str:
    """What the files of a table are called; None for tables without presets."""
    return name if preset is None else f"{name}-{preset}"


def filled(plan: Plan, store: RunStore, seeds: Sequence[int]) -> Filled:
    """Train and measure what is missing, and gather the figures of all arms and seeds.

    All arms get their first seed before any gets its second: what is cut off by a budget is a
    table with fewer seeds.

    Args:
        plan: The table.
        store: Where runs are made.
        seeds: The first one also serves tuning.
    """
    table = Filled(plan, store.preset, tuple(seeds))
    store = replace(store, changes=(*plan.changes, *store.changes))
    for arm in plan.arms:
        try:
            table.arms[arm.name] = _tuned(plan, store, arm, seeds[0], table)
        except OutOfBudgetError as error:
            table.missing.append(str(error))
        except FloatingPointError as error:
            table.missing.append(f"{arm.name}: {error}")
    for seed in seeds:
        for name, arm in table.arms.items():
            try:
                found = store.figures(arm, seed, plan.sections, evaluation=plan.evaluation)
            except OutOfBudgetError as error:
                table.missing.append(str(error))
                continue
            except FloatingPointError as error:
                table.missing.append(f"{name}, seed {seed}: {error}")
                continue
            table.not_measured |= store.skipped(arm, seed, plan.sections)
            history = read_history(store.folder(arm, seed))
            found = {**found, "step_ms": _step_time(history)}
            table.figures.setdefault(name, {})[seed] = {
                key: figure for key, figure in found.items() if key in plan.figures
            }
            table.settings[name] = store.experiment(arm, seeds[0]).model_dump(
                mode="json", exclude={"seed", "start"}
            )
            table.seconds.setdefault(name, {})[seed] = sum(r["seconds"] for r in history)
            curve = accuracy_curve(history)
            if curve:
                table.curves.setdefault(name, {})[seed] = curve
    return table


def n_runs(plan: Plan, n_seeds: int) -> int:
    """How many runs a table asks for, if tuning needs no more than its first three values."""
    starts = {arm.starts_from.name for arm in plan.arms if arm.starts_from is not None}
    each = n_seeds + (2 if plan.grid else 0)
    return len(plan.arms) * each + len(starts - {arm.name for arm in plan.arms}) * n_seeds


def _step_time(history: list[dict[str, Any]]) -> Figure:
    """Milliseconds per step, in the median epoch, which other work on the machine disturbs less."""
    ends = [0, *(record["step"] for record in history)]
    each = [
        1000 * record["seconds"] / (end - start)
        for record, (start, end) in zip(history, pairwise(ends), strict=True)
    ]
    return Figure.of("step_ms", statistics.median(each))


def _tuned(plan: Plan, store: RunStore, arm: Arm, seed: int, table: Filled) -> Arm:
    if plan.grid is None:
        return arm
    found = tuned(store, arm, plan.grid, seed=seed)
    table.tuning[arm.name] = found
    return found.arm
