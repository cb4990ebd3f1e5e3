"""Activity: which features are on, alive or dead, and which matter most."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    checked_choice,
    checked_count,
    checked_features,
)
from nonneg.metrics.results import (
    BoolArray,
    FeatureMeasurement,
    FloatArray,
    IntArray,
    Measurement,
    RandomState,
)
from nonneg.rows import array_row_lengths, unit_rows

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
    """The mean number of active features per sample; ``per_sample`` is ``(n_samples,)``."""

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

    In [0, 1]. Neither end is better by itself: features that are all dead have 1. Dead features
    raise ``value`` without merit: read ``value_alive``, the share over alive features, beside it
    (NaN if all are dead).

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
        higher_is_better=None,
        signed=features.signed,
    )


def active_per_sample(Z: FeatureLike, *, threshold: float = ACTIVE_THRESHOLD) -> ActivePerSample:
    """How many features are active for a sample, on average; in [0, n_features].

    Neither end is better by itself: features that are all dead have 0.

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
        higher_is_better=None,
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


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpectedActivation(FeatureMeasurement):
    """The mean activation of each feature; ``on`` says whether negative entries were cut to 0."""

    on: str


def expected_activation(Z: FeatureLike, *, on: str = "rectified") -> ExpectedActivation:
    """The mean over samples of the row-normalised feature (EA), for each feature.

    In [0, 1] on rectified features, [-1, 1] on signed ones; ``value`` is the mean over features.
    Compute it on the *training* set: a ranking made on the test set leaks.

    Args:
        Z: Features ``(n_samples, n_features)``.
        on: ``"rectified"`` cuts negative entries to 0 before rows are scaled to length 1;
            ``"signed"`` takes them as they are. The same for non-negative features.

    Returns:
        Rows of zeros count as samples that activate nothing.

    Example:
        >>> expected_activation([[2, 0], [0, 0], [3, -4], [0, 5]]).per_feature
        array([0.5 , 0.25])
        >>> expected_activation([[2, 0], [0, 0], [3, -4], [0, 5]], on="signed").per_feature
        array([0.4 , 0.05])
    """
    checked_choice(on, ("rectified", "signed"), "on")
    features = checked_features(Z)
    mean, _ = activation_moments(features, rectify=on == "rectified")
    n_active, _ = active_counts(features, ACTIVE_THRESHOLD)
    n_alive = int((n_active > 0).sum())
    return ExpectedActivation(
        value=float(mean.mean()),
        per_feature=mean,
        on=on,
        n_alive=n_alive,
        n_dead=features.n_features - n_alive,
        averaged_over=features.n_features,
        averaged_unit="features",
        higher_is_better=None,
        signed=False,
    )


def select(
    Z: FeatureLike, k: int, *, by: str = "ea_rectified", random_state: RandomState = None
) -> IntArray:
    """The numbers of k features, best first, ``(k,)``; equals are ordered by their number.

    Args:
        Z: Features of the *training* set ``(n_samples, n_features)``.
        k: How many to keep.
        by: ``"ea_rectified"`` or ``"ea_signed"`` (see :func:`expected_activation`), ``"variance"``
            of the row-normalised feature, or ``"random"``, which draws from the alive features
            first and touches dead ones only when k exceeds their number.
        random_state: Seed or generator of ``"random"``.

    Example:
        >>> select([[1, 5, 0], [0, 3, 0]], 2)
        array([1, 0])
    """
    checked_choice(by, tuple(_RANKINGS), "by")
    features = checked_features(Z)
    checked_count(k, name="k", limit=features.n_features, limited_by="the number of features")
    rank = _RANKINGS[by](features, random_state)
    return np.argsort(-rank, kind="stable")[:k]


def activation_moments(features: Features, *, rectify: bool) -> tuple[FloatArray, FloatArray]:
    """Mean and variance over samples of each row-normalised feature, ``(n_features,)`` each."""
    total, squares = (
        torch.zeros(features.n_features, dtype=torch.float64, device=features.device)
        for _ in range(2)
    )
    for _, tile in features.tiles():
        unit = unit_rows(_rectified(tile) if rectify else tile)
        total += unit.sum(dim=0)
        squares += unit.square_().sum(dim=0)
    mean = total / features.n_samples
    variance = (squares / features.n_samples - mean.square()).clamp(min=0)
    return mean.cpu().numpy(), variance.cpu().numpy()


def _rectified(rows: Tensor) -> Tensor:
    return rows.clamp(min=0)


def _random_rank(features: Features, random_state: RandomState) -> FloatArray:
    n_active, _ = active_counts(features, ACTIVE_THRESHOLD)
    return np.random.default_rng(random_state).random(features.n_features) + (n_active > 0)


_RANKINGS: dict[str, Callable[[Features, RandomState], FloatArray]] = {
    "ea_rectified": lambda features, _: activation_moments(features, rectify=True)[0],
    "ea_signed": lambda features, _: activation_moments(features, rectify=False)[0],
    "variance": lambda features, _: activation_moments(features, rectify=False)[1],
    "random": _random_rank,
}
