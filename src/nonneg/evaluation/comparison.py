"""Which of two methods is better, and is it sure? Groups of runs, paired over seeds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from nonneg.evaluation.figure import Figure, Figures

CONFIDENCE = 0.95
MIN_PAIRS = 3


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of one figure over the seeds of a group; std None for one."""

    mean: float
    std: float | None
    n: int


@dataclass(frozen=True)
class Difference:
    """A group minus the first one, over the seeds that both have.

    Args:
        mean: Of the paired differences.
        std: Theirs; None for a single pair.
        n: Pairs.
        is_sure: Whether the 95 % interval of the mean (Student's t) leaves zero out; never with
            fewer than three pairs.
    """

    mean: float
    std: float | None
    n: int
    is_sure: bool


@dataclass(frozen=True)
class ComparedFigure:
    """One row of a comparison.

    Args:
        name: Of the figure.
        is_rate: Shown as a percentage.
        higher_is_better: The direction.
        spreads: By group; None where no run of the group has the figure.
        differences: By group, against the first; None where there are no pairs.
        winner: The group that is surely better than the first, or the first where it is surely
            better than all others; None where the spread does not allow a word.
        nulls: By group, what chance gives, such as permuted labels, in the mean over seeds; None
            where the figure has none.
    """

    name: str
    is_rate: bool
    higher_is_better: bool | None
    spreads: dict[str, Spread | None]
    differences: dict[str, Difference | None]
    winner: str | None
    nulls: dict[str, float | None]


def compared(groups: Mapping[str, Mapping[int, Figures]]) -> list[ComparedFigure]:
    """Every figure of some groups of runs, side by side.

    Args:
        groups: By name of the group, then by seed: its figures. The first group is the one that
            the others are compared with.

    Example:
        >>> cl = {seed: {"probe": Figure(0.80 + seed / 100, True)} for seed in range(3)}
        >>> ncl = {seed: {"probe": Figure(0.82 + seed / 99, True)} for seed in range(3)}
        >>> row, = compared({"CL": cl, "NCL": ncl})
        >>> row.winner, round(row.differences["NCL"].mean, 4), row.differences["NCL"].n
        ('NCL', 0.0201, 3)
    """
    names: dict[str, Figure] = {}
    for runs in groups.values():
        for figures in runs.values():
            names |= figures
    return [_compared_figure(name, figure, groups) for name, figure in names.items()]


def _compared_figure(
    name: str, example: Figure, groups: Mapping[str, Mapping[int, Figures]]
) -> ComparedFigure:
    values = {group: _values(name, runs) for group, runs in groups.items()}
    first, *others = values
    differences = {group: _difference(values[first], values[group]) for group in others}
    return ComparedFigure(
        name=name,
        is_rate=example.is_rate,
        higher_is_better=example.higher_is_better,
        spreads={group: _spread(list(found.values())) for group, found in values.items()},
        differences=differences,
        winner=_winner(first, differences, example.higher_is_better),
        nulls={group: _null(name, runs) for group, runs in groups.items()},
    )


def _values(name: str, runs: Mapping[int, Figures]) -> dict[int, float]:
    """The figure of each seed that has it."""
    found = ((seed, figures[name].value) for seed, figures in runs.items() if name in figures)
    return {seed: value for seed, value in found if value is not None}


def _null(name: str, runs: Mapping[int, Figures]) -> float | None:
    found = (figures[name].beside.get("null") for figures in runs.values() if name in figures)
    nulls = [float(null) for null in found if null is not None]
    return statistics.fmean(nulls) if nulls else None


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(statistics.fmean(values), _std(values), len(values))


def _difference(first: Mapping[int, float], other: Mapping[int, float]) -> Difference | None:
    paired = [other[seed] - first[seed] for seed in sorted(first.keys() & other.keys())]
    if not paired:
        return None
    mean, std, n = statistics.fmean(paired), _std(paired), len(paired)
    is_sure = False
    if n >= MIN_PAIRS:
        assert std is not None
        half_width = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * std / n**0.5
        is_sure = bool(abs(mean) > half_width)
    return Difference(mean, std, n, is_sure)


def _winner(
    first: str, differences: Mapping[str, Difference | None], higher_is_better: bool | None
) -> str | None:
    if higher_is_better is None or not differences:
        return None
    gains = {
        group: (found.mean if higher_is_better else -found.mean)
        for group, found in differences.items()
        if found is not None and found.is_sure
    }
    if any(gain > 0 for gain in gains.values()):
        return max(gains, key=lambda group: gains[group])
    return first if gains and len(gains) == len(differences) else None


def _std(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
