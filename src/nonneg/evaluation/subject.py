"""The subject of an evaluation: an encoder with its data, encoded once and only when asked for."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from nonneg.data.dataset import Data, permutation, subset
from nonneg.encoder import Encoded, Encoder
from nonneg.inference import has_processes
from nonneg.metrics.figures import MIN_ACTIVE
from nonneg.pairs.protocol import Batch, Draws, Pairs, two_views
from nonneg.settings import Settings
from nonneg.training.settings import LoopSettings
from nonneg.training.supervised import Classifier, View, as_it_is

Rate = Annotated[float, Field(gt=0, le=1)]
# A whole number is a number of features; a share below 1 is a share of the features alive.
Size = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)]
Layers = Annotated[tuple[Literal["hidden", "features"], ...], Field(min_length=1)]


class FineTuneSettings(Settings):
    """How a whole network is fine-tuned with labels."""

    epochs: int = Field(default=10, ge=1)
    """How often every training sample is seen, each time in one view."""
    batch_size: int = Field(default=256, ge=2)
    """Samples per step."""
    lr: float = Field(default=1e-3, gt=0, le=1e4)
    """Learning rate of AdamW at its peak."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """How strongly weights are drawn to zero."""
    warmup_epochs: float = Field(default=1.0, ge=0)
    """Linear from zero to the peak; cosine to zero afterwards."""


class EvaluationSettings(Settings):
    """What is measured, on how many samples, with which seed."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    """Of permutations, draws of labels and features, corruptions and views."""
    train_samples: int | None = Field(default=None, ge=2)
    """Training samples that probes, voters and rankings learn from; None means all of them."""
    probed: Layers = ("hidden", "features")
    """Layers that linear probes read, here and on another set."""
    top: int = Field(default=MIN_ACTIVE, ge=1)
    """The m of top purity; also the least number of active samples of a feature that counts."""
    k: int = Field(default=10, ge=1)
    """Neighbours in retrieval."""
    n_voters: int = Field(default=20, ge=1)
    """Neighbours that vote in the k-NN classifier."""
    n_permutations: int = Field(default=20, ge=1)
    """Of the labels, for what chance would give."""
    n_bootstrap: int = Field(default=200, ge=2)
    """Draws behind an interval."""
    label_rates: tuple[Rate, ...] = (0.01, 0.1)
    """Shares of the training labels for the few-label probe."""
    n_draws: int = Field(default=5, ge=1)
    """Of few labels, and of random features in selection."""
    sepin_samples: int = Field(default=5000, ge=2)
    """Test samples whose two views SEPIN compares."""
    selection: tuple[Size, ...] = (0.5, 0.25, 0.125)
    """How many features are kept: a number of them, or a share of those alive."""
    selection_samples: int = Field(default=10_000, ge=2)
    """Training samples that features are ranked on and probes of selection are fitted to."""
    robustness_samples: int = Field(default=2000, ge=1)
    """Test samples that are corrupted, each in every way."""
    severities: tuple[Annotated[int, Field(ge=1, le=5)], ...] = (1, 2, 3, 4, 5)
    """How strongly they are corrupted."""
    fine_tune: FineTuneSettings = FineTuneSettings()


def join_processes() -> bool:
    """Join the processes that torchrun has started, if it has; True for the first or only one.

    Only the first one writes files and prints.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return True
    from nonneg.training.processes import launched_fabric

    return bool(launched_fabric(LoopSettings()).is_global_zero)


