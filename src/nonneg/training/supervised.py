"""How does a classifier learn from labels? One view of each sample, its class, cross entropy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.losses.distributed import with_mean_value
from nonneg.pairs import Batch
from nonneg.training.classifier import Classifier
from nonneg.training.contrastive import described, owner
from nonneg.training.monitor import measurements
from nonneg.training.task import Engine, Prepare, Upkeep

View = Callable[[Batch], Tensor]


def as_it_is(batch: Batch) -> Tensor:
    """The view of a sample that is not to be changed: the sample."""
    return batch.inputs


class Supervised:
    """A classifier that learns from labels.

    Args:
        classifier: What learns.
        labels: Class numbers of all training samples, int64 ``(n,)``.
        view: What the classifier is shown of a batch: ``(n, *sample_shape)``.
        starts_at: What tells the first weights from others, such as their digest, where a run that
            began with others must not be continued; None where the settings say enough.
    """

    def __init__(
        self,
        classifier: Classifier,
        labels: Tensor,
        view: View = as_it_is,
        *,
        starts_at: str | None = None,
    ) -> None:
        self.classifier, self.labels, self.view = classifier, labels, view
        self.starts_at = starts_at

    @property
    def module(self) -> nn.Module:
        """The classifier."""
        return self.classifier

    @property
    def prepare(self) -> Prepare | None:
        """That of the view, where it has one."""
        return getattr(owner(self.view), "prepare", None)

    @property
    def upkeep(self) -> Upkeep | None:
        """There is none: it is for features that learn from pairs."""
        return None

    def learn(self, batch: Batch, engine: Engine) -> Tensor:
        """Add the gradients of a batch; gives its loss, without gradient."""
        labels = self.labels[batch.indices.cpu()].to(batch.indices.device)
        loss = with_mean_value(F.cross_entropy(engine.forward(self.view(batch)), labels))
        engine.backward(loss)
        return loss.detach()

    def measured(self, loss: float, inputs: Tensor, labels: Tensor | None) -> dict[str, Any]:
        """The accuracy on held-out samples, and the state of what the head reads."""
        encoded = self.classifier.as_read(self.classifier.encoder.encode(inputs))
        record = measurements(encoded.features, labels)
        if labels is not None:
            right = self.classifier.predict(inputs) == labels
            record["accuracy"] = float(right.double().mean())
        return record

    def warning(self, record: dict[str, Any]) -> str | None:
        """Nothing: a loss that is not a number stops the loop, all else shows in the accuracy."""
        return None

    def save(self, folder: Path) -> None:
        """Write the encoder and the head."""
        self.classifier.save(folder)

    def identity(self) -> dict[str, Any]:
        """The encoder, the number of classes, the view and, where it is told, the start."""
        start = {} if self.starts_at is None else {"starts_at": self.starts_at}
        return {
            **start,
            **self.classifier.encoder.identity(),
            "n_classes": self.classifier.n_classes,
            "reads": self.classifier.reads,
            "view": described(self.view),
        }
