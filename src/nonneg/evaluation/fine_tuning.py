"""Fine-tuning: a copy of the network trained with labels, all weights free."""

import hashlib
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from nonneg.data.dataset import Data
from nonneg.encoder import Encoder
from nonneg.evaluation.subject import FineTuneSettings
from nonneg.training.settings import LoopSettings, LossSettings, OptimizerSettings, TrainConfig
from nonneg.training.supervised import Classifier, Supervised, View, as_it_is
from nonneg.training.trainer import run_task


@dataclass(frozen=True)
class FineTuned:
    """What came out of fine-tuning.

    Args:
        value: Test accuracy after the last epoch.
        n_train: Samples it learnt from.
        n_test: Samples it was tested on.
        history: One record per epoch.
    """

    value: float
    n_train: int
    n_test: int
    history: list[dict[str, Any]]

    def __float__(self) -> float:
        return self.value


def fine_tune(
    encoder: Encoder,
    train: Data,
    test: Data,
    *,
    out: str | Path,
    view: View = as_it_is,
    settings: FineTuneSettings | None = None,
    seed: int = 0,
    console: Console | None = None,
) -> FineTuned:
    """Test accuracy of the encoder's backbone with a linear layer, all trained with labels.

    Works on a copy; the encoder stays as it is. The same loop as for training: a run that was
    killed goes on where it stopped, and one that is finished is not run again; a folder in which
    another backbone was tuned is refused. The precision is that of the encoder.

    Args:
        encoder: Where the weights start.
        train: Labelled samples.
        test: Labelled samples, used once, at the end.
        out: The run folder.
        view: What the network is shown of a batch, such as ``ImageViews(…).one_view``.
        settings: Epochs, learning rate and the like.
        seed: Of order and views.
        console: Where progress is shown.
    """
    if train.labels is None or test.labels is None:
        raise ValueError(f"{train.name} has no labels; fine-tuning learns from them")
    if encoder.settings.frozen:
        raise ValueError("the encoder was built with a frozen backbone; there is nothing to tune")
    settings = settings or FineTuneSettings()
    classifier = Classifier(deepcopy(encoder), int(train.labels.max()) + 1)
    is_double = next(classifier.head.parameters()).dtype == torch.float64
    config = TrainConfig(
        seed=seed,
        loss=LossSettings(name="ce"),
        optimizer=OptimizerSettings(lr=settings.lr, weight_decay=settings.weight_decay),
        training=LoopSettings(
            epochs=settings.epochs,
            batch_size=min(settings.batch_size, len(train)),
            warmup_epochs=min(settings.warmup_epochs, settings.epochs / 2),
            precision="64-true" if is_double else "32-true",
        ),
    )
    result = run_task(
        Supervised(classifier, train.labels, view, starts_at=_digest(encoder.backbone)),
        train,
        config,
        out=out,
        resume=True,
        console=console,
    )
    if result.interrupted_by:
        raise InterruptedError(
            f"fine-tuning was stopped by {result.interrupted_by}; the same command continues it"
        )
    right = [
        classifier.predict(test.fetch(numbers)) == test.labels[numbers]
        for numbers in torch.arange(len(test)).split(4096)
    ]
    return FineTuned(
        value=float(torch.cat(right).double().mean()),
        n_train=len(train),
        n_test=len(test),
        history=result.history,
    )


def _digest(module: nn.Module) -> str:
    """Of all weights and statistics: two modules that compute the same have the same."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.cpu().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
