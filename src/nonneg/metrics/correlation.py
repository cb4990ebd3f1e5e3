"""Feature correlation: the cosine between columns, and its mean off the diagonal."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.inputs import FeatureLike, Features, checked_features
from nonneg.metrics.results import FeatureMeasurement, FloatArray, mean_of_measured

_BLOCK_COLUMNS = 512
_BLOCK_ROWS = 1 << 14


def feature_correlation(
    Z: FeatureLike, *, threshold: float = ACTIVE_THRESHOLD
) -> FeatureMeasurement:
    """The mean absolute cosine between two different alive features.

    In [0, 1], lower is better: 0 if no two features are on for the same sample. Columns are taken
    as they are, scaled to length 1 and not centred, so non-negative dense features score high.
    Signed features are not rectified: it is the cosine whose absolute value is taken.

    Args:
        Z: Features ``(n_samples, n_features)``.
        threshold: See :func:`active_mask`; it decides which features are alive.

    Returns:
        ``per_feature`` is a feature's mean with the other alive ones, NaN for dead ones. With
        fewer than two alive features ``value`` is NaN.

    Example:
        >>> found = feature_correlation([[1, 0, 0], [1, 1, 0]])  # the cosine is 1/√2
        >>> round(found.value**2, 6), found.n_dead
        (0.5, 1)
    """
    features = checked_features(Z)
    n_active, _ = active_counts(features, threshold)
    alive = np.flatnonzero(n_active > 0)
    per_feature = np.full(features.n_features, np.nan)
    if len(alive) > 1:
        sums = _absolute_cosine_sums(features, torch.from_numpy(alive))
        per_feature[alive] = sums / (len(alive) - 1)
    value, n_measured = mean_of_measured(per_feature)
    return FeatureMeasurement(
        value=value,
        per_feature=per_feature,
        n_alive=len(alive),
        n_dead=features.n_features - len(alive),
        averaged_over=n_measured * (n_measured - 1) // 2,
        averaged_unit="pairs of features",
        higher_is_better=False,
        signed=False,
    )


def cosine_block(first: Tensor, second: Tensor) -> Tensor:
    """Inner products of unit columns ``(n, a)`` and ``(n, b)``, float64 ``(a, b)``.

    Rows are summed in float32 for a while and in float64 from there: long sums stay exact to 1e-7.
    """
    total = first.new_zeros(first.shape[1], second.shape[1], dtype=torch.float64)
    for a, b in zip(first.split(_BLOCK_ROWS), second.split(_BLOCK_ROWS), strict=True):
        total += a.T @ b
    return total


def unit_column_blocks(features: Features, which: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The chosen columns, each scaled to length 1, a block at a time; zeros stay zeros.

    Yields:
        Where the block lies in ``which``, and its columns ``(n_samples, width)``.
    """
    for start in range(0, len(which), _BLOCK_COLUMNS):
        here = slice(start, min(start + _BLOCK_COLUMNS, len(which)))
        columns = features.columns(which[here].to(features.device))
        # The largest entry goes first: squares of 1e30 overflow float32.
        largest = columns.abs().amax(dim=0)
        columns = columns / largest.where(largest > 0, 1)
        lengths = torch.linalg.vector_norm(columns, dim=0)
        yield here, columns.div_(lengths.where(lengths > 0, 1))


def _absolute_cosine_sums(features: Features, which: Tensor) -> FloatArray:
    """The sum of each chosen feature's absolute cosines with the others, ``(len(which),)``."""
    sums = torch.zeros(len(which), dtype=torch.float64, device=features.device)
    for here, first in unit_column_blocks(features, which):
        for offset, second in unit_column_blocks(features, which[here.start :]):
            there = slice(here.start + offset.start, here.start + offset.stop)
            cosines = cosine_block(first, second).abs_()
            if there.start == here.start:
                sums[here] += cosines.fill_diagonal_(0).sum(dim=1)
            else:
                sums[here] += cosines.sum(dim=1)
                sums[there] += cosines.sum(dim=0)
    return sums.cpu().numpy()
