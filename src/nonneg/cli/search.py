"""``nonneg search``: the samples that are nearest to a text, a vector or a sample, and why."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from nonneg.untrusted import for_terminal

if TYPE_CHECKING:
    from nonneg.estimators.reading import Explanation
    from nonneg.runs.searching import FoundSamples

_QUERY, _CHANGES = "The query: one of these", "Changes to the query"
_MOST_CHARACTERS = 200


def search(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of nonneg fit.")],
    query: Annotated[
        str | None,
        typer.Argument(help="A text; or a vector: its numbers with commas or spaces between."),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(
            help="The folder that nonneg index made. [dim]default: index in the run folder[/]"
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="At most so many samples.")] = 10,
    like: Annotated[
        str | None,
        typer.Option(metavar="ID", help="A sample of the index.", rich_help_panel=_QUERY),
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(help="The number of a row of --of, from 0.", rich_help_panel=_QUERY),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="A file of vectors or a table of texts.", rich_help_panel=_QUERY
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|NUMBER",
            help="Features to switch off; may be given several times.",
            rich_help_panel=_CHANGES,
        ),
    ] = None,
    boost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FACTOR",
            help="Features to multiply; may be given several times.",
            rich_help_panel=_CHANGES,
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Search among samples with this label only.")
    ] = None,
    features: Annotated[
        int, typer.Option(min=0, help="Shared features to show of each sample.")
    ] = 4,
    encoder: Annotated[
        str | None,
        typer.Option(help="Runs of texts: where the encoder lies now. [dim]default: as then[/]"),
    ] = None,
) -> None:
    """Find the samples of an index that are nearest to a query, and show why.

    Beside each sample stand the features that it shares with the query and what each adds to the
    cosine. A name stands for all features whose name has its words. For many queries use
    nonneg.runs.RunSearch in Python.

    Example: nonneg search runs/reviews "my card was not accepted"

    Example: nonneg search runs/reviews --like 17 --without card
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.runs.searching import search_run

    found = search_run(
        run,
        query,
        index=index,
        like=like,
        row=row,
        of=of,
        k=k,
        without=[_which(name) for name in without or ()],
        boost=dict(map(_factor, boost or ())),
        label=label,
        encoder=encoder,
    )
    _show(Console(), found, features)


def _which(name: str) -> int | str:
    """A feature by its number or its name."""
    return int(name) if name.isdecimal() else name


def _factor(given: str) -> tuple[int | str, float]:
    name, sign, factor = given.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        sign = ""
    if not sign or not name:
        raise ValueError(f"--boost takes a feature and its factor, as card=2, got {given!r}")
    return _which(name), value


def _show(console: Console, found: "FoundSamples", n_features: int) -> None:
    if not found.query.shared:
        console.print("the query has no active feature: nothing can be found", highlight=False)
        return
    console.print(
        f"query: {for_terminal(_features(found.query, n_features, by_share=True))}",
        highlight=False,
        soft_wrap=True,
    )
    if found.note is not None:
        console.print(found.note, style="yellow", highlight=False, soft_wrap=True)
    if not found.samples:
        console.print("no sample shares a feature with the query", highlight=False)
        return
    samples = found.samples
    table = Table()
    columns = {
        "id": [str(sample.id) for sample in samples],
        "cosine": [f"{sample.cosine:.3f}" for sample in samples],
        "label": [sample.label or "" for sample in samples],
        "text": [_short(sample.text or "") for sample in samples],
        "because of": [_features(sample.why, n_features) for sample in samples],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    for name in shown:
        table.add_column(name, justify="right" if name == "cosine" else "left")
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*map(for_terminal, cells))
    console.print(table)


def _features(why: "Explanation", n: int, *, by_share: bool = False) -> str:
    """The largest contributions with names, and the rest as one."""
    parts = [
        f"{s.name or f'feature {s.feature}'} {s.contribution:.0%}"
        if by_share
        else f"{s.name or f'feature {s.feature}'} {s.contribution:.2f}"
        for s in why.shared[:n]
    ]
    rest = why.shared[n:]
    if rest:
        total = sum(s.contribution for s in rest)
        parts.append(
            f"{len(rest)} more {total:.0%}" if by_share else f"{len(rest)} more {total:.2f}"
        )
    return " · ".join(parts)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"
