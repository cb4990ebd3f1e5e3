"""What a fit shows while it works: a line for each stage, and a progress bar."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nonneg.estimators.fit import Record, Report


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
