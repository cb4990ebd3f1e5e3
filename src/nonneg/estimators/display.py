"""What an estimator shows: a line for each stage of a fit, a progress bar, what an edit took."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nonneg.estimators.fit import Record, Report


def say(text: str, *, verbose: int) -> None:
    """Print a line where somebody reads along: in an interactive session, or if asked to."""
    if verbose > 0 or hasattr(sys, "ps1"):  # Python's prompt and Jupyter have it, scripts have not
        Console(soft_wrap=True).print(text, markup=False, highlight=False)


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Say what is being done for as long as it takes."""
    with Console().status(text):
        yield


@contextmanager
def progress_bar(n_steps: int) -> Iterator[Report]:
    """A function to call with each step's record."""
    columns = [
        TextColumn("NCL"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TextColumn("{task.fields[active]:.1f} active per sample"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns) as bar:
        task = bar.add_task("", total=n_steps, loss=float("nan"), active=float("nan"))

        def report(record: Record) -> None:
            bar.update(
                task,
                completed=record["step"],
                loss=record["loss"],
                active=record["active_per_sample"],
            )

        yield report
