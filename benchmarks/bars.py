"""The bars of the recipe, readable features without loss, checked on the tables' figures.

python -m benchmarks.bars, after ``nonneg reproduce`` for properties, transfer, disentanglement and
selection.
"""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent.parent / "results"
PRESETS = ("fashion-mnist", "cifar10-small")
TABLES = ("properties", "transfer", "disentanglement", "selection")
Values = dict[str, float]  # figures of one run by name


class Bar(NamedTuple):
    """One demand, for the figures of a CL and an NCL run of the same seed."""

    text: str
    limit: float
    is_least: bool
    """Whether the limit is the least that is allowed; else it is the most."""
    unit: str
    measure: Callable[[Values, Values], float]

    def is_met(self, value: float) -> bool:
        """Whether a mean over seeds is on the right side of the limit."""
        return value >= self.limit if self.is_least else value <= self.limit


def _gain(figure: str) -> Callable[[Values, Values], float]:
    return lambda cl, ncl: 100 * (ncl[figure] - cl[figure])


BARS = (
    Bar("sparsity over alive features", 95, True, " %", lambda _, n: 100 * n["sparsity_alive"]),
    Bar("alive features", 50, True, " %", lambda _, n: 100 * n["alive_rate"]),
    Bar(
        "impurity (1 − top-20 purity), as a multiple of CL's",
        0.6,
        False,
        " ×",
        lambda c, n: (1 - n["top20_purity"]) / (1 - c["top20_purity"]),
    ),
    Bar("SEPIN@1, as a multiple of CL's", 4, True, " ×", lambda c, n: n["sepin_1"] / c["sepin_1"]),
    Bar("linear probe (hidden), NCL − CL", -0.5, True, "", _gain("probe_hidden")),
    Bar("precision@10 (features), NCL − CL", -0.5, True, "", _gain("precision_features")),
    Bar(
        "retrieval lost with a quarter of the alive features, by EA",
        1,
        False,
        "",
        lambda _, n: (
            100 * (n["selection_retrieval_all"] - n["selection_retrieval_0.25_ea_rectified"])
        ),
    ),
    Bar("probe, corrupted, NCL − CL", -0.5, True, "", _gain("robust_corruption")),
    Bar("probe, sketched, NCL − CL", -0.5, True, "", _gain("robust_sketch")),
    Bar("probe, stylised, NCL − CL", -0.5, True, "", _gain("robust_stylised")),
)


def table(folder: Path) -> str:
    """The bars as a table of Markdown, a column for each preset whose tables are all there."""
    columns = {
        preset: pairs
        for preset in PRESETS
        if all((folder / f"{name}-{preset}.json").exists() for name in TABLES)
        for pairs in [paired_figures(folder, preset)]
    }
    lines = [
        "# bars",
        "",
        "| | bar | " + " | ".join(columns) + " |",
        "|---" * (2 + len(columns)) + "|",
    ]
    for bar in BARS:
        cells = [_cell(bar, pairs) for pairs in columns.values()]
        sign = "≥" if bar.is_least else "≤"
        limit = f"{sign} {_number(bar.limit)}{bar.unit}"
        lines.append(f"| {bar.text} | {limit} | " + " | ".join(cells) + " |")
    seeds = ", ".join(f"{len(pairs)} on {preset}" for preset, pairs in columns.items())
    shared = [preset for preset, pairs in columns.items() if _has_one_backbone(pairs)]
    note = (
        f" Both methods of a seed have the same backbone ({', '.join(shared)}): "
        "its bars are met by construction."
    )
    return "\n".join(
        [
            *lines,
            "",
            f"Mean ± standard deviation over seeds ({seeds}), paired; differences are in points. "
            "**Bold** is short of the bar." + (note if shared else ""),
            "",
            "Made by `python -m benchmarks.bars` from the tables below.",
            "",
        ]
    )


def paired_figures(folder: Path, preset: str) -> list[tuple[Values, Values]]:
    """All figures of CL and of NCL, for each seed that every table has.

    Raises:
        ValueError: If tables are of runs with different settings.
    """
    seeds: list[set[str]] = []
    found: dict[tuple[str, str], Values] = {}
    settings: dict[str, Any] = {}
    for name in TABLES:
        arms = json.loads((folder / f"{name}-{preset}.json").read_text())["arms"]
        seeds.append(set(arms["CL"]["figures"]) & set(arms["NCL"]["figures"]))
        for arm in ("CL", "NCL"):
            if settings.setdefault(arm, arms[arm]["settings"]) != arms[arm]["settings"]:
                raise ValueError(
                    f"{name}-{preset} is of other {arm} runs than {TABLES[0]}-{preset}; make both "
                    "with nonneg reproduce"
                )
            for seed, figures in arms[arm]["figures"].items():
                values = {key: figure["value"] for key, figure in figures.items()}
                found.setdefault((arm, seed), {}).update(values)
    common = sorted(set.intersection(*seeds), key=int)
    return [(found["CL", seed], found["NCL", seed]) for seed in common]


def _has_one_backbone(pairs: list[tuple[Values, Values]]) -> bool:
    names = ("probe_hidden", "robust_corruption", "robust_sketch", "robust_stylised")
    return all(cl[name] == ncl[name] for cl, ncl in pairs for name in names)


def _cell(bar: Bar, pairs: list[tuple[Values, Values]]) -> str:
    values = [bar.measure(*pair) for pair in pairs]
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    text = f"{_number(mean(values))}{spread}{bar.unit}"
    return text if bar.is_met(mean(values)) else f"**{text}**"


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def main() -> None:
    """Write ``bars.md`` beside the tables."""
    (RESULTS / "bars.md").write_text(table(RESULTS))


if __name__ == "__main__":
    main()
