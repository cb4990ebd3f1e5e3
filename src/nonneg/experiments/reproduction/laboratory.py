"""Where are runs made? In folders named by their settings, so that nothing is trained twice."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from nonneg.data import is_own_file
from nonneg.encoder import WEIGHTS_FILE
from nonneg.evaluation import Evaluation, EvaluationSettings, Figures
from nonneg.experiments.evaluating import EVALUATION_FILES, evaluate_run
from nonneg.experiments.experiment import Experiment, run_experiment
from nonneg.experiments.presets import read_experiment
from nonneg.experiments.reproduction.plan import Arm
from nonneg.io import digest_of_file
from nonneg.settings import with_overrides
from nonneg.training.run_folder import RunFolder, what_counts


class OutOfBudgetError(Exception):
    """No time is left to begin something new."""


@dataclass(frozen=True)
class Laboratory:
    """A place for runs, which trains and evaluates what is missing.

    Args:
        preset: What arms change.
        runs: The folder of all runs, shared by all tables.
        data_dir: Where data sets lie.
        changes: Settings for all arms.
        may_begin: Asked before something that takes long; False ends the work.
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
            raise KeyboardInterrupt
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
        """Which of these sections the test data of an arm's run could not be asked, and why."""
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
