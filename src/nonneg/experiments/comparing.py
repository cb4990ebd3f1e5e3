"""How do runs compare? Grouped by their settings, one row a figure, paired over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nonneg.evaluation import Evaluation, Figures
from nonneg.evaluation.comparison import ComparedFigure, compared
from nonneg.evaluation.published import PAPER, Published
from nonneg.experiments.evaluating import EVALUATION_FILES
from nonneg.experiments.experiment import method
from nonneg.experiments.runs import RunRecord, read_run
from nonneg.experiments.thinned import check_is_described
from nonneg.settings import differences


@dataclass(frozen=True)
class Group:
    """Runs that differ by their seed only."""

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


def compare_runs(folders: Sequence[str | Path], *, split: str = "test") -> Comparison:
    """Evaluated runs side by side.

    Args:
        folders: Of runs with an evaluation.
        split: Which evaluation: ``"test"`` or ``"held-out"``.

    Raises:
        ValueError: If runs are on different data, or two are the same run.
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
        figures=compared(
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
    if not path.exists():
        check_is_described(run.folder)
        option = "" if split == "test" else f" --split {split}"
        if not run.knows_data:
            option = " --data SET, with a set that has both splits"
        raise FileNotFoundError(
            f"{run.folder} has no {path.name}; run: nonneg evaluate {run.folder}{option}"
        )
    return Evaluation.read(path)


def _groups(runs: list[RunRecord], evaluations: list[Evaluation]) -> list[Group]:
    recipes: list[dict[str, Any]] = []
    members: list[dict[int, tuple[RunRecord, Figures]]] = []
    for run, evaluation in zip(runs, evaluations, strict=True):
        recipe = run.recipe()
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
    recipes = [next(iter(group.runs.values()))[0].recipe() for group in groups]
    keys = dict.fromkeys(key for r in recipes for key, _, _ in differences(recipes[0], r))
    return [key for key in keys if key not in ("encoder.nonnegative", "loss.name")]


def _published(data: str, groups: list[Group]) -> dict[str, dict[str, Published]]:
    found: dict[str, dict[str, Published]] = {}
    for (name, by, figure), published in PAPER.items():
        for group in groups:
            if (name, by) == (data, group.method):
                found.setdefault(figure, {})[group.name] = published
    return found
