"""Which value of a setting suits an arm? The best on held-out samples, never on the test set."""

import math
from dataclasses import dataclass

from nonneg.experiments.reproduction.laboratory import Laboratory, with_changes
from nonneg.experiments.reproduction.plan import Arm, Grid


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


def tuned(lab: Laboratory, arm: Arm, grid: Grid, *, seed: int) -> Tuned:
    """Try three values of a setting, and more beyond an edge while the best lies there.

    Args:
        lab: Where runs are made.
        arm: What is tuned.
        grid: What is tried, and how it is judged.
        seed: Of all these runs.

    Raises:
        FloatingPointError: If training diverges with every value.
    """
    tried = {place: _value(lab, arm, grid, place, seed) for place in (-1, 0, 1)}
    while len(tried) < grid.most:
        best = _best(tried)
        if min(tried) < best < max(tried):
            break
        beyond = best - 1 if best == min(tried) else best + 1
        tried[beyond] = _value(lab, arm, grid, beyond, seed)
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


def _value(lab: Laboratory, arm: Arm, grid: Grid, place: int, seed: int) -> float | None:
    try:
        figures = lab.figures(_at(arm, grid, place), seed, [grid.section], split="held-out")
    except FloatingPointError:
        return None
    return figures[grid.figure].value


def _at(arm: Arm, grid: Grid, place: int) -> Arm:
    return with_changes(arm, f"{grid.setting}={_setting(grid, place)!r}")


def _setting(grid: Grid, place: int) -> float:
    # Two digits are enough to name a value, and read the same in every file.
    return float(f"{grid.middle * grid.factor**place:.2g}")
