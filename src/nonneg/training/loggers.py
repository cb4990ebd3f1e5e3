"""Where else does the history go? To TensorBoard or Weights & Biases, when asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning_fabric.loggers.logger import Logger


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
