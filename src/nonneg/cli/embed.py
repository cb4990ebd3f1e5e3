"""``nonneg embed``: the features of any data, from a trained or fitted run."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

_MANY = "Many parquet files"


def embed(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or any folder with an encoder.")
    ],
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A data set's name, an npy, npz or parquet file, a table of texts, or a folder. "
            "Fitted runs, many parquet files: a folder, a pattern in quotes, or a URI.",
        ),
    ],
    out: Annotated[
        str, typer.Option(help="The npz file to write; for many files a folder or URI.")
    ] = "features.npz",
    split: Annotated[
        str | None,
        typer.Option(
            help="train, or test (val is the same). [dim]default: test for named sets, train for a "
            "folder that has both, else all there is[/]"
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Fitted runs: the array of an npz, the column of parquet files."),
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
    id_: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="The column that rows are known by. [dim]default: their numbers over all files[/]",
            rich_help_panel=_MANY,
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Only the I-th of N shares of the files, from 1/N to N/N.",
            rich_help_panel=_MANY,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="local, or ray: on a cluster. [dim]default: local[/]", rich_help_panel=_MANY
        ),
    ] = None,
) -> None:
    """Write the features of a data set as an npz file, and labels where they exist.

    Features that are mostly zero are written sparse, as scipy.sparse.load_npz reads them, others
    dense, under the key "features"; nonneg.data.read_features reads both. Vectors of a
    fitted run are read and written part by part, whatever their number; texts of a csv, tsv, jsonl,
    parquet or txt file are first embedded as those of the run were.

    Of many parquet files each gets a file of features with the same name in the folder --out: id,
    indices and values of each row. Files that are whole are skipped when the command is given
    again, and processes or machines may each take a share.

    Example: nonneg embed runs/digits-ncl digits --split test --out digits.npz

    Example: nonneg embed runs/reviews newer.csv --out newer.npz

    Example: nonneg embed runs/mine 'in/*.parquet' --out features --shard 2/8
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.data.fragments import are_fragments
    from nonneg.data.sources import names
    from nonneg.evaluation.subject import join_processes
    from nonneg.io import check_output
    from nonneg.runs.embedding import embed_run
    from nonneg.runs.record import is_fitted

    for_many = {"--id": id_, "--shard": shard, "--engine": engine}
    # A folder may be one of images, for a trained run.
    if are_fragments(source) and (is_fitted(run) or not Path(source).is_dir()):
        of_one = {"--split": split, "--data-dir": data_dir, "--hidden": hidden or None}
        _check_absent(of_one, f"{source} names many files of vectors or texts")
        _embed_many(run, source, out, column, text, encoder, *for_many.values())
        return
    _check_absent(for_many, "it is for a fitted run and many parquet files")
    if is_fitted(run) and not Path(source).exists() and source not in names():
        raise FileNotFoundError(f"there is no file or folder {source}")
    check_output(Path(out), ".npz", read=[source])
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


def _check_absent(options: dict[str, Any], why: str) -> None:
    """Raise a sentence for the first option that was given."""
    given = next((name for name, value in options.items() if value is not None), None)
    if given is not None:
        raise ValueError(f"leave out {given}: {why}")


def _embed_many(
    run: Path,
    source: str,
    out: str,
    column: str | None,
    text: str | None,
    encoder: str | None,
    id_column: str | None,
    shard: str | None,
    engine: str | None,
) -> None:
    """Embed parquet files under a progress bar, and say what was done."""
    from nonneg.runs.fragment_embedding import Shard, embed_fragments

    if out.endswith(".npz"):
        raise ValueError(f"{source} names many files; name a folder for their features with --out")
    console = Console()
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("embedding", total=None)
        done = embed_fragments(
            run,
            source,
            out=out,
            column=column,
            text=text,
            id_column=id_column,
            encoder=encoder,
            shard=None if shard is None else Shard.read(shard),
            engine=engine or "local",
            watch=lambda n_done, n_rows: bar.update(task, completed=n_done, total=n_rows),
        )
    there = f", {done.n_there_already:,} of them there already" if done.n_there_already else ""
    files = "file" if done.n_files == 1 else "files"
    of_shard = "" if shard is None else f" of shard {shard}"
    console.print(
        f"{done.n_files:,} {files}{of_shard} with {done.n_rows:,} rows{there}: {done.out}",
        highlight=False,
        soft_wrap=True,
    )
