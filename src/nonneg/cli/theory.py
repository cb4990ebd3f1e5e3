"""``nonneg theory``: from co-occurrence to posterior, in numbers and figures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def theory(
    out: Annotated[Path, typer.Option(help="Where figures and theory.json go.")] = Path("theory"),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds each study has.")] = 5,
) -> None:
    """Check the theory of NCL in small worlds where everything is known, and draw it.

    Example: nonneg theory --out theory
    """
    # Imported on use: the help of the command needs none of this.
    import torch

    from nonneg.io import check_folder
    from nonneg.paper.theory import n_parts
    from nonneg.paper.theory import theory as run_theory
    from nonneg.paper.theory_results import sentences, solver_table, write_results

    console = Console()
    check_folder(out)
    # Matrices of this size gain nothing from a second thread, and lose much on a busy machine.
    torch.set_num_threads(1)
    with _progress(console, n_parts(seeds)) as progress:
        found = run_theory(range(seeds), progress=lambda: progress.advance(progress.task_ids[0]))
    for name, outcomes in found.solvers.items():
        console.print(solver_table(name, outcomes, seeds))
    for line in sentences(found):
        console.print(line, highlight=False, soft_wrap=True)
    write_results(found, out)
    console.print(f"figures and all numbers: {out}", highlight=False, soft_wrap=True)


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as progress:
        progress.add_task("studies", total=total)
        yield progress
