"""``nonneg export``: a run, or features of data, for other programs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

_OF_POINTS = "For points"


def export(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or any folder with an encoder.")
    ],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="What becomes points: a file of vectors or texts, a data set's name, a folder.",
        ),
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="TARGET",
            help="sentence-transformers or onnx for the model; qdrant, elasticsearch, opensearch "
            "or jsonl for points.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write, for onnx the file.")],
    encoder: Annotated[
        str | None,
        typer.Option(help="Where the encoder of texts lies now. [dim]default: as it was fitted[/]"),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help="The column of the texts. [dim]default: as the run was fitted[/]",
            rich_help_panel=_OF_POINTS,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="The array of an npz file, the column of a parquet file.",
            rich_help_panel=_OF_POINTS,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Of a trained run's data: train or test. [dim]default: test for named sets[/]",
            rich_help_panel=_OF_POINTS,
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where data sets lie. [dim]default: $NONNEG_DATA or ~/.cache/nonneg[/]",
            rich_help_panel=_OF_POINTS,
        ),
    ] = None,
) -> None:
    """Write a run for other programs, or the features of data as points of a search engine.

    sentence-transformers: a folder that SparseEncoder loads, of its own modules only, with the
    names of the features. onnx: the encoder with a batch of any size. qdrant, elasticsearch and
    opensearch: files to load, the settings of the index, and a query; jsonl: one sample per line.
    An earlier export for the same target is replaced. What cannot be exported exactly is refused.

    Example: nonneg export runs/reviews --to sentence-transformers --out reviews-encoder

    Example: nonneg export runs/reviews newer.csv --to qdrant --out points
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.runs.exporting import export_run

    console = Console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("exporting", total=None)
        written = export_run(
            run,
            to,
            out=out,
            source=source,
            encoder=encoder,
            text=text,
            column=column,
            split=split,
            data_dir=data_dir,
            watch=lambda n_done, n_samples: bar.update(task, completed=n_done, total=n_samples),
        )
    for note in written.notes:
        console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.print(written.summary, highlight=False, markup=False, soft_wrap=True)
