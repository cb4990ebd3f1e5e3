"""What is evaluated? An encoder with its data, each set encoded once and only when asked for."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from nonneg.data import Data, subset
from nonneg.data.dataset import permutation
from nonneg.encoder import Encoded, Encoder
from nonneg.evaluation.settings import EvaluationSettings
from nonneg.evaluation.sharding import encoded_together
from nonneg.pairs import Batch, Draws, Pairs, two_views
from nonneg.training import Classifier, View, as_it_is

AT_ONCE = 512  # samples whose inputs or views are in memory together


class NotMeasurableError(ValueError):
    """A protocol does not apply to this encoder and data; the message says why."""


@dataclass(frozen=True)
class Known:
    """Encoded samples with their labels int64 ``(n,)``."""

    encoded: Encoded
    labels: Tensor


@dataclass(frozen=True)
class Subject:
    """An encoder, the data it is measured on, and how.

    Args:
        encoder: Only read: neither its parameters nor its buffers nor its mode change.
        train: Labelled samples that probes, rankings and neighbours may learn from.
        test: Labelled samples that every figure is about.
        settings: Sizes and seeds.
        pairs: Makes the two views of SEPIN; None where there are none.
        temperature: Of the loss that the encoder was trained with; None where it had none.
        elsewhere: Train and test of another set, for transfer.
        view: What fine-tuning shows of a batch.
        folder: Where fine-tuning keeps its run; None where it may not.
        classifier: What was trained with labels around the encoder; its class features then take
            the place of the encoder's features. None for contrastive learning.
    """

    encoder: Encoder
    train: Data
    test: Data
    settings: EvaluationSettings = field(default_factory=EvaluationSettings)
    pairs: Pairs | None = None
    temperature: float | None = None
    elsewhere: tuple[Data, Data] | None = None
    view: View = as_it_is
    folder: Path | None = None
    classifier: Classifier | None = None

    @property
    def k(self) -> int:
        """Neighbours in retrieval: as set, or all other test samples where there are fewer."""
        return min(self.settings.k, len(self.test) - 1)

    @cached_property
    def shown(self) -> Data:
        """The training samples that probes, voters and rankings learn from."""
        return self._draw(self.train)

    @cached_property
    def seen(self) -> Known:
        """The training samples that are shown."""
        labels = _labels(self.shown)
        return Known(self.seen_encoded, labels)

    @cached_property
    def seen_encoded(self) -> Encoded:
        """The training samples that are shown, with labels or without."""
        return self._encoded(self.shown)

    @cached_property
    def new(self) -> Known:
        """The test samples."""
        labels = _labels(self.test)
        return Known(self.new_encoded, labels)

    @cached_property
    def new_encoded(self) -> Encoded:
        """The test samples, with labels or without."""
        return self._encoded(self.test)

    @cached_property
    def seen_elsewhere(self) -> Known:
        """The training samples of the other set, as many at most."""
        return self._known(self._draw(self._other[0]))

    @cached_property
    def new_elsewhere(self) -> Known:
        """The test samples of the other set."""
        return self._known(self._other[1])

    @property
    def _other(self) -> tuple[Data, Data]:
        if self.elsewhere is None:
            raise NotMeasurableError("there is no other set to transfer to; name one")
        return self.elsewhere

    def _draw(self, data: Data) -> Data:
        n = self.settings.train_samples
        return data if n is None else some_data(data, n, seed=self.settings.seed)

    def _known(self, data: Data) -> Known:
        labels = _labels(data)
        return Known(self._encoded(data), labels)

    def _encoded(self, data: Data) -> Encoded:
        encoded = encoded_together(self.encoder, data)
        return encoded if self.classifier is None else self.classifier.as_read(encoded)


def has_classes(data: Data) -> bool:
    """Whether samples have labels that tell some of them from others."""
    return data.labels is not None and bool((data.labels != data.labels[0]).any())


def _labels(data: Data) -> Tensor:
    if data.labels is None:
        raise NotMeasurableError(f"{data.name} has no labels")
    if not has_classes(data):
        raise NotMeasurableError(f"{data.name} has one class only; give labels of at least two")
    return data.labels


def some(known: Known, n: int, *, seed: int) -> Known:
    """A fixed draw of n samples, all of them if there are fewer."""
    if n >= len(known.labels):
        return known
    chosen = permutation(len(known.labels), seed=seed)[:n].sort().values
    return Known(Encoded(*(part[chosen] for part in known.encoded)), known.labels[chosen])


def some_data(data: Data, n: int, *, seed: int) -> Data:
    """A fixed draw of n samples of a data set, all of them if there are fewer."""
    if n >= len(data):
        return data
    return subset(data, permutation(len(data), seed=seed)[:n].sort().values)


def features_of_views(
    encoder: Encoder, pairs: Pairs, samples: Data, *, seed: int
) -> tuple[Tensor, Tensor]:
    """The features of two views of each sample, ``(n, d)`` each; views exist a part at a time."""
    prepare = getattr(pairs, "prepare", None)
    parts = []
    for numbers in torch.arange(len(samples)).split(AT_ONCE):
        draws = Draws(seed, 0, numbers)
        inputs = samples.fetch(numbers) if prepare is None else prepare(samples, numbers, draws)
        views = two_views(pairs, Batch(inputs, numbers, draws, fetch=samples.fetch))
        parts.append([encoder.encode(view).features for view in views])
    first, second = (torch.cat(side) for side in zip(*parts, strict=True))
    return first, second
