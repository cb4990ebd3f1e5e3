"""Is each known factor held by one feature alone? MIG and SAP, gaps between the two best features.

Both punish overcomplete codes: two features that say the same about a factor leave no gap, however
clean they are. For wide non-negative features read DCI's disentanglement beside them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from nonneg.metrics.checks import LabelLike, checked_count, checked_factors, checked_quantities
from nonneg.metrics.features import Features
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray, IntArray, Measurement

_BLOCK_ENTRIES = 1 << 22


@dataclass(frozen=True, kw_only=True, eq=False)
class FactorGap(Measurement):
    """A gap for each factor, and the matrix it is read from.

    Args:
        per_factor: ``(n_factors,)``.
        scores: What each feature tells about each factor, ``(n_features, n_factors)``.
    """

    per_factor: FloatArray = field(repr=False)
    scores: FloatArray = field(repr=False)


def mig(Z: FeatureLike, factors: LabelLike, *, n_bins: int = 20) -> FactorGap:
    """The gap in mutual information between the two best features of a factor (MIG), mean of all.

    ``(I(z_1st; v) - I(z_2nd; v)) / H(v)`` (Chen et al. 2018), with features cut into equally wide
    bins. In [0, 1], higher is better. Punishes overcomplete codes.

    Args:
        Z: Features ``(n_samples, n_features)``, taken as they are.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.
        n_bins: Bins between a feature's smallest and largest value; a constant feature has one.

    Returns:
        ``scores`` holds the mutual information in nats. With one feature the second best has 0.

    Example:
        >>> factors = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> mig(factors, factors).value
        1.0
    """
    checked_count(n_bins, name="n_bins")
    features = checked_features(Z)
    table = checked_factors(factors, features.n_samples)
    sizes = table.max(axis=0) + 1
    information = np.zeros((features.n_features, table.shape[1]))
    for here, columns in _column_blocks(features):
        bins = _bins(columns, n_bins)
        for factor, size in enumerate(sizes):
            information[here, factor] = _mutual_information(bins, table[:, factor], n_bins, size)
    entropy = np.array(
        [_entropy(np.bincount(table[:, factor])) for factor in range(table.shape[1])]
    )
    return _gap(information, _largest_gap(information) / entropy)


def sap(Z: FeatureLike, factors: LabelLike) -> FactorGap:
    """The gap in R² between the two best features of a factor (SAP), mean over factors.

    R² is the squared correlation of a feature with the factor's value (Kumar et al. 2018, for
    ordered factors): the numbers in the table are read as quantities. In [0, 1], higher is better.
    Punishes overcomplete codes.

    Args:
        Z: Features ``(n_samples, n_features)``, taken as they are.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.

    Returns:
        ``scores`` holds R², 0 for a constant feature. With one feature the second best has 0.

    Example:
        >>> factors = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> sap(factors, factors).value
        1.0
    """
    features = checked_features(Z)
    table = checked_quantities(factors, features.n_samples)
    table -= table.mean(axis=0)
    table /= np.sqrt((table**2).sum(axis=0))
    fit = np.zeros((features.n_features, table.shape[1]))
    for here, columns in _column_blocks(features):
        centred = _scaled(columns)
        centred -= centred.mean(axis=0)
        squares = (centred**2).sum(axis=0)
        # What is left of a constant column after centring is rounding, not signal.
        varies = squares > 1e-24 * len(centred)
        explained = (centred.T @ table) ** 2
        fit[here] = np.where(varies[:, None], explained / np.where(varies, squares, 1)[:, None], 0)
    return _gap(fit, _largest_gap(fit))


def _gap(scores: FloatArray, per_factor: FloatArray) -> FactorGap:
    return FactorGap(
        value=float(per_factor.mean()),
        per_factor=per_factor,
        scores=scores,
        averaged_over=len(per_factor),
        averaged_unit="factors",
        higher_is_better=True,
        signed=False,
    )


def _largest_gap(scores: FloatArray) -> FloatArray:
    """For each column, by how much the largest entry exceeds the second."""
    padded = np.concatenate([scores, np.zeros((1, scores.shape[1]))])
    ordered = np.sort(padded, axis=0)
    gap: FloatArray = ordered[-1] - ordered[-2]
    return gap


def _column_blocks(features: Features) -> Iterator[tuple[slice, FloatArray]]:
    """Float64 columns, some at a time."""
    step = max(1, _BLOCK_ENTRIES // features.n_samples)
    for start in range(0, features.n_features, step):
        here = slice(start, min(start + step, features.n_features))
        yield here, features.columns(here).double().cpu().numpy()


def _scaled(columns: FloatArray) -> FloatArray:
    """Each column divided by its largest size, so that squares cannot overflow."""
    largest = np.abs(columns).max(axis=0)
    return columns / np.where(largest > 0, largest, 1)


def _bins(columns: FloatArray, n_bins: int) -> IntArray:
    """The number of the equally wide bin of each entry."""
    columns = columns / 2  # the width of the largest numbers would overflow
    low = columns.min(axis=0)
    width = columns.max(axis=0) - low
    place = (columns - low) / np.where(width > 0, width, 1) * n_bins
    bins: IntArray = np.minimum(place.astype(np.int64), n_bins - 1)
    return bins


def _mutual_information(bins: IntArray, values: IntArray, n_bins: int, size: int) -> FloatArray:
    """I(column; values) in nats for each column of bins ``(n_samples, n_columns)``."""
    n, n_columns = bins.shape
    place = (np.arange(n_columns) * n_bins + bins) * size + values[:, None]
    counts = np.bincount(place.reshape(-1), minlength=n_columns * n_bins * size)
    joint = counts.reshape(n_columns, n_bins, size) / n
    apart = joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
    ratio = np.where(joint > 0, joint, 1) / np.where(joint > 0, apart, 1)
    information: FloatArray = (joint * np.log(ratio)).sum(axis=(1, 2))
    return information


def _entropy(counts: IntArray) -> float:
    share = counts[counts > 0] / counts.sum()
    return float((share * np.log(1 / share)).sum())
