"""Which features are on? Activity, sparsity, dead and alive: the words that every metric uses."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics.inputs import FeatureLike, Features, checked_features
from nonneg.metrics.results import BoolArray, FeatureMeasurement, IntArray, Measurement
from nonneg.metrics.rows import row_lengths

ACTIVE_THRESHOLD = 1e-5


@dataclass(frozen=True, kw_only=True, eq=False)
class Sparsity(FeatureMeasurement):
    """The share of entries that are off; per feature, the share of samples it is off for.

    Args:
        value_alive: The same share over alive features only: dead features cannot raise it.
        n_zero_rows: Samples for which no feature is active.
    """

    value_alive: float
    n_zero_rows: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ActivePerSample(Measurement):
    """The mean number of active features a sample; ``per_sample`` is ``(n_samples,)``."""

    per_sample: IntArray = field(repr=False)


def active_mask(Z: FeatureLike, *, threshold: float = ACTIVE_THRESHOLD) -> BoolArray:
    """Which entries are active: ``|z| > threshold`` after scaling the row to length 1.

    Args:
        Z: Features ``(n_samples, n_features)``.
        threshold: Strict lower bound of an active entry.

    Returns:
        ``(n_samples, n_features)``; a row of zeros has no active entry.

    Example:
        >>> active_mask([[1.0, 1e-6], [0.0, -2.0]])
        array([[ True, False],
               [False,  True]])
    """
    features = checked_features(Z)
    mask = np.empty((features.n_samples, features.n_features), dtype=bool)
    for rows, on in active_tiles(features, threshold):
        mask[rows] = on.cpu().numpy() != 0
    return mask


def sparsity(Z: FeatureLike, *, threshold: float = ACTIVE_THRESHOLD) -> Sparsity:
    """The mean share of entries that are not active.

    In [0, 1], higher is sparser. Dead features raise ``value`` at no merit: read ``value_alive``,
    the share over alive features, beside it (NaN if all are dead).

    Args:
        Z: Features ``(n_samples, n_features)``.
        threshold: See :func:`active_mask`.

    Example:
        >>> found = sparsity([[1, 0, 0], [1, 1, 0]])
        >>> found.value, found.value_alive, found.n_dead
        (0.5, 0.25, 1)
    """
    features = checked_features(Z)
    per_feature, per_sample = active_counts(features, threshold)
    off = 1 - per_feature / features.n_samples
    alive = per_feature > 0
    n_alive = int(alive.sum())
    return Sparsity(
        value=float(off.mean()),
        value_alive=float(off[alive].mean()) if n_alive else float("nan"),
        per_feature=off,
        n_alive=n_alive,
        n_dead=features.n_features - n_alive,
        n_zero_rows=int((per_sample == 0).sum()),
        averaged_over=features.n_samples * features.n_features,
        averaged_unit="entries",
        higher_is_better=True,
        signed=features.signed,
    )


def active_per_sample(Z: FeatureLike, *, threshold: float = ACTIVE_THRESHOLD) -> ActivePerSample:
    """How many features are active for a sample, on average; in [0, n_features].

    Example:
        >>> active_per_sample([[1, 0, 0], [1, 1, 0]]).value
        1.5
    """
    features = checked_features(Z)
    _, per_sample = active_counts(features, threshold)
    return ActivePerSample(
        value=float(per_sample.mean()),
        per_sample=per_sample,
        averaged_over=features.n_samples,
        averaged_unit="samples",
        higher_is_better=False,
        signed=features.signed,
    )


def alive_features(Z: FeatureLike, *, threshold: float = ACTIVE_THRESHOLD) -> BoolArray:
    """Which features are active for at least one sample, ``(n_features,)``; the others are dead.

    Example:
        >>> alive_features([[1, 0, 0], [1, 1, 0]])
        array([ True,  True, False])
    """
    per_feature, _ = active_counts(checked_features(Z), threshold)
    return per_feature > 0


def active_counts(features: Features, threshold: float) -> tuple[IntArray, IntArray]:
    """For how many samples each feature is active, and how many features each sample has on."""
    per_feature = torch.zeros(features.n_features, dtype=torch.float64, device=features.device)
    per_sample = torch.zeros(features.n_samples, dtype=torch.float64, device=features.device)
    for rows, on in active_tiles(features, threshold):
        per_feature += on.sum(dim=0)
        per_sample[rows] = on.sum(dim=1).double()
    return per_feature.long().cpu().numpy(), per_sample.long().cpu().numpy()


def active_tiles(features: Features, threshold: float) -> Iterator[tuple[slice, Tensor]]:
    """Tiles of ones where an entry is active and zeros elsewhere, as floats.

    The next tile overwrites the one before: fresh memory would cost more than the comparison.
    """
    check_threshold(threshold)
    buffer = features.buffer()
    for rows, tile in features.tiles():
        yield rows, active_rows(tile, threshold, signed=features.signed, out=buffer[: len(tile)])


def active_rows(rows: Tensor, threshold: float, *, signed: bool, out: Tensor) -> Tensor:
    """Ones where an entry of these rows is active, zeros elsewhere, written to ``out (n, d)``."""
    return torch.gt(rows.abs() if signed else rows, row_lengths(rows) * threshold, out=out)


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that is not a share of a row's length."""
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold is {threshold}; rows have length 1, so it must lie in [0, 1)")
