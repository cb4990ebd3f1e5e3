"""What does one see while it trains? A bar in a terminal, one line an epoch everywhere."""

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Display:
    """A progress bar over all steps of a run, and a line for each finished epoch.

    Args:
        console: Where to write.
        title: What is being trained.
        n_steps: Of the whole run.
        n_epochs: Of the whole run.
    """

    def __init__(self, console: Console, *, title: str, n_steps: int, n_epochs: int) -> None:
        self.console = console
        self.n_epochs = n_epochs
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[rate]:,.0f} images/s"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=n_steps, loss=float("nan"), rate=0.0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def step(self, *, step: int, loss: float, images_per_second: float) -> None:
        """Move the bar to a step."""
        self._bar.update(self._task, completed=step, loss=loss, rate=images_per_second)

    def epoch(self, record: dict[str, Any]) -> None:
        """Print one line for a finished epoch."""
        consistency = record.get("class_consistency")
        parts = [
            f"epoch {record['epoch']:>3}/{self.n_epochs}",
            f"loss {record['loss']:.4f}",
            f"alive {record['alive_features']}",
            f"sparsity {record['sparsity']:.3f}",
            "" if consistency is None else f"class consistency {consistency:.3f}",
            f"{record['images_per_second']:,.0f} images/s",
        ]
        self.say(" · ".join(part for part in parts if part))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
