"""``nonneg fit``: readable features of vectors that exist, as a run like any other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from nonneg.runs.fitting import FittedRun


def fit(
    vectors: Annotated[
        Path, typer.Argument(metavar="X", help="Vectors: an npy, npz or parquet file.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The run folder. [dim]default: runs/ and X's name[/]")
    ] = None,
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
    """Learn sparse, readable features of vectors, and leave them in a run folder.

    evaluate, compare, report and embed work on it as on a trained run; nonneg.NCL.load reads it in
    Python. A large npy file is mapped, not read; with --test, or --test-share 0, no part of it is
    copied. Features are NCL's; --set nonnegative=identity is ordinary contrastive learning.

    Example: nonneg fit vectors.npy --labels kinds.npy --set temperature=0.2 --out runs/mine
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.runs.fitting import fit_run
    from nonneg.runs.vector_fits import VectorFiles, vector_experiment

    console = Console()
    if test and test_share:
        raise ValueError(
            "--test names other vectors to measure on, --test-share keeps a part of X for that; "
            "leave one of them out"
        )
    default_share = 0.0 if test else 0.1
    files = VectorFiles.at(
        vectors=vectors,
        column=column,
        labels=labels,
        test=test,
        test_labels=test_labels,
        test_share=default_share if test_share is None else test_share,
        graph=graph,
        index_pairs=index_pairs,
    )
    chosen = [*(set_ or []), *([] if pairs is None else [f"pairs={pairs}"])]
    experiment, machine = vector_experiment(files, chosen)
    machine["verbose"] = max(machine["verbose"], int(console.is_terminal))
    run = fit_run(experiment, out=out or Path("runs") / vectors.stem, machine=machine)
    for note in run.notes:
        console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
    if run.is_new:
        console.print(_table(run, test))
    else:
        console.print(f"already done: {run.folder}", highlight=False, soft_wrap=True)
    for command in _next_commands(run, vectors):
        console.print(f"next: {escape(command)}", highlight=False, soft_wrap=True)


def _table(run: "FittedRun", test: Path | None) -> Table:
    ncl = run.ncl
    where = "test" if run.n_test else "training"
    table = Table(title=escape(run.folder.name), title_justify="left", show_header=False)
    table.add_row("samples learnt from", f"{run.n_train:,}")
    kept = "samples kept for testing" if test is None else f"test samples of {escape(test.name)}"
    table.add_row(kept, f"{run.n_test:,}")
    table.add_row("principal axes kept", f"{ncl.n_axes_:,} of {ncl.n_features_in_:,}")
    table.add_row("steps", f"{ncl.n_iter_:,}")
    table.add_row(f"active features per {where} sample", f"{run.active_per_sample:.1f}")
    table.add_row("alive features", f"{ncl.n_alive_:,} of {ncl.encoder_.n_features:,}")
    table.add_row("dead features", f"{ncl.n_dead_:,}")
    table.add_row("seconds", f"{run.seconds:.1f}")
    return table


def _next_commands(run: "FittedRun", vectors: Path) -> list[str]:
    commands = [f"nonneg embed {run.folder} {vectors} --out {vectors.stem}-features.npz"]
    if run.n_test:
        commands = [f"nonneg evaluate {run.folder}", f"nonneg report {run.folder}", *commands]
    return commands
