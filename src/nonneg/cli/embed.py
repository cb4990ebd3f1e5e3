"""``nonneg embed``: the features of any data, from a trained or fitted run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress


def embed(
    run: Annotated[Path, typer.Argument(help="A run folder, or any folder with an encoder.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A data set's name, an npy, npz or parquet file, a table of texts, or a folder.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The npz file to write.")] = Path("features.npz"),
    split: Annotated[
        str | None,
        typer.Option(
            help="train, or test (val is the same). [dim]default: test for named sets, train for a "
            "folder that has both, else all there is[/]"
        ),
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
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Also write the backbone's output.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples at once.")] = 512,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where data sets lie. [dim]default: $NONNEG_DATA or ~/.cache/nonneg[/]"),
    ] = None,
) -> None:
    """Write the features of a data set as an npz file, and labels where they exist.

    Features that are mostly zero are written sparse, as scipy.sparse.load_npz reads them, others
    dense, under the key "features"; nonneg.data.read_features reads both. Vectors of a
    fitted run are read and written part by part, whatever their number; texts of a csv, tsv, jsonl,
    parquet or txt file are first embedded as those of the run were.

    Example: nonneg embed runs/digits-ncl digits --split test --out digits.npz

    Example: nonneg embed runs/reviews newer.csv --out newer.npz
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.evaluation.subject import join_processes
    from nonneg.io import check_output
    from nonneg.runs.embedding import embed_run

    check_output(out, ".npz", read=[source])
    is_first = join_processes()
    console = Console(quiet=not is_first)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("embedding", total=None)
        written = embed_run(
            run,
            source,
            out=out,
            split=split,
            column=column,
            text=text,
            encoder=encoder,
            hidden=hidden,
            batch_size=batch_size,
            data_dir=data_dir,
            writes=is_first,
            watch=lambda n_done, n_samples: bar.update(task, completed=n_done, total=n_samples),
        )
    if written.note is not None:
        console.print(written.note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    kept = "sparse" if written.is_sparse else "dense"
    console.print(
        f"{written.n_samples:,} samples × {written.n_features:,} features, {kept}: {out}",
        highlight=False,
        soft_wrap=True,
    )
