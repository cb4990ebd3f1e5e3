"""Training: one loop that can be killed and resumed, with every setting in one place."""

from nonneg.training.contrastive import contrastive_task, train
from nonneg.training.optimizers import LARS
from nonneg.training.run_folder import read_history
from nonneg.training.settings import LoopSettings, LossSettings, OptimizerSettings, TrainConfig
from nonneg.training.supervised import Classifier, Supervised, View, as_it_is
from nonneg.training.task import Task
from nonneg.training.trainer import TrainResult, run_task

__all__ = [
    "LARS",
    "Classifier",
    "LoopSettings",
    "LossSettings",
    "OptimizerSettings",
    "Supervised",
    "Task",
    "TrainConfig",
    "TrainResult",
    "View",
    "as_it_is",
    "contrastive_task",
    "read_history",
    "run_task",
    "train",
]
