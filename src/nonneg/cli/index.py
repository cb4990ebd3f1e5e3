"""``nonneg index``: the features of a data set as an index that ``nonneg search`` reads."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from nonneg.untrusted import for_terminal


def index(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or any folder with an encoder.")
    ],
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table of texts, an npy, npz or parquet file, a data set's name, or a folder.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The folder of the index. [dim]default: index in the run folder[/]"),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="What samples are called: a column of the table or parquet file. "
            "[dim]default: row numbers[/]",
        ),
    ] = None,
    idf: Annotated[
        bool, typer.Option("--idf", help="Count features the more, the fewer samples have them.")
    ] = False,
    half: Annotated[
        bool, typer.Option("--half", help="Keep values in 16 bits: a fifth to a third less memory.")
    ] = False,
    split: Annotated[
        str | None, typer.Option(help="Named sets and folders: train or test.")
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Fitted runs: the array of an npz, the column of a parquet file."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Runs of texts: their column. [dim]default: as the run was fitted[/]"),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Runs of texts: where the encoder lies now. [dim]default: as then[/]"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where data sets lie. [dim]default: $NONNEG_DATA or ~/.cache/nonneg[/]"),
    ] = None,
) -> None:
    """Build an index of the features of a data set, for nonneg search.

    Texts are embedded as those of the run were; texts and labels are kept beside the index, so that
    results show them. The index knows its run: it is refused where the run is another one, or was
    curated since. An index that is there is replaced once the new one is whole.

    Example: nonneg index runs/reviews reviews.csv

    Example: nonneg index runs/reviews newer.csv --id number --out newer-index
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.runs.indexing import index_run

    console = Console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("embedding", total=None)
        written = index_run(
            run,
            source,
            out=out,
            ids=ids,
            dtype="float16" if half else "float32",
            idf=idf,
            split=split,
            column=column,
            text=text,
            encoder=encoder,
            data_dir=data_dir,
            watch=lambda n_done, n_samples: bar.update(task, completed=n_done, total=n_samples),
        )
    if written.note is not None:
        console.print(written.note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    megabytes = written.n_bytes / 1e6
    size = f"{megabytes:,.1f} MB" if megabytes >= 0.1 else f"{1000 * megabytes:.0f} kB"
    console.print(
        f"{written.n_samples:,} samples × {written.n_features:,} features, {written.active:.1f} "
        f"active, {size}: {for_terminal(str(written.out))}",
        highlight=False,
        soft_wrap=True,
    )
    place = "" if out is None else f" --index {for_terminal(str(out))}"
    console.print(
        f"next: nonneg search {for_terminal(str(run))} QUERY{place}",
        highlight=False,
        soft_wrap=True,
    )
