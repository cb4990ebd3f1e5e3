"""How is a table filled? Arm by arm and seed by seed, from runs that are there or made now."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from nonneg.evaluation import Figure, Figures
from nonneg.experiments.reproduction.early_stage import Curve, accuracy_curve
from nonneg.experiments.reproduction.laboratory import Laboratory, OutOfBudgetError
from nonneg.experiments.reproduction.plan import Arm, Plan
from nonneg.experiments.reproduction.tuning import Tuned, tuned
from nonneg.training import read_history


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
        missing: What there was no time or no data for.
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


def filled(plan: Plan, lab: Laboratory, seeds: Sequence[int]) -> Filled:
    """Train and measure what is missing, and gather the figures of all arms and seeds.

    All arms get their first seed before any gets its second: what is cut off by a budget is a
    table with fewer seeds.

    Args:
        plan: The table.
        lab: Where runs are made.
        seeds: The first one also serves tuning.
    """
    table = Filled(plan, lab.preset, tuple(seeds))
    lab = replace(lab, changes=(*plan.changes, *lab.changes))
    for arm in plan.arms:
        try:
            table.arms[arm.name] = _tuned(plan, lab, arm, seeds[0], table)
        except OutOfBudgetError as error:
            table.missing.append(str(error))
        except FloatingPointError as error:
            table.missing.append(f"{arm.name}: {error}")
    for seed in seeds:
        for name, arm in table.arms.items():
            try:
                found = lab.figures(arm, seed, plan.sections, evaluation=plan.evaluation)
            except OutOfBudgetError as error:
                table.missing.append(str(error))
                continue
            except FloatingPointError as error:
                table.missing.append(f"{name}, seed {seed}: {error}")
                continue
            table.not_measured |= lab.skipped(arm, seed, plan.sections)
            history = read_history(lab.folder(arm, seed))
            found = {**found, "step_ms": _step_time(history)}
            table.figures.setdefault(name, {})[seed] = {
                key: figure for key, figure in found.items() if key in plan.figures
            }
            table.settings[name] = lab.experiment(arm, seeds[0]).model_dump(
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
    """Milliseconds a step, in the median epoch: what else ran then weighs less."""
    ends = [0, *(record["step"] for record in history)]
    each = [
        1000 * record["seconds"] / (end - start)
        for record, (start, end) in zip(history, pairwise(ends), strict=True)
    ]
    return Figure(statistics.median(each), higher_is_better=False)


def _tuned(plan: Plan, lab: Laboratory, arm: Arm, seed: int, table: Filled) -> Arm:
    if plan.grid is None:
        return arm
    found = tuned(lab, arm, plan.grid, seed=seed)
    table.tuning[arm.name] = found
    return found.arm
