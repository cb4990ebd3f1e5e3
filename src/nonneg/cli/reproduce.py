"""``nonneg reproduce``: the paper's tables, on what the machine can hold."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nonneg.presets import presets
from nonneg.settings import nearest

MODALITIES = "modalities"
DEFAULT = "fashion-mnist"
# Stated here too, so that the help needs none of the packages that fill tables; a test compares.
TABLES = (
    "properties",
    "transfer",
    "disentanglement",
    "selection",
    "supervised",
    "transforms",
    "sensitivity",
    "recipe",
    "methods",
    MODALITIES,
)


def reproduce(
    table: Annotated[str, typer.Argument(help=f"One of: {', '.join(TABLES)}.")],
    preset: Annotated[
        str | None,
        typer.Option(
            help="The preset whose variants are compared; modalities has none. "
            f"[dim]default: {DEFAULT}[/]"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds: 0, 1, …")] = 3,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="MINUTES",
            help="Begin nothing new after this. [dim]default: no limit[/]",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a setting of all runs; may be repeated."
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Where runs are kept, for all tables.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Where the table is written.")] = Path("results"),
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where data sets lie. [dim]default: $NONNEG_DATA or ~/.cache/nonneg[/]"),
    ] = None,
) -> None:
    """Train what is missing, measure it, and write one of the paper's tables.

    Runs are kept under a name made from their settings, so nothing is trained twice, and a command
    that was stopped goes on where it was.

    Example: nonneg reproduce supervised --preset digits --seeds 3
    """
    # Imported on use: the help of the command needs none of this.
    from nonneg.paper.filling import RunStore, filled, n_runs, table_title
    from nonneg.paper.tables import PLANS
    from nonneg.paper.writing import check_place, markdown, write_picture, write_table

    _check(table, preset, set_ or [])
    of_preset = None if table == MODALITIES else preset or DEFAULT
    command = f"nonneg reproduce {table}" + (f" --preset {of_preset}" if of_preset else "")
    command += f" --seeds {seeds}" + "".join(f" --set {change}" for change in set_ or ())
    check_place(table_title(table, of_preset), out, command=command, n_seeds=seeds)
    console = Console()
    ends = float("inf") if budget is None else time.monotonic() + 60 * budget
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("about {task.completed} of {task.total} runs"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task(table, total=None)

        def watch(text: str) -> None:
            bar.update(task, description=text, advance=text.endswith(": training"))

        def may_begin() -> bool:
            return time.monotonic() < ends

        if of_preset is None:
            # Imported on use: estimators bring scikit-learn along.
            from nonneg.paper.modalities import N_FITS, filled_modalities

            bar.update(task, total=N_FITS * seeds)
            found = filled_modalities(
                range(seeds), runs, data_dir=data_dir, may_begin=may_begin, watch=watch
            )
        else:
            bar.update(task, total=n_runs(PLANS[table], seeds))
            store = RunStore(
                of_preset,
                runs,
                data_dir=data_dir,
                changes=tuple(set_ or ()),
                may_begin=may_begin,
                watch=watch,
            )
            found = filled(PLANS[table], store, range(seeds))
    console.print(Markdown(markdown(found, command=command)))
    path = write_table(found, out, command=command)
    write_picture(path.with_suffix(".json"))
    console.print(f"written to {path} and, with every setting, {path.with_suffix('.json')}")
    if found.missing:
        console.print(
            f"{len(found.missing)} things are missing, as the table says; with more time or the "
            "files that it names, the same command goes on",
            style="yellow",
        )


def _check(table: str, preset: str | None, changes: list[str]) -> None:
    if table not in TABLES:
        raise ValueError(f"there is no table {table!r}; {nearest(table, TABLES)}")
    if table == MODALITIES and (preset or changes):
        raise ValueError(
            "modalities has estimators, with their own defaults; leave --preset and --set out"
        )
    known = [known.name for known in presets()]
    if preset is not None and preset not in known:
        raise ValueError(
            f"there is no preset {preset!r}; {nearest(preset, known)}; CL and NCL are made of each"
        )
    if any(change.partition("=")[0].strip() == "seed" for change in changes):
        raise ValueError("seeds of a table are 0, 1, …; say how many with --seeds")
