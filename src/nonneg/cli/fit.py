"""``nonneg fit``: readable features of texts, or of vectors that exist, as a run like any other."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from rich.table import Table

from nonneg.untrusted import for_terminal

if TYPE_CHECKING:
    from nonneg.data.fragments import DrawnFrom
    from nonneg.runs.fitting import FittedRun
    from nonneg.runs.vector_fits import VectorFiles

_TEXTS = "Tables of texts"
_N_STRONGEST = 10


def fit(
    source: Annotated[
        str,
        typer.Argument(
            metavar="X",
            help="Texts: a csv, tsv, jsonl, parquet or txt file. Or vectors: npy, npz or parquet. "
            "Or many parquet files: a folder, a pattern in quotes, or a URI.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The run folder. [dim]default: runs/ and X's name[/]")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="The column of the texts.", rich_help_panel=_TEXTS)
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column of their labels.", rich_help_panel=_TEXTS)
    ] = None,
    date: Annotated[
        str | None,
        typer.Option(
            help="The column of their dates: 2024, 2024-05, 2024-05-31 or a time.",
            rich_help_panel=_TEXTS,
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|NAME",
            help="A sentence-transformers model: a folder, or a name on the Hugging Face hub. "
            "[dim]default: all-MiniLM-L6-v2, for English[/]",
            rich_help_panel=_TEXTS,
        ),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="Vectors of the texts that exist, one each: nothing is embedded.",
            rich_help_panel=_TEXTS,
        ),
    ] = None,
    page: Annotated[
        bool,
        typer.Option("--page/--no-page", help="Write atlas.html.", rich_help_panel=_TEXTS),
    ] = True,
    labels: Annotated[
        Path | None, typer.Option(help="One label per vector: npy, or text with one per line.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="What belongs together: neighbors, noise, labels, graph or index. "
            "[dim]default: graph or index where such a file is given, else neighbors[/]"
        ),
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="SciPy sparse weights between the vectors, npz.")
    ] = None,
    index_pairs: Annotated[
        Path | None, typer.Option(help="Numbers of vectors that belong together, npy (n, 2).")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Other vectors, to measure on; read as X is.")
    ] = None,
    test_labels: Annotated[Path | None, typer.Option(help="Their labels.")] = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.9,
            help="Share of X to keep for measuring (at most 10,000). "
            "[dim]default: 0.1, without --test[/]",
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The array of an npz, the column of a parquet file.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An argument of nonneg.NCL, with seed for random_state; repeatable.",
        ),
    ] = None,
) -> None:
    """Learn sparse, readable features of texts or vectors, and leave them in a run folder.

    Texts are embedded first; their vectors are kept beside the run, and embedding goes on where it
    was interrupted. Features are then named by their words: features.csv lists them, and atlas.html
    shows them with all texts.

    evaluate, compare, report and embed work on it as on a trained run; nonneg.NCL.load reads it in
    Python. A large npy file is mapped, not read; with --test, or --test-share 0, no part of it is
    copied. Features are NCL's; --set nonnegative=identity is ordinary contrastive learning.

    Of many parquet files 75,536 rows are drawn, the same ones however they are split into files,
    and kept beside the run: NCL learns from at most 65,536.

    Example: nonneg fit reviews.csv --text body --label kind --date day --out runs/reviews

    Example: nonneg fit vectors.npy --labels kinds.npy --set temperature=0.2 --out runs/mine

    Example: nonneg fit 's3://bucket/vectors/*.parquet' --column vector --out runs/large
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.data.fragments import are_fragments
    from nonneg.runs.fitting import fit_run
    from nonneg.runs.text_fits import are_texts
    from nonneg.runs.vector_fits import VectorFiles, vector_experiment

    console = Console()
    if test and test_share:
        raise ValueError(
            "--test names other vectors to measure on, --test-share keeps a part of X for that; "
            "leave one of them out"
        )
    has_fragments = are_fragments(source)
    out = out or Path("runs") / _name(source)
    default_share = 0.0 if test else 0.1
    kept = default_share if test_share is None else test_share
    chosen = [*(set_ or []), *([] if pairs is None else [f"pairs={pairs}"])]
    others: dict[str, Any] = {
        "column": column,
        "test_share": kept,
        "graph": graph,
        "index_pairs": index_pairs,
    }
    of_vectors = {"labels": labels, "test": test, "test_labels": test_labels}
    of_texts = {"text": text, "label": label, "date": date, "encoder": encoder, "vectors": vectors}
    has_texts = are_texts(source, text)
    _check_options(source, has_texts, of_vectors if has_texts else of_texts)
    if has_texts or has_fragments:
        # It may take hours before a fit: settings that are wrong are refused first.
        known = {"graph": graph and str(graph), "index_pairs": index_pairs and str(index_pairs)}
        vector_experiment(VectorFiles.read({"vectors": "", **known}), chosen)
    if has_fragments:
        by_row = {"labels": labels, "vectors": vectors, "graph": graph, "index_pairs": index_pairs}
        read, others["drawn"] = _drawn(
            console, source, out, by_row, column, of_texts if has_texts else None
        )
    else:
        read = source
    if has_texts:
        files = _embedded(console, Path(read), out, **of_texts, **others)
    else:
        files = VectorFiles.at(vectors=read, **of_vectors, **others)
    experiment, machine = vector_experiment(files, chosen)
    machine["verbose"] = max(machine["verbose"], int(console.is_terminal))
    run = fit_run(experiment, out=out, machine=machine)
    for note in run.notes:
        console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    if run.is_new:
        console.print(_table(run, test))
    else:
        console.print(f"already done: {run.folder}", highlight=False, soft_wrap=True)
    if has_texts:
        write_outputs(console, run, with_page=page)
    for command in _next_commands(run, str(vectors or source), has_texts):
        console.print(f"next: {for_terminal(command)}", highlight=False, soft_wrap=True)


