"""Permutation tests and bootstrap means of sparse features, many comparisons at a time.

Activations are mostly zero and skewed. Permutations assume no distribution: a p-value holds
whatever the activations are, and however small a group is.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import binom, false_discovery_control

from nonneg.metrics.results import BoolArray, FloatArray, IntArray

# All comparisons have so many permutations; those that may yet be significant have more.
_FIRST_PERMUTATIONS = 1000
_GROWTH = 8
# How rare the extreme permutations of a comparison must be, were it significant, to give it up.
_HOPELESS = 1e-3
_BLOCK_ENTRIES = 1 << 22
# Sums in another order differ by rounding, which makes none of two equals the larger.
_ROUNDING = 1e-9


def permutation_p(
    rows: sparse.csr_array,
    scores: FloatArray,
    *,
    alpha: float,
    rng: np.random.Generator,
    most: int = 100_000,
) -> FloatArray:
    """Two-sided p-values of ``sum_i z_i s_i`` under permutations of the scores ``(d, k)``.

    A p-value is twice the smaller share of permutations with a sum as large, or as small; the given
    order counts as one. All comparisons have 1,000 permutations. Those that could still be
    significant after the correction of :func:`adjusted_p` go on until p-values can be small enough
    for that: the fewer features are found, the more permutations it takes.

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
    n_drawn = np.zeros(observed.shape)
    is_open, total, goal = np.ones(observed.shape, bool), 0, min(_FIRST_PERMUTATIONS, most)
    while total < goal:
        for which, sums in _permuted_sums(by_feature, scores, is_open, goal - total, rng):
            n_high[which] += (sums >= (observed - slack)[which][:, None]).sum(axis=1)
            n_low[which] += (sums <= (observed + slack)[which][:, None]).sum(axis=1)
        n_drawn[is_open] += goal - total
        total = goal
        is_open = _still_open(is_open, np.minimum(n_high, n_low), total, alpha)
        p: FloatArray = np.minimum(2 * (np.minimum(n_high, n_low) + 1) / (n_drawn + 1), 1)
        n_found = (adjusted_p(p) <= alpha).any(axis=1).sum()
        # The smallest p-value is 2 / total; half of the limit leaves room for chance.
        enough = 4 * p.size / (alpha * max(n_found, 1)) if is_open.any() else 0
        goal = min(math.ceil(enough), _GROWTH * total, most)
    return p


def _limits(is_open: BoolArray, alpha: float) -> FloatArray:
    """The largest p-values that are significant if all open ones are ``(d, k)``; see adjusted_p."""
    n_open = is_open.sum(axis=1, keepdims=True)
    limits = alpha * (n_open > 0).mean() * n_open / is_open.shape[1]
    return np.broadcast_to(limits, is_open.shape)


def _still_open(is_open: BoolArray, n_extreme: FloatArray, total: int, alpha: float) -> BoolArray:
    """Which comparisons can be significant if all that are open are, ``(d, k)``."""
    while True:
        chance = binom.sf(n_extreme - 1, total, _limits(is_open, alpha) / 2)
        still: BoolArray = is_open & (chance >= _HOPELESS)
        if still.sum() == is_open.sum():
            return still
        is_open = still


def adjusted_p(p: FloatArray) -> FloatArray:
    """P-values corrected for the number of features and of comparisons of each ``(d, k)``.

    Those up to alpha are significant. Features with a significant comparison are then chosen by
    Benjamini and Hochberg's rule from the p-values of Simes (1986), so that at most a share alpha
    of them is expected to be false; comparisons within the chosen features are held to the same
    share on average (Benjamini and Bogomolov 2014). With one comparison per feature this is the
    rule of Benjamini and Hochberg (1995).

    Args:
        p: Of d features, each in k comparisons ``(d, k)``.

    Example:
        >>> adjusted_p(np.array([[0.01], [0.04], [0.03], [0.5]])).ravel().round(3).tolist()
        [0.04, 0.053, 0.053, 0.5]
    """
    n_features = len(p)
    within = false_discovery_control(p, axis=1)
    ranked = np.sort(within.min(axis=1))
    above = np.minimum.accumulate((ranked * n_features / np.arange(1, n_features + 1))[::-1])[::-1]
    # A comparison is chosen by the limit of as many features as have a p-value up to its own, or
    # by that of more features, where these are chosen.
    n_up_to = np.searchsorted(ranked, within, side="right")
    adjusted: FloatArray = np.minimum(within * n_features / n_up_to, np.append(above, 1)[n_up_to])
    return np.minimum(adjusted, 1)


def _permuted_sums(
    by_feature: Any,  # noqa: ANN401
    scores: FloatArray,
    is_open: BoolArray,
    n_draws: int,
    rng: np.random.Generator,
) -> Iterator[tuple[tuple[IntArray, int], FloatArray]]:
    """Sums of open features times permuted scores ``(n_open, draws)``, and which these are.

    Some draws of one comparison at a time; all comparisons share the permutations.
    """
    # Only samples that are on need a score.
    used = np.unique(by_feature[is_open.any(axis=1)].indices)
    parts = []
    for number in np.flatnonzero(is_open.any(axis=0)):
        features = np.flatnonzero(is_open[:, number])
        chosen = by_feature[features]
        on, columns = np.unique(chosen.indices, return_inverse=True)
        shape = (len(features), len(on))
        part = sparse.csr_array((chosen.data, columns, chosen.indptr), shape=shape)
        score = np.ascontiguousarray(scores[:, number])
        parts.append(((features, int(number)), part, np.searchsorted(used, on), score))
    step = max(1, _BLOCK_ENTRIES // max(len(used), len(is_open)))
    for start in range(0, n_draws, step):
        n_here = min(step, n_draws - start)
        draws = [rng.choice(len(scores), len(used), replace=False) for _ in range(n_here)]
        drawn = np.stack(draws, axis=1)  # (used, draws)
        for which, part, places, score in parts:
            yield which, part @ score[drawn[places]]


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
