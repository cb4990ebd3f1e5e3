"""Permutation tests and bootstrap means of sparse features, many comparisons at a time.

Activations are mostly zero and skewed. Permutations assume no distribution: a p-value holds
whatever the activations are, and however small a group is.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from nonneg.metrics.results import FloatArray

# Each comparison has so many permutations at least, and is settled by so many extreme ones.
_FIRST_PERMUTATIONS = 1000
_SETTLED = 20
_BLOCK_ENTRIES = 1 << 22
# Sums in another order differ by rounding, which makes none of two equals the larger.
_ROUNDING = 1e-9


def permutation_p(
    rows: sparse.csr_array,
    scores: FloatArray,
    *,
    alpha: float,
    rng: np.random.Generator,
    most: int = 200_000,
) -> FloatArray:
    """Two-sided p-values of ``sum_i z_i s_i`` under permutations of the scores ``(d, k)``.

    A p-value is twice the smaller share of permutations with a sum as large, or as small; the given
    order counts as one. All comparisons have 1,000 permutations. Those that are extreme in 20 of
    them are settled; the others go on, always with the number doubled, until Benjamini and
    Hochberg's limit for as many of them as are left is within reach.

    Args:
        rows: Features ``(n, d)``.
        scores: Of each sample in each comparison ``(n, k)``, as 1 for those in a group.
        alpha: The share of false discoveries that is aimed at.
        rng: Draws the permutations.
        most: At most so many of them.

    Example:
        >>> rows = sparse.csr_array(np.repeat([[1.0], [0.0]], 3, axis=0))
        >>> group = np.repeat([[1.0], [0.0]], 3, axis=0)  # as it is in 1 of 20 orders, either way
        >>> p = permutation_p(rows, group, alpha=0.05, rng=np.random.default_rng(0), most=10_000)
        >>> round(float(p[0, 0]), 1)
        0.1
    """
    by_feature = sparse.csr_array(rows.T)
    observed = by_feature @ scores  # (d, k)
    slack = _ROUNDING * (abs(by_feature) @ np.abs(scores))
    n_high, n_low = np.zeros(observed.shape), np.zeros(observed.shape)
    n_drawn = np.zeros((len(observed), 1))
    left, total, goal = np.arange(len(observed)), 0, min(_FIRST_PERMUTATIONS, most)
    while True:
        part: Any = by_feature[left]
        for sums in _permuted_sums(part, scores, goal - total, rng):  # (left, draws, k)
            n_high[left] += (sums >= (observed - slack)[left, None]).sum(axis=1)
            n_low[left] += (sums <= (observed + slack)[left, None]).sum(axis=1)
        n_drawn[left] += goal - total
        total = goal
        is_open = np.minimum(n_high, n_low) < _SETTLED
        left = np.flatnonzero(is_open.any(axis=1))
        # The smallest p-value is 2 / total; half of the limit leaves room for chance.
        enough = 4 * observed.size / (alpha * max(is_open.sum(), 1))
        if len(left) == 0 or total >= min(enough, most):
            break
        goal = min(2 * total, most)
    p: FloatArray = np.minimum(2 * (np.minimum(n_high, n_low) + 1) / (n_drawn + 1), 1)
    return p


def _permuted_sums(
    by_feature: Any,  # noqa: ANN401
    scores: FloatArray,
    n_draws: int,
    rng: np.random.Generator,
) -> Iterator[FloatArray]:
    """Sums of features times permuted scores, some draws at a time ``(d, draws, k)``."""
    # Only samples that are on need a score.
    used, columns = np.unique(by_feature.indices, return_inverse=True)
    shape = (by_feature.shape[0], len(used))
    part = sparse.csr_array((by_feature.data, columns, by_feature.indptr), shape=shape)
    n_samples, n_scores = scores.shape
    step = max(1, _BLOCK_ENTRIES // (max(shape) * n_scores))
    for start in range(0, n_draws, step):
        n_here = min(step, n_draws - start)
        drawn = [rng.choice(n_samples, len(used), replace=False) for _ in range(n_here)]
        permuted = scores[np.stack(drawn, axis=1)]  # (used, draws, k)
        yield (part @ permuted.reshape(len(used), -1)).reshape(shape[0], n_here, n_scores)


def bootstrap_means(
    rows: sparse.csr_array, n_bootstrap: int, rng: np.random.Generator
) -> FloatArray:
    """Means of the features over samples drawn with replacement ``(d, n_bootstrap)``."""
    n_samples, n_features = rows.shape
    by_feature = sparse.csr_array(rows.T)
    means = np.empty((n_features, n_bootstrap))
    step = max(1, _BLOCK_ENTRIES // n_samples)
    for start in range(0, n_bootstrap, step):
        here = range(start, min(start + step, n_bootstrap))
        drawn = (rng.integers(n_samples, size=n_samples) for _ in here)
        counts = [np.bincount(one, minlength=n_samples) for one in drawn]
        means[:, here] = by_feature @ np.stack(counts, axis=1).astype(np.float64) / n_samples
    return means