def _name(source: str) -> str:
    """What to call a run: the file without its ending, or the folder that many files are in."""
    parts = source.split("://")[-1].split("/")
    plain = [part for part in parts if part.strip(".") and not set(part) & set("*?[")]
    return Path(plain[-1].removesuffix(".gz")).stem if plain else "run"


def _drawn(
    console: Console,
    source: str,
    out: Path,
    by_row: dict[str, Any],
    column: str | None,
    of_texts: dict[str, Any] | None,
) -> tuple[str, "DrawnFrom"]:
    """A file of rows drawn from many files, under a progress bar, and what it is of."""
    from nonneg.data.text_records import Columns
    from nonneg.runs.drawn_rows import drawn_file
    from nonneg.training.run_folder import RunFolder

    wrong = next((name for name, value in by_row.items() if value is not None), None)
    if wrong is not None:
        raise ValueError(
            f"--{wrong.replace('_', '-')} goes with the rows of one file, and of {source} only "
            "some are drawn; leave it out"
        )
    RunFolder(out).check_free()
    texts = None if of_texts is None else Columns(*(of_texts[key] for key in Columns._fields))
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("drawing rows", total=None)
        found = drawn_file(
            source,
            out=out,
            column=column,
            texts=texts,
            watch=lambda n_done, n_rows: bar.update(task, completed=n_done, total=n_rows),
        )
    console.print(found.note, highlight=False, markup=False, soft_wrap=True)
    return str(found.path), found.origin


def _check_options(source: str, has_texts: bool, others: dict[str, Any]) -> None:
    """Raise a sentence for an option that is for the other kind of file."""
    wrong = next((name for name, value in others.items() if value is not None), None)
    if wrong is None:
        return
    option = f"--{wrong.replace('_', '-')}"
    if has_texts:
        instead = " use --label for a column of labels," if "labels" in wrong else ""
        raise ValueError(f"{source} holds texts, {option} is for vectors;{instead} leave it out")
    raise ValueError(
        f"{option} is for texts, and {source} holds vectors; give a csv, tsv, jsonl or txt file, "
        "or name the column of the texts with --text"
    )


