"""Progress, loggers, and the handling of interrupts."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nonneg.metrics.figures import figure_kind

if TYPE_CHECKING:
    from lightning_fabric.loggers.logger import Logger


# The figures in the line of an epoch, as far as its record has them, and the digits of each.
_SHOWN = {
    "loss": ".4f",
    "alive_features": ",",
    "sparsity": ".1%",
    "class_consistency": ".3f",
    "accuracy": ".1%",
    "images_per_second": ",.0f",
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
                _figure_text(key, record[key], digits)
                for key, digits in _SHOWN.items()
                if record.get(key) is not None
            ),
        ]
        self.say(" · ".join(parts))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _figure_text(key: str, value: float, digits: str) -> str:
    kind = figure_kind(key)
    return f"{kind.title} {value:{digits}} {kind.unit}".rstrip()


def _tensorboard(folder: Path) -> "Logger":
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger

    return TensorBoardLogger(root_dir=folder, name="", version="tensorboard")


def _wandb(folder: Path) -> "Logger":
    from pytorch_lightning.loggers import WandbLogger

    logger: Logger = WandbLogger(name=folder.name, save_dir=folder, project="nonneg")
    return logger


LOGGERS: dict[str, Callable[[Path], "Logger"]] = {"tensorboard": _tensorboard, "wandb": _wandb}
_PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb pytorch-lightning"}


def loggers(names: tuple[str, ...], folder: Path) -> "list[Logger]":
    """The loggers that were asked for, writing into the run folder."""
    made = []
    for name in names:
        try:
            made.append(LOGGERS[name](folder))
        except (ImportError, RuntimeError, OSError) as error:
            raise ImportError(
                f"training.loggers has {name!r}, which cannot be used ({error}); "
                f"install it with: pip install {_PACKAGES[name]}"
            ) from error
    return made


def log(made: "list[Logger]", record: dict[str, Any]) -> None:
    """Send the numbers of one epoch's record to each logger."""
    numbers = {k: v for k, v in record.items() if isinstance(v, int | float)}
    for logger in made:
        logger.log_metrics(numbers, step=record["step"])


class Interruption:
    """Records SIGINT or SIGTERM instead of ending the process; a second one ends it as usual.

    Example:
        >>> with Interruption() as interruption:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     interruption.signal_name
        'SIGTERM'
    """

    def __init__(self) -> None:
        self.signal_name: str | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python delivers signals to the main thread only, and lets no other thread ask for them.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal_name = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
