"""Filled tables as Markdown, as JSON with every setting, and as a picture."""

import re
import statistics
from pathlib import Path
from typing import Any

from nonneg.head.nonnegative import TRANSFORMS
from nonneg.io import check_folder, read_json, write_bytes, write_json
from nonneg.paper.filling import Curve, Filled, fixed_accuracies, steps_to_reach
from nonneg.paper.tables import PLANS
from nonneg.runs.comparing import MIN_PAIRS, ComparedFigure, comparison_rows

# With more arms than this, arms are rows and figures columns.
_MAX_COLUMNS = 2
_EARLY_STAGE = (
    "Accuracy is first looked at after {:g} steps: an arm that has it there may have had it "
    "before. × is the mean over seeds of the ratio to the steps of the arm that it is compared "
    "with."
)


def check_place(title: str, out: Path, *, command: str, n_seeds: int) -> None:
    """Raise, before any work, where a table would replace one of other settings or more seeds.

    Args:
        title: What its files are called.
        out: The folder that they go to.
        command: That makes it.
        n_seeds: That it will have.
    """
    check_folder(out)
    path = out / f"{title}.json"
    kept = _kept(path)
    if kept is None:
        return
    if _but_seeds(kept["command"]) != _but_seeds(command):
        raise ValueError(
            f"{path} was made by `{kept['command']}`; keep this table elsewhere with --out, or "
            "remove the other"
        )
    if len(kept["seeds"]) > n_seeds:
        raise ValueError(
            f"{path} has {len(kept['seeds'])} seeds; ask for as many with --seeds, keep this table "
            "elsewhere with --out, or remove the other"
        )


def write_table(table: Filled, out: Path, *, command: str) -> Path:
    """Write a table into a folder as ``TITLE.md`` and ``TITLE.json``; gives the first's path.

    Raises:
        ValueError: If the table that is there holds more.
    """
    content = as_json(table, command=command)
    kept = _kept(out / f"{table.title}.json")
    if kept is not None and _n_runs(kept) > _n_runs(content):
        raise ValueError(
            f"{out / table.title}.json has figures of {_n_runs(kept)} runs, this table of "
            f"{_n_runs(content)}: it was left as it is; remove it, or give more time with --budget"
        )
    write_json(out / f"{table.title}.json", content)
    path = out / f"{table.title}.md"
    write_bytes(path, (markdown(table, command=command) + "\n").encode())
    return path


def write_picture(path: Path) -> Path | None:
    """Draw a table from its JSON file, as a PNG beside it; None where its plan draws nothing.

    Learning curves are drawn as they are, other tables as a dot per seed of the main figures.

    Args:
        path: ``TITLE.json``, as ``write_table`` wrote it.
    """
    # Imported on use: matplotlib is slow.
    from nonneg.report.figures import learning_curves, save_figure, seed_dots

    content = _kept(path)
    if content is None:
        raise FileNotFoundError(f"there is no table {path}; make it with nonneg reproduce")
    if curves := _curve_panels(content):
        drawing = learning_curves(curves, y_label="accuracy on held-out samples")
    elif panels := _dot_panels(content):
        drawing = seed_dots(panels, nonnegative=_nonnegative_arms(content))
    else:
        return None
    picture = path.with_suffix(".png")
    save_figure(drawing, picture)
    return picture


def _nonnegative_arms(content: dict[str, Any]) -> set[str]:
    kinds = {
        name: arm["settings"]["encoder"]["nonnegative"] for name, arm in content["arms"].items()
    }
    return {name for name, kind in kinds.items() if TRANSFORMS[kind].is_nonnegative}


def _curve_panels(content: dict[str, Any]) -> dict[str, dict[str, dict[int, Curve]]]:
    """Accuracy over training, by start and method."""
    panels: dict[str, dict[str, dict[int, Curve]]] = {}
    for name, arm in content["arms"].items():
        if arm.get("accuracy_by_step"):
            method, _, start = name.partition(", ")
            panels.setdefault(start or "from scratch", {})[method] = arm["accuracy_by_step"]
    return panels


