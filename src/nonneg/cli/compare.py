"""``nonneg compare``: evaluated runs side by side, paired over seeds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from nonneg.untrusted import for_terminal

if TYPE_CHECKING:
    from nonneg.evaluation.published import Published
    from nonneg.runs.comparing import ComparedFigure, Comparison, Difference, Spread


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of evaluated runs.")],
    split: Annotated[str, typer.Option(help="test, or held-out.")] = "test",
    only: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only figures whose name has this in it.")
    ] = None,
) -> None:
    """Compare runs: mean ± standard deviation over seeds, and differences paired by seed.

    Runs that differ by their seed only form a group; CL comes first, and the others are compared
    with it. A winner is marked with * only where the 95 % interval of the paired differences leaves
    out zero, which takes at least three seeds. Below a figure stands what chance gives, where that
    was measured: permuted labels, for class consistency and purity.

    Example: nonneg compare runs/fashion-mnist-cl* runs/fashion-mnist-ncl*
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.runs.comparing import MIN_PAIRS, compare_runs

    comparison = compare_runs(runs, split=split)
    console = Console()
    console.print(_table(comparison, only))
    if comparison.differing:
        console.print(
            "these groups differ by more than the transform: " + ", ".join(comparison.differing),
            style="yellow",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    n_pairs = comparison.fewest_pairs
    if n_pairs < MIN_PAIRS:
        few = ("have no paired seeds", "have 1 paired seed only", "have 2 paired seeds only")
        console.print(
            f"some figures {few[n_pairs]}: too few to name a winner; train and evaluate at least "
            f"{MIN_PAIRS} seeds of each, the same ones",
            style="yellow",
            soft_wrap=True,
        )


def _table(comparison: "Comparison", only: str | None) -> Table:
    from nonneg.metrics.figures import number_text, shown_kind

    names = [group.name for group in comparison.groups]
    seeds = " · ".join(f"{group.name}: {_runs(len(group.runs))}" for group in comparison.groups)
    table = Table(title=for_terminal(seeds), title_justify="left")
    table.add_column("figure", no_wrap=True)
    for name in names:
        table.add_column(for_terminal(name), justify="right")
    for name in names[1:]:
        table.add_column(for_terminal(f"{name} − {names[0]}"), justify="right")
    has_paper = any(row.name in comparison.published for row in comparison.figures)
    if has_paper:
        table.add_column(
            "paper: " + " / ".join(for_terminal(name) for name in names), justify="right"
        )
    rows = [
        row
        for row in comparison.figures
        if only is None or only in row.name or only in shown_kind(row.name).title
    ]
    if not rows:
        raise ValueError(f"no figure has {only!r} in its name")
    for row in rows:
        cells = [_spread(row, name) for name in names]
        cells += [_difference(row, row.differences[name]) for name in names[1:]]
        if has_paper:
            published = comparison.published.get(row.name, {})
            cells.append(" / ".join(_paper(published.get(name)) for name in names))
        table.add_row(shown_kind(row.name).title, *cells)
        if any(null is not None for null in row.nulls.values()):
            nulls = (number_text(row.nulls[name], is_rate=row.is_rate) for name in names)
            table.add_row("  by chance", *nulls, style="dim")
    return table


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n} runs"


def _spread(row: "ComparedFigure", group: str) -> str:
    spread: Spread | None = row.spreads[group]
    if spread is None:
        return "–"
    text = _with_std(spread.mean, spread.std, row) + (" %" if row.is_rate else "")
    return f"[bold green]{text} *[/]" if row.winner == group else text


def _difference(row: "ComparedFigure", difference: "Difference | None") -> str:
    if difference is None:
        return "–"
    sign = "+" if difference.mean >= 0 else "−"
    # Of two percentages the difference is in points, not in percent of anything.
    unit = " points" if row.is_rate else ""
    return sign + _with_std(abs(difference.mean), difference.std, row) + unit


def _with_std(mean: float, std: float | None, row: "ComparedFigure") -> str:
    from nonneg.metrics.figures import number_text

    if row.is_rate:
        return f"{100 * mean:.2f}" + ("" if std is None else f" ± {100 * std:.2f}")
    return number_text(mean) + ("" if std is None else f" ± {number_text(std)}")


def _paper(published: "Published | None") -> str:
    if published is None:
        return "–"
    std = "" if published.std is None else f" ± {100 * published.std:.1f}"
    return f"{100 * published.value:.1f}{std} %"
