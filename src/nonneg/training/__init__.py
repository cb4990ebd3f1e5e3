"""Training: one loop that can be killed and resumed, with every setting in one place."""

from nonneg.training.loop import TrainResult, train
from nonneg.training.optimizers import LARS
from nonneg.training.run_folder import read_history
from nonneg.training.settings import LoopSettings, LossSettings, OptimizerSettings, TrainConfig

__all__ = [
    "LARS",
    "LoopSettings",
    "LossSettings",
    "OptimizerSettings",
    "TrainConfig",
    "TrainResult",
    "read_history",
    "train",
]
