"""Which features are on? Activity, sparsity, dead and alive: the words that every metric uses."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nonneg.metrics.features import Features
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import BoolArray, FeatureMeasurement, IntArray, Measurement
from nonneg.metrics.rows import array_row_lengths

ACTIVE_THRESHOLD = 1e-5
_TILE_ROWS = 255


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
        mask[rows] = on[:, : features.n_features]
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
    per_feature = np.zeros(features.n_features, dtype=np.int64)
    per_sample = np.zeros(features.n_samples, dtype=np.int64)
    for rows, on in active_tiles(features, threshold):
        per_feature += column_counts(on, np.zeros(1, dtype=np.int64))[0, : features.n_features]
        per_sample[rows] = np.count_nonzero(on, axis=1)
    return per_feature, per_sample


def active_tiles(
    features: Features, threshold: float, order: IntArray | None = None
) -> Iterator[tuple[slice, BoolArray]]:
    """Which entries are active, a tile of rows at a time.

    On one thread and in memory that is used again: a tile takes so little time that handing it to
    a second thread, or asking for fresh memory, would double it.

    Args:
        features: ``(n_samples, n_features)``.
        threshold: See :func:`active_mask`.
        order: The order to read the rows in; as they stand if left out.

    Yields:
        Where the tile stands in that order, and the mask of at most 255 rows, with columns of False
        up to a multiple of 8; the next tile overwrites it.
    """
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold is {threshold}; rows have length 1, so it must lie in [0, 1)")
    step = min(_TILE_ROWS, features.n_samples)
    mask = np.zeros((step, -(-features.n_features // 8) * 8), dtype=bool)
    gathered = np.empty((step, features.n_features), dtype=features.array_dtype)
    for start in range(0, features.n_samples, step):
        here = slice(start, min(start + step, features.n_samples))
        n = here.stop - here.start
        rows = features.array_rows(here if order is None else order[here], out=gathered[:n])
        size = np.abs(rows) if features.signed else rows
        np.greater(size, array_row_lengths(rows) * threshold, out=mask[:n, : features.n_features])
        yield here, mask[:n]


def column_counts(on: BoolArray, starts: IntArray) -> NDArray[np.uint8]:
    """How often each column is true in each run of rows, ``(len(starts), n_columns)``.

    Eight columns are added in one 64-bit sum: no run has more than 255 rows, so no byte overflows.

    Args:
        on: A tile of :func:`active_tiles`.
        starts: The first row of each run.
    """
    return np.add.reduceat(on.view(np.uint64), starts, axis=0).view(np.uint8)