def _embedded(console: Console, source: Path, out: Path, **given: Any) -> "VectorFiles":  # noqa: ANN401
    """The files of a run on texts, embedded under a progress bar."""
    from nonneg.runs.text_fits import text_files
    from nonneg.training.run_folder import RunFolder

    RunFolder(out).check_free()
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("embedding", total=None)
        return text_files(
            source,
            out=out,
            watch=lambda n_done, n_texts: bar.update(task, completed=n_done, total=n_texts),
            **given,
        )


def write_outputs(console: Console, run: "FittedRun", *, with_page: bool = True) -> None:
    """Print the strongest features of a run on texts; write table and page that are not as new."""
    from nonneg.runs.fitting import FEATURES_FILE, write_features_table

    console.print(_strongest(run))
    table = run.folder / FEATURES_FILE
    if run.is_new or not _is_renewed(table):
        write_features_table(run.folder, run.ncl)
        console.print(f"all features: {table}", highlight=False, soft_wrap=True)
    path = run.folder / "atlas.html"
    if with_page and (run.is_new or not _is_renewed(path)):
        # Imported on use: a run without a page needs none of it.
        from nonneg.report.assembly import atlas

        with console.status("the atlas") as status:
            written = atlas(run.folder, watch=status.update)
        size = f"{written.n_bytes / 1e6:.1f} MB, {written.n_shown:,} texts"
        console.print(f"the atlas ({size}): {written.path}", highlight=False, soft_wrap=True)


def _is_renewed(path: Path) -> bool:
    """Whether a file of a run was written after its features were last fitted or curated."""
    from nonneg.encoder import CONFIG_FILE

    fitted = path.parent / CONFIG_FILE
    return path.exists() and path.stat().st_mtime_ns >= fitted.stat().st_mtime_ns


def _strongest(run: "FittedRun") -> Table:
    ncl = run.ncl
    off = {*ncl.curation_.hidden, *ncl.curation_.merged_away}
    shown = [number for number in ncl.rank_.tolist() if number not in off]
    table = Table(title="strongest features", title_justify="left")
    table.add_column("feature", justify="right")
    table.add_column("name")
    table.add_column("mean activation", justify="right")
    for number in shown[:_N_STRONGEST]:
        name = ncl.feature_names_[number] if ncl.feature_names_ else ""
        table.add_row(str(number), for_terminal(name), f"{ncl.expected_activation_[number]:.3f}")
    return table


def _table(run: "FittedRun", test: Path | None) -> Table:
    ncl = run.ncl
    where = "test" if run.n_test else "training"
    table = Table(title=for_terminal(run.folder.name), title_justify="left", show_header=False)
    table.add_row("samples learnt from", f"{run.n_train:,}")
    kept = (
        "samples kept for testing" if test is None else f"test samples of {for_terminal(test.name)}"
    )
    table.add_row(kept, f"{run.n_test:,}")
    table.add_row("principal axes kept", f"{ncl.n_axes_:,} of {ncl.n_features_in_:,}")
    table.add_row("steps", f"{ncl.n_iter_:,}")
    table.add_row(f"active features per {where} sample", f"{run.active_per_sample:.1f}")
    table.add_row("alive features", f"{ncl.n_alive_:,} of {ncl.encoder_.n_features:,}")
    table.add_row("dead features", f"{ncl.n_dead_:,}")
    table.add_row("seconds", f"{run.seconds:.1f}")
    return table


def _next_commands(run: "FittedRun", source: str, has_texts: bool) -> list[str]:
    from nonneg.data.fragments import are_fragments

    features = f"{_name(source)}-features"
    out = features if are_fragments(source) else f"{features}.npz"
    commands = [f"nonneg embed {run.folder} {shlex.quote(source)} --out {out}"]
    if run.n_test:
        report = [] if has_texts else [f"nonneg report {run.folder}"]
        commands = [f"nonneg evaluate {run.folder}", *report, *commands]
    return commands
