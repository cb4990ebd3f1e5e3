"""What does one see while it trains? A bar in a terminal, one line an epoch everywhere."""

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

# What a line says of an epoch, as far as its record has it.
_WORDS = {
    "loss": "loss {:.4f}",
    "alive_features": "alive {}",
    "sparsity": "sparsity {:.3f}",
    "class_consistency": "class consistency {:.3f}",
    "accuracy": "accuracy {:.1%}",
    "images_per_second": "{:,.0f} samples/s",
}


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
            TextColumn("{task.fields[rate]:,.0f} samples/s"),
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

    def step(self, *, step: int, loss: float, samples_per_second: float) -> None:
        """Move the bar to a step."""
        self._bar.update(self._task, completed=step, loss=loss, rate=samples_per_second)

    def epoch(self, record: dict[str, Any]) -> None:
        """Print one line for a finished epoch."""
        parts = [
            f"epoch {record['epoch']:>3}/{self.n_epochs}",
            *(
                words.format(record[key])
                for key, words in _WORDS.items()
                if record.get(key) is not None
            ),
        ]
        self.say(" · ".join(parts))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
