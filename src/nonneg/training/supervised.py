"""The supervised task: an encoder with a linear classifier, and cross entropy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.encoder import CONFIG_FILE, Encoded, Encoder
from nonneg.inference import evaluation_mode
from nonneg.io import read_beside, write_tensors
from nonneg.losses.cross_entropy import NonNegativeClassifier
from nonneg.losses.distributed import with_mean_value
from nonneg.pairs.protocol import Batch
from nonneg.training.contrastive import described, owner
from nonneg.training.monitor import measurements
from nonneg.training.run_folder import REMEDY
from nonneg.training.task import Engine, Prepare, Upkeep

HEAD_FILE = "head.safetensors"
LOSSES = ("ce", "nonneg_ce")
READS = ("hidden", "features")


class Classifier(nn.Module):
    """An encoder with a linear head: a score for each class.

    Args:
        encoder: Learns with the head; the module itself is used, not a copy.
        n_classes: At least two.
        loss: ``"ce"`` for an ordinary linear head, ``"nonneg_ce"`` for one without bias whose
            inputs and weights are rectified.
        reads: ``"hidden"``: the head sits on the backbone, and projector and gate are left out
            and do not learn; ``"features"``: it sits on the features, and all of the encoder
            learns.

    Example:
        >>> from nonneg import EncoderSettings
        >>> encoder = Encoder(EncoderSettings(), (5,), backbone=nn.Linear(5, 4))
        >>> Classifier(encoder, 3)(torch.rand(2, 5)).shape
        torch.Size([2, 3])
    """

    def __init__(
        self, encoder: Encoder, n_classes: int, *, loss: str = "ce", reads: str = "hidden"
    ) -> None:
        super().__init__()
        if n_classes < 2:
            raise ValueError(f"a classifier needs at least two classes, got {n_classes}")
        if loss not in LOSSES or reads not in READS:
            raise ValueError(
                f"a classifier has loss {' or '.join(LOSSES)} and reads {' or '.join(READS)}, got "
                f"{loss!r} and {reads!r}"
            )
        self.encoder, self.n_classes, self.loss, self.reads = encoder, n_classes, loss, reads
        width = encoder.hidden_size if reads == "hidden" else encoder.n_features
        # Of the encoder's type: one of a run of precision 64-true has float64 weights.
        self.head = _head(width, n_classes, loss).to(next(encoder.projector.parameters()).dtype)
        if reads == "hidden":
            for unread in (encoder.projector, encoder.gate):
                if unread is not None:
                    unread.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits ``(n, n_classes)`` of samples ``(n, *sample_shape)``."""
        logits: Tensor = self.head(self._read(inputs))
        return logits

    def _read(self, inputs: Tensor) -> Tensor:
        if self.reads == "hidden":
            return self.encoder.hidden(inputs)
        features: Tensor = self.encoder(inputs).features
        return features

    def as_read(self, encoded: Encoded) -> Encoded:
        """Encoded samples with the class features as their features.

        Class features are what the head multiplies with its weights ``(n, d)``: what it reads,
        rectified for ``nonneg_ce``. The scores are the same before that.
        """
        read: Tensor = getattr(encoded, self.reads)
        features = read.clamp(min=0) if self.loss == "nonneg_ce" else read
        return Encoded(encoded.hidden, read, features)

    @torch.no_grad()
    def predict(self, inputs: Tensor, batch_size: int = 512) -> Tensor:
        """The class of each sample, int64 ``(n,)``, on the CPU; runs in evaluation mode."""
        device = next(self.head.parameters()).device
        with evaluation_mode(self):
            parts = [self(part.to(device)).argmax(1).cpu() for part in inputs.split(batch_size)]
        return torch.cat(parts)

    def save(self, folder: Path) -> None:
        """Write the encoder, and the head beside it."""
        write_tensors(folder / HEAD_FILE, self.head.state_dict())
        self.encoder.save(folder, beside=[HEAD_FILE])

    def load_head(self, folder: Path) -> None:
        """Take over the head that was saved in a folder.

        Raises:
            ValueError: If it is of another shape.
        """
        path = folder / HEAD_FILE
        try:
            self.head.load_state_dict(read_beside(folder / CONFIG_FILE, HEAD_FILE, remedy=REMEDY))
        except RuntimeError as error:
            raise ValueError(f"{path} holds the weights of another classifier; {REMEDY}") from error


def _head(width: int, n_classes: int, loss: str) -> nn.Module:
    if loss == "nonneg_ce":
        return NonNegativeClassifier(width, n_classes)
    head = nn.Linear(width, n_classes)
    # All classes equal: the first gradient is that of a probe, not of a random head.
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


View = Callable[[Batch], Tensor]


def as_it_is(batch: Batch) -> Tensor:
    """The sample itself, unchanged, as its view."""
    return batch.inputs


class Supervised:
    """A classifier that learns from labels.

    Args:
        classifier: What learns.
        labels: Class numbers of all training samples, int64 ``(n,)``.
        view: What the classifier is shown of a batch: ``(n, *sample_shape)``.
        starts_at: What identifies the initial weights, such as their digest, so that a run started
            from others is not continued; None where the settings are enough.
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
        """None: upkeep is for features that learn from pairs."""
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
        """None: a NaN loss stops the loop, and everything else shows in the accuracy."""
        return None

    def save(self, folder: Path) -> None:
        """Write the encoder and the head."""
        self.classifier.save(folder)

    def identity(self) -> dict[str, Any]:
        """The encoder, the number of classes, the view and, where given, the initial weights."""
        start = {} if self.starts_at is None else {"starts_at": self.starts_at}
        return {
            **start,
            **self.classifier.encoder.identity(),
            "n_classes": self.classifier.n_classes,
            "reads": self.classifier.reads,
            "view": described(self.view),
        }