def encoded_together(
    encoder: Encoder,
    data: Data,
    batch_size: int = 512,
    *,
    after: Callable[[int], None] = lambda _: None,
) -> Encoded:
    """What ``encoder.encode`` gives, computed by all processes; all of them have to call it.

    Batches are cut as one process would cut them, so that the result is the same bit by bit on
    devices of one kind. Without processes it is ``encoder.encode``.

    Args:
        encoder: The same in every process.
        data: The same in every process.
        batch_size: How many samples go through at once.
        after: Told the number of samples of each batch that this process has done.
    """
    if not has_processes():
        return encoder.encode(data, batch_size, after=after)
    batches = torch.arange(len(data)).split(batch_size)
    n_ranks, rank = dist.get_world_size(), dist.get_rank()
    share = -(-len(batches) // n_ranks)
    parts = []
    for owner in range(n_ranks):
        rows = batches[owner * share : (owner + 1) * share]
        indices = torch.cat(rows) if rows else torch.arange(0)
        if not len(indices):
            continue
        part = (
            encoder.encode(subset(data, indices), batch_size, after=after)
            if owner == rank
            else _empty(encoder, len(indices))
        )
        parts.append((owner, part))
    return Encoded(*(torch.cat(column) for column in zip(*map(_shared, parts), strict=True)))


def _empty(encoder: Encoder, n: int) -> Encoded:
    """Room for what another process computes."""
    dtype = next(encoder.projector.parameters()).dtype
    widths = (encoder.hidden_size, encoder.n_features, encoder.n_features)
    return Encoded(*(torch.empty(n, width, dtype=dtype) for width in widths))


def _shared(owned: tuple[int, Encoded]) -> list[Tensor]:
    """The part of its owner, in every process."""
    owner, part = owned
    # NCCL moves what is on the device; what is shared here goes through it and back.
    device = torch.device("cuda") if dist.get_backend() == "nccl" else torch.device("cpu")
    tensors = [column.contiguous().to(device) for column in part]
    for tensor in tensors:
        dist.broadcast(tensor, src=owner)
    return [tensor.cpu() for tensor in tensors]


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
        transfer: Train and test of another set.
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
    transfer: tuple[Data, Data] | None = None
    view: View = as_it_is
    folder: Path | None = None
    classifier: Classifier | None = None

    @property
    def k(self) -> int:
        """Neighbours in retrieval: as set, or all other test samples where there are fewer."""
        return min(self.settings.k, len(self.test) - 1)

    @cached_property
    def train_part(self) -> Data:
        """The training samples that probes, voters and rankings learn from."""
        return self._draw(self.train)

    @cached_property
    def encoded_train(self) -> Encoded:
        """These training samples, with labels or without."""
        return self._encoded(self.train_part)

    @cached_property
    def known_train(self) -> Known:
        """These training samples with their labels."""
        labels = _labels(self.train_part)
        return Known(self.encoded_train, labels)

    @cached_property
    def encoded_test(self) -> Encoded:
        """The test samples, with labels or without."""
        return self._encoded(self.test)

    @cached_property
    def known_test(self) -> Known:
        """The test samples with their labels."""
        labels = _labels(self.test)
        return Known(self.encoded_test, labels)

    @cached_property
    def transfer_train(self) -> Known:
        """The training samples of the other set, as many at most."""
        return self._known(self._draw(self._other_set[0]))

    @cached_property
    def transfer_test(self) -> Known:
        """The test samples of the other set."""
        return self._known(self._other_set[1])

    @property
    def _other_set(self) -> tuple[Data, Data]:
        if self.transfer is None:
            raise NotMeasurableError("there is no other set to transfer to; name one")
        return self.transfer

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
    """The features of two views of each sample, ``(n, d)`` each; views are made part by part."""
    prepare = getattr(pairs, "prepare", None)
    parts = []
    for numbers in torch.arange(len(samples)).split(AT_ONCE):
        draws = Draws(seed, 0, numbers)
        inputs = samples.fetch(numbers) if prepare is None else prepare(samples, numbers, draws)
        views = two_views(pairs, Batch(inputs, numbers, draws, fetch=samples.fetch))
        parts.append([encoder.encode(view).features for view in views])
    first, second = (torch.cat(side) for side in zip(*parts, strict=True))
    return first, second


def ranked_values(encoded: Encoded, *, rectified: bool) -> Tensor:
    """What features are ranked by, ``(n, d)``: their scores, or the features if non-negative."""
    is_nonnegative = bool((encoded.features >= 0).all())
    return encoded.features if rectified and is_nonnegative else encoded.scores
