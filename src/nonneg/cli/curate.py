"""``nonneg curate``: features of a fitted run, renamed, merged or hidden by a person."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nonneg.untrusted import for_terminal


def curate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of nonneg fit.")],
    changes: Annotated[
        Path | None,
        typer.Argument(metavar="[CHANGES.json]", help="What to change, as the atlas saves it."),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="First undo all that was changed before.")
    ] = False,
) -> None:
    """Rename, merge and hide features of a fitted run, or show what was changed.

    A file of changes comes from the page that nonneg report writes, or from an editor:
    {"rename": {"3": "refunds"}, "merge": [[3, 17]], "hide": [5]}. A merged feature has the number
    of the first and the length of all; weights stay as they were learnt. evaluate, report and
    embed then see the changed features.

    Example: nonneg curate runs/reviews changes.json
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.runs.curating import curate_run

    console = Console()
    curated = curate_run(run, changes, undo=undo)
    if not curated.lines:
        console.print("no feature is renamed, merged or hidden", highlight=False)
    else:
        table = Table(title=for_terminal(run.name), title_justify="left")
        for column in ("feature", "name", "change"):
            table.add_column(column)
        for number, name, change in curated.lines:
            table.add_row(str(number), for_terminal(name), for_terminal(change))
        console.print(table)
    if curated.note is not None:
        console.print(curated.note, highlight=False, markup=False, soft_wrap=True)
    if curated.is_changed:
        shown = for_terminal(str(run))
        console.print(f"next: nonneg report {shown}", highlight=False, soft_wrap=True)
        if (run / "index").is_dir():
            console.print(
                f"and, for search and serve: nonneg index {shown} DATA",
                highlight=False,
                soft_wrap=True,
            )
