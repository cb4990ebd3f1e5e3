"""The comparison of runs: grouped by settings, one row per figure, paired over seeds."""

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from nonneg.evaluation.evaluation import Evaluation
from nonneg.evaluation.published import Published, published_figures
from nonneg.metrics.figures import Figure, Figures
from nonneg.runs.evaluating import EVALUATION_FILES
from nonneg.runs.experiment import method
from nonneg.runs.record import (
    RunRecord,
    check_is_described,
    model_digest,
    read_curation,
    read_run,
)
from nonneg.settings import differences

CONFIDENCE = 0.95
MIN_PAIRS = 3
# Letters of a curation in the name of a group.
_LONGEST_CURATION = 40


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
        is_significant: Whether the 95 % interval of the mean (Student's t) leaves zero out; never
            with fewer than three pairs.
    """

    mean: float
    std: float | None
    n: int
    is_significant: bool


@dataclass(frozen=True)
class ComparedFigure:
    """One row of a comparison.

    Args:
        name: Of the figure.
        is_rate: Shown as a percentage.
        higher_is_better: The direction.
        spreads: By group; None where no run of the group has the figure.
        differences: By group, against the first; None where there are no pairs.
        winner: The group that is significantly better than the first, or the first where it
            is significantly better than all others; None where the spread allows no decision.
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


def comparison_rows(groups: Mapping[str, Mapping[int, Figures]]) -> list[ComparedFigure]:
    """Every figure of some groups of runs, side by side.

    Args:
        groups: By name of the group, then by seed: its figures. The first group is the one that
            the others are compared with.

    Example:
        >>> cl = {seed: {"probe": Figure(0.80 + seed / 100, True)} for seed in range(3)}
        >>> ncl = {seed: {"probe": Figure(0.82 + seed / 99, True)} for seed in range(3)}
        >>> row, = comparison_rows({"CL": cl, "NCL": ncl})
        >>> row.winner, round(row.differences["NCL"].mean, 4), row.differences["NCL"].n
        ('NCL', 0.0201, 3)
    """
    names: dict[str, Figure] = {}
    for runs in groups.values():
        for figures in runs.values():
            names |= figures
    return [_comparison_row(name, figure, groups) for name, figure in names.items()]


def _comparison_row(
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
    is_significant = False
    if n >= MIN_PAIRS:
        assert std is not None
        half_width = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * std / n**0.5
        is_significant = bool(abs(mean) > half_width)
    return Difference(mean, std, n, is_significant)


def _winner(
    first: str, differences: Mapping[str, Difference | None], higher_is_better: bool | None
) -> str | None:
    if higher_is_better is None or not differences:
        return None
    gains = {
        group: (found.mean if higher_is_better else -found.mean)
        for group, found in differences.items()
        if found is not None and found.is_significant
    }
    if any(gain > 0 for gain in gains.values()):
        return max(gains, key=lambda group: gains[group])
    return first if gains and len(gains) == len(differences) else None


def _std(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


@dataclass(frozen=True)
class Group:
    """Runs that differ by their seed only; those that were curated differ by that as well."""

    name: str
    method: str
    runs: dict[int, tuple[RunRecord, Figures]]


@dataclass(frozen=True)
class Comparison:
    """Groups side by side.

    Args:
        groups: CL first, where there is one; the others are compared with the first.
        figures: One row each.
        published: The paper's figures, by row and group.
        differing: Settings other than the transform in which groups differ: not one switch.
    """

    groups: list[Group]
    figures: list[ComparedFigure]
    published: dict[str, dict[str, Published]]
    differing: list[str]

    @property
    def fewest_pairs(self) -> int:
        """The fewest seeds shared by a group and the first one, over all figures of both."""
        first, *others = (group.name for group in self.groups)
        pairs = (
            0 if (difference := row.differences[name]) is None else difference.n
            for row in self.figures
            for name in others
            if row.spreads[first] and row.spreads[name]
        )
        return min(pairs, default=0)


def compare_runs(folders: Sequence[str | Path], *, split: str = "test") -> Comparison:
    """Evaluated runs side by side.

    Args:
        folders: Of runs with an evaluation.
        split: Which evaluation: ``"test"`` or ``"held-out"``.

    Raises:
        ValueError: If runs are on different data, two are the same run, or an evaluation is older
            than the features of its run.
    """
    if split not in EVALUATION_FILES:
        raise ValueError(f"unknown split {split!r}; known: {', '.join(EVALUATION_FILES)}")
    if len(folders) < 2:
        raise ValueError(f"a comparison needs at least two runs, got {len(folders)}")
    runs = [read_run(folder) for folder in folders]
    evaluations = [_evaluation(run, split) for run in runs]
    tests = [evaluation.data["test"] for evaluation in evaluations]
    name = _the_same(tests)
    groups = _groups(runs, evaluations)
    return Comparison(
        groups=groups,
        figures=comparison_rows(
            {g.name: {seed: figures for seed, (_, figures) in g.runs.items()} for g in groups}
        ),
        published=_published(name, groups),
        differing=_differing(groups),
    )


def _the_same(tests: Sequence[dict[str, Any]]) -> str:
    """The name of the set that all runs were measured on.

    Raises:
        ValueError: If they were not: by name, size, or the content of a file.
    """
    names = sorted({test["name"] for test in tests})
    if len(names) > 1:
        raise ValueError(f"runs on different data cannot be compared: {', '.join(names)}")
    if len({(test["n_samples"], test.get("digest")) for test in tests}) > 1:
        raise ValueError(
            f"runs on different data cannot be compared: each was measured on another {names[0]}; "
            "evaluate all on one"
        )
    return str(names[0])


def _evaluation(run: RunRecord, split: str) -> Evaluation:
    path = run.folder / EVALUATION_FILES[split]
    option = "" if split == "test" else f" --split {split}"
    if not run.knows_data:
        option = " --data SET, with a set that has both splits"
    command = f"nonneg evaluate {run.folder}{option}"
    if not path.exists():
        check_is_described(run.folder)
        raise FileNotFoundError(f"{run.folder} has no {path.name}; run: {command}")
    evaluation = Evaluation.read(path)
    if evaluation.model != model_digest(run.folder):
        raise ValueError(
            f"{path} is of other features than the run has now, which was curated or trained "
            f"since; run again: {command}"
        )
    return evaluation


def _groups(runs: list[RunRecord], evaluations: list[Evaluation]) -> list[Group]:
    recipes: list[dict[str, Any]] = []
    members: list[dict[int, tuple[RunRecord, Figures]]] = []
    for run, evaluation in zip(runs, evaluations, strict=True):
        recipe = _recipe(run)
        if recipe not in recipes:
            recipes.append(recipe)
            members.append({})
        group = members[recipes.index(recipe)]
        if run.seed in group:
            raise ValueError(
                f"{run.folder} and {group[run.seed][0].folder} have the same settings and seed "
                f"{run.seed}; give each run once"
            )
        group[run.seed] = (run, evaluation.figures())
    named = zip(_names(recipes), members, strict=True)
    groups = [Group(name, next(iter(g.values()))[0].method, g) for name, g in named]
    # CL or CE is what the others are compared with, in whatever order the runs were given.
    return sorted(groups, key=lambda group: group.method not in ("CL", "CE"))


def _recipe(run: RunRecord) -> dict[str, Any]:
    """What determines the features of a run except the seed: its settings and its curation."""
    return {**run.recipe(), "curation": _curation_text(read_curation(run.folder))}


def _curation_text(curation: dict[str, Any]) -> str:
    """A few words that differ for different curations.

    Example:
        >>> _curation_text({"merged": [[3, 17], [4, 5]], "hidden": [6]})
        'merged 3+17 4+5, hidden 6'
    """
    groups, hidden = curation.get("merged", []), curation.get("hidden", [])
    if not groups and not hidden:
        return "none"
    merged = " ".join("+".join(map(str, group)) for group in groups)
    parts = [f"merged {merged}"] if groups else []
    text = ", ".join([*parts, f"hidden {' '.join(map(str, hidden))}"] if hidden else parts)
    if len(text) <= _LONGEST_CURATION:
        return text
    digest = hashlib.sha256(json.dumps([groups, hidden]).encode()).hexdigest()
    return f"{len(groups)} merged, {len(hidden)} hidden, {digest[:8]}"


def _names(recipes: list[dict[str, Any]]) -> list[str]:
    """CL and NCL, with the settings that tell groups of one method apart."""
    methods = [method(recipe).upper() for recipe in recipes]
    names = []
    for recipe, own in zip(recipes, methods, strict=True):
        peers = [r for r, m in zip(recipes, methods, strict=True) if m == own]
        keys = dict.fromkeys(key for peer in peers for key, _, _ in differences(peers[0], peer))
        told_apart = ", ".join(f"{key.split('.')[-1]} {_at(recipe, key)}" for key in keys)
        names.append(f"{own} ({told_apart})" if told_apart else own)
    return names


def _at(table: dict[str, Any], key: str) -> Any:  # noqa: ANN401
    value: Any = table
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _differing(groups: list[Group]) -> list[str]:
    recipes = [_recipe(next(iter(group.runs.values()))[0]) for group in groups]
    keys = dict.fromkeys(key for r in recipes for key, _, _ in differences(recipes[0], r))
    return [key for key in keys if key not in ("encoder.nonnegative", "loss.name")]


def _published(data: str, groups: list[Group]) -> dict[str, dict[str, Published]]:
    found: dict[str, dict[str, Published]] = {}
    for group in groups:
        for key, figure in published_figures(data, group.method).items():
            found.setdefault(key, {})[group.name] = figure
    return found