def _dot_panels(content: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """The values of the main figures by heading and by arm; rates in percent."""
    panels: dict[str, dict[str, list[float]]] = {}
    plan = PLANS.get(content["name"])
    if plan is None:
        return panels
    for key in plan.drawn:
        for name, arm in content["arms"].items():
            for figures in arm["figures"].values():
                found = figures.get(key)
                if found is not None and found["value"] is not None:
                    heading = plan.figures[key]
                    value = found["value"] * (100 if found["is_rate"] else 1)
                    panels.setdefault(heading, {}).setdefault(name, []).append(value)
    return panels


def _kept(path: Path) -> dict[str, Any] | None:
    """The table of a file, or None where there is none."""
    if not path.exists():
        return None
    kept = read_json(path)
    if not isinstance(kept, dict) or not {"command", "seeds", "arms"} <= set(kept):
        raise ValueError(
            f"{path} is no table of nonneg reproduce; remove it, or choose another --out"
        )
    return kept


def _but_seeds(command: str) -> str:
    return re.sub(r" --seeds \d+", "", command)


def _n_runs(table: dict[str, Any]) -> int:
    return sum(len(arm["figures"]) for arm in table["arms"].values())


def markdown(table: Filled, *, command: str) -> str:
    """The table with its explanations."""
    rows = _compared(table)
    grid = (
        _figures_down(table, rows)
        if len(table.figures) <= _MAX_COLUMNS
        else _arms_down(table, rows)
    )
    n_seeds = max((len(runs) for runs in table.figures.values()), default=0)
    minutes = sum(s for runs in table.seconds.values() for s in runs.values()) / 60
    parts = [
        f"# {table.title}",
        table.plan.about,
        grid,
        _of_seeds(n_seeds),
    ]
    if table.plan.paper:
        parts.append("The paper's figures are from larger sets and networks: compare differences.")
    if table.curves:
        parts.append(_early_stage(table))
    if table.curves or table.plan.drawn:
        what = "accuracy over training" if table.curves else "the main figures, a dot per seed"
        parts.append(f"![{what}]({table.title}.png)")
    if table.tuning:
        parts.append(_tuning(table))
    if table.not_measured:
        reasons = (f"{name} ({reason})" for name, reason in table.not_measured.items())
        parts.append("Not measured: " + "; ".join(reasons) + ".")
    if table.missing:
        parts.append("Not there yet: " + "; ".join(table.missing) + ".")
    parts.append(f"Made by `{command}`; {table.timed} took {minutes:.1f} minutes.")
    return "\n\n".join(parts)


def _of_seeds(n: int) -> str:
    if n == 1:
        return "One seed: what another would change is not known."
    if n < MIN_PAIRS:
        return (
            f"Mean ± standard deviation over {n} seeds; differences are paired by seed. It takes "
            f"{MIN_PAIRS} seeds to say which of them are sure."
        )
    return (
        f"Mean ± standard deviation over {n} seeds; differences are paired by seed, and * "
        "marks those whose 95 % interval leaves out zero."
    )


def as_json(table: Filled, *, command: str) -> dict[str, Any]:
    """Every value of every seed, and every setting."""
    return {
        "nonneg": "table",
        "name": table.plan.name,
        "preset": table.preset,
        "command": command,
        "seeds": list(table.seeds),
        "missing": table.missing,
        "not_measured": table.not_measured,
        "evaluation": list(table.plan.evaluation),
        "arms": {
            name: {
                "settings": table.settings[name],
                "starts_from": _start(table, name),
                "tried": {str(k): v for k, v in table.tuning[name].tried.items()}
                if name in table.tuning
                else None,
                "training_seconds": table.seconds[name],
                "accuracy_by_step": table.curves.get(name),
                "figures": {
                    str(seed): {key: figure.as_json() for key, figure in figures.items()}
                    for seed, figures in runs.items()
                },
            }
            for name, runs in table.figures.items()
        },
    }


def _start(table: Filled, name: str) -> str | None:
    start = table.arms[name].starts_from
    return None if start is None else start.name


def _compared(table: Filled) -> dict[str, dict[str, ComparedFigure]]:
    """For each arm its figures, beside those of the arm that it is compared with."""
    first = next(iter(table.figures), "")
    found = {}
    for name, runs in table.figures.items():
        against = table.arms[name].against or first
        # It may not be there yet, where time ran out before its turn.
        beside = table.figures.get(against)
        if beside is None or name == against:
            groups = {name: runs}
        else:
            groups = {against: beside, name: runs}
        found[name] = {row.name: row for row in comparison_rows(groups)}
    return found


def _arms_down(table: Filled, rows: dict[str, dict[str, ComparedFigure]]) -> str:
    heads = ["", *table.plan.figures.values()]
    has_paper = bool(table.plan.paper)
    lines = []
    for name, row in rows.items():
        cells = [_cell(row.get(key), name) for key in table.plan.figures]
        if has_paper:
            printed = (table.plan.paper.get((name, key)) for key in table.plan.figures)
            cells.append(" / ".join(text for text in printed if text) or "–")
        lines.append([name, *cells])
    return grid([*heads, "paper"] if has_paper else heads, lines)


def _figures_down(table: Filled, rows: dict[str, dict[str, ComparedFigure]]) -> str:
    names = list(rows)
    has_paper = bool(table.plan.paper)
    heads = ["", *names, *(["paper: " + " / ".join(names)] if has_paper else [])]
    lines = []
    for key, heading in table.plan.figures.items():
        if not any(key in row for row in rows.values()):
            continue
        cells = [_cell(rows[name].get(key), name) for name in names]
        if has_paper:
            printed = [table.plan.paper.get((name, key)) for name in names]
            cells.append(" / ".join(text or "–" for text in printed) if any(printed) else "–")
        lines.append([heading, *cells])
    return grid(heads, lines)


def _cell(row: ComparedFigure | None, name: str) -> str:
    spread = None if row is None else row.spreads[name]
    if row is None or spread is None:
        return "–"
    text = _number(spread.mean, row)
    n_digits = len(text.partition(".")[2])  # of all that stands beside it

    def beside(value: float) -> str:
        return f"{100 * value if row.is_rate else value:.{n_digits}f}"

    cell = text if spread.std is None else f"{text} ± {beside(spread.std)}"
    difference = row.differences.get(name)
    if difference is not None:
        sign = "+" if difference.mean >= 0 else "−"
        star = " *" if difference.is_significant else ""
        cell += f" ({sign}{beside(abs(difference.mean))}{star})"
    null = row.nulls[name]
    return cell if null is None else f"{cell}, null {beside(null)}"


def _number(value: float, row: ComparedFigure) -> str:
    if row.is_rate:
        return f"{100 * value:.2f}"
    # Three digits, also where the last are zeros: columns then line up.
    return f"{value:#.3g}" if 0 < abs(value) < 100 else f"{value:,.1f}"


def _early_stage(table: Filled) -> str:
    """Steps until fixed accuracies, and the ratio to the arm that each is compared with."""
    targets = fixed_accuracies(table.curves)
    heads = [
        "steps until an accuracy on held-out samples of",
        *(f"{100 * t:.0f} %" for t in targets),
    ]
    first = next(iter(table.curves), "")
    lines = []
    for name, runs in table.curves.items():
        against = table.curves.get(table.arms[name].against or first, {})
        cells = []
        for target in targets:
            steps = {seed: steps_to_reach(curve, target) for seed, curve in runs.items()}
            known = {seed: n for seed, n in steps.items() if n is not None}
            ratios = [
                n / other
                for seed, n in known.items()
                if seed in against and (other := steps_to_reach(against[seed], target))
            ]
            ratio = f" (× {statistics.fmean(ratios):.2f})" if against is not runs and ratios else ""
            has_all = len(known) == len(runs)
            cells.append(f"{statistics.fmean(known.values()):.0f}{ratio}" if has_all else "–")
        lines.append([name, *cells])
    curves = [curve for runs in table.curves.values() for curve in runs.values() if curve]
    first_look = min((curve[0][0] for curve in curves), default=0)
    return f"{grid(heads, lines)}\n\n{_EARLY_STAGE.format(first_look)}"


def _tuning(table: Filled) -> str:
    assert table.plan.grid is not None
    setting, figure = table.plan.grid.setting, table.plan.grid.figure
    lines = [
        [
            name,
            f"{found.best:g}",
            ", ".join(
                f"{k:g}: {'no figure' if v is None else f'{100 * v:.2f}'}"
                for k, v in found.tried.items()
            ),
        ]
        for name, found in table.tuning.items()
    ]
    heads = ["", f"{setting} chosen", f"{figure} on held-out samples, one seed, by {setting}"]
    return grid(heads, lines)


def grid(heads: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join(
        "| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *lines]
    )
