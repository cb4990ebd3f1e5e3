"""What does one see while an estimator fits? A bar with loss and sparsity, if asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nonneg.estimators.heads import Progress as Report
from nonneg.estimators.heads import Record


@contextmanager
def stage(text: str, *, shown: bool) -> Iterator[None]:
    """Say what is being done for as long as it takes, if anything is to be shown."""
    if not shown:
        yield
        return
    with Console().status(text):
        yield


@contextmanager
def progress_bar(n_steps: int, *, shown: bool) -> Iterator[Report | None]:
    """A function to call with each step's record, or None if nothing is to be shown."""
    if not shown:
        yield None
        return
    columns = [
        TextColumn("NCL"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TextColumn("{task.fields[active]:.1f} active a sample"),
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
