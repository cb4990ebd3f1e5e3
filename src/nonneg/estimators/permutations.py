"""Permutation tests and bootstrap means of sparse features, many comparisons at a time.

Activations are mostly zero and skewed. Permutations assume no distribution: a p-value holds
whatever the activations are, and however small a group is.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
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
# Of a bound of a tail: the t that are tried, and the points of its grids.
_TILTS = 1.25 ** np.arange(-4, 18)
_N_POINTS = 512


def permutation_p(
    rows: sparse.csr_array,
    scores: FloatArray | sparse.csc_array,
    *,
    alpha: float,
    rng: np.random.Generator,
    most: int = 100_000,
) -> FloatArray:
    """Two-sided p-values of ``sum_i z_i s_i`` under permutations of the scores ``(d, k)``.

    A p-value is twice the smaller share of permutations with a sum as large, or as small; the given
    order counts as one. All comparisons have 1,000 permutations. Where none of them is as extreme,
    the p-value is at most that of :func:`tail_bound`, which has no smallest value. Comparisons that
    could still be significant after the correction of :func:`adjusted_p` go on until p-values can
    be small enough for that: the fewer features are found, the more permutations it takes.

    Args:
        rows: Features ``(n, d)``.
        scores: Of each sample in each comparison ``(n, k)``, as 1 for those in a group; SciPy CSC
            where comparisons are many.
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
    by_feature, by_score = sparse.csr_array(rows.T), sparse.csc_array(scores)
    observed = (by_feature @ by_score).toarray()  # (d, k)
    slack = _ROUNDING * (abs(by_feature) @ abs(by_score)).toarray()
    n_high, n_low = np.zeros(observed.shape), np.zeros(observed.shape)
    n_drawn, at_most = np.zeros(observed.shape), np.ones(observed.shape)
    is_open, total, goal = np.ones(observed.shape, bool), 0, min(_FIRST_PERMUTATIONS, most)
    while total < goal:
        for which, sums in _permuted_sums(by_feature, by_score, is_open, goal - total, rng):
            n_high[which] += (sums >= (observed - slack)[which][:, None]).sum(axis=1)
            n_low[which] += (sums <= (observed + slack)[which][:, None]).sum(axis=1)
        n_drawn[is_open] += goal - total
        n_extreme = np.minimum(n_high, n_low)
        if total == 0:
            is_far = n_extreme == 0
            at_most = _bounds(by_feature, by_score, is_far, observed, slack)
            is_open &= at_most > alpha / observed.size  # below, nothing can change the verdict
        total = goal
        is_open = _still_open(is_open, n_extreme, total, alpha)
        p: FloatArray = np.minimum(2 * (n_extreme + 1) / (n_drawn + 1), 1)
        p = np.where(n_extreme == 0, np.minimum(p, at_most), p)
        n_found = (adjusted_p(p) <= alpha).any(axis=1).sum()
        # The smallest p-value is 2 / total; half of the limit leaves room for chance.
        enough = 4 * p.size / (alpha * max(n_found, 1)) if is_open.any() else 0
        goal = min(math.ceil(enough), _GROWTH * total, most)
    return p


def _bounds(
    by_feature: sparse.csr_array,
    by_score: sparse.csc_array,
    is_far: BoolArray,
    observed: FloatArray,
    slack: FloatArray,
) -> FloatArray:
    """Two-sided p-values by :func:`tail_bound` where ``is_far``, elsewhere 1 ``(d, k)``."""
    bounds = np.ones(observed.shape)
    totals = np.asarray(by_feature.sum(axis=1)).ravel()
    for number in np.flatnonzero(is_far.any(axis=0)).tolist():
        score = _column(by_score, number)
        sides = {side: score_moments(side * score) for side in (1, -1)}
        for feature in np.flatnonzero(is_far[:, number]):
            on = by_feature.data[by_feature.indptr[feature] : by_feature.indptr[feature + 1]]
            beyond = observed[feature, number] - totals[feature] * score.mean()
            least = abs(beyond) - slack[feature, number]
            bounds[feature, number] = 2 * tail_bound(on, sides[1 if beyond > 0 else -1], least)
    return np.minimum(bounds, 1)


def _column(scores: sparse.csc_array, number: int) -> FloatArray:
    column: FloatArray = scores[:, [number]].toarray().ravel()
    return column


class ScoreMoments(NamedTuple):
    """Exponential moments of scores drawn at random, less their mean."""

    points: FloatArray
    """Where they are known, from 0 on ``(p,)``."""
    logs: FloatArray
    """At least the logarithm of the mean of ``exp(point * score)`` ``(p,)``."""
    variance: float
    n_samples: int


def score_moments(scores: FloatArray) -> ScoreMoments:
    """What :func:`tail_bound` needs of scores ``(n,)``."""
    values, counts = _spread_out(scores - scores.mean())
    width = np.ptp(values) or 1
    points = np.append(0, np.geomspace(1e-4, 1e4, _N_POINTS) / width)
    logs = logsumexp(np.outer(points, values), b=counts / len(scores), axis=1)
    logs[0] = 0
    return ScoreMoments(points, logs, float(np.var(scores)), len(scores))


def _spread_out(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values moved to a grid, and how many are there, so that no mean of a convex function falls.

    A value between two points counts for both, the nearer one more, with itself as their mean.
    """
    grid = np.linspace(values.min(), values.max(), _N_POINTS)
    step = grid[1] - grid[0]
    if step == 0:
        return values[:1], np.array([float(len(values))])
    place = (values - grid[0]) / step
    left = np.clip(place.astype(np.int64), 0, _N_POINTS - 2)
    part = np.clip(place - left, 0, 1)
    counts = np.zeros(_N_POINTS)
    np.add.at(counts, left, 1 - part)
    np.add.at(counts, left + 1, part)
    return grid[counts > 0], counts[counts > 0]


def tail_bound(on: FloatArray, scores: ScoreMoments, beyond: float) -> float:
    """An upper bound of the share of orders whose sum is so far above the mean of all orders.

    Permuted scores are negatively associated (Joag-Dev and Proschan 1983), so that for weights that
    are not negative the sum's exponential moments are at most those of independent draws. With
    Chernoff's inequality ``P(sum - mean >= x) <= exp(-t x) prod_i E exp(t z_i s)`` for each t > 0,
    where s is one of the scores less their mean; the best of some t is taken. Weights are the
    activations less the smallest of them, which moves no sum beyond the mean. For features that are
    on for few samples the bound is some ten to a thousand times the share itself where that is 1e-6
    to 1e-18; for one that is on for half of the samples it is about the share's square root.

    Args:
        on: The activations of a feature that are not zero ``(n_on,)``.
        scores: Moments of the scores of all samples.
        beyond: How far the sum is above its mean over all orders.

    Example:
        >>> scores = score_moments(np.repeat([1.0, 0.0], 10))
        >>> bound = tail_bound(np.ones(10), scores, 5.0)  # all 10 that are on are in the group
        >>> 1 / 184_756 < bound < 0.001  # the share of such orders
        True
    """
    n_off = scores.n_samples - len(on)
    lowest = min(on.min(), 0) if n_off else on.min()
    weights, counts = _spread_out(on - lowest)
    weights, counts = np.append(weights, -min(lowest, 0)), np.append(counts, n_off)
    spread = scores.variance * (counts @ weights**2)
    if spread <= 0 or beyond <= 0:
        return 1.0
    # The first factor would be best for a normal sum.
    tried = np.minimum(beyond / spread * _TILTS, scores.points[-1] / weights.max())
    # The logarithm of a moment is convex: between known points a straight line is above it.
    logs = np.interp(np.outer(tried, weights), scores.points, scores.logs) @ counts
    return float(np.exp(min((logs - tried * beyond).min(), 0)))


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
    by_score: sparse.csc_array,
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
        parts.append(((features, int(number)), part, np.searchsorted(used, on)))
    step = max(1, _BLOCK_ENTRIES // max(len(used), len(is_open)))
    for start in range(0, n_draws, step):
        n_here = min(step, n_draws - start)
        draws = [rng.choice(by_score.shape[0], len(used), replace=False) for _ in range(n_here)]
        drawn = np.stack(draws, axis=1)  # (used, draws)
        for which, part, places in parts:
            yield which, part @ _column(by_score, which[1])[drawn[places]]


def drawn_means(
    rows: sparse.csr_array,
    lowest: FloatArray,
    highest: FloatArray,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Means by random weights, for the lower and for the upper end of an interval ``(d, n_draws)``.

    The weights are uniform among those of sum 1 (Rubin's Bayesian bootstrap), with one more sample
    at the lowest value for one end and at the highest for the other. Quantiles of such means hold
    the true mean at least as often as they say in all that was tried (Gaffke 2005; Learned-Miller
    and Thomas 2020); of zeros and ones they are the interval of Clopper and Pearson (1934).

    Args:
        rows: Features ``(n, d)``.
        lowest: Value that a feature can have ``(d,)``.
        highest: Value that a feature can have ``(d,)``.
        n_draws: How many.
        rng: Draws the weights.
    """
    n_samples, n_features = rows.shape
    by_feature = sparse.csr_array(rows.T)
    low, high = np.empty((n_features, n_draws)), np.empty((n_features, n_draws))
    step = max(1, _BLOCK_ENTRIES // n_samples)
    for start in range(0, n_draws, step):
        here = slice(start, min(start + step, n_draws))
        weights = rng.standard_exponential((here.stop - start, n_samples + 1)).T
        weights /= weights.sum(axis=0)
        means = by_feature @ weights[:-1]
        low[:, here] = means + np.outer(lowest, weights[-1])
        high[:, here] = means + np.outer(highest, weights[-1])
    return low, high


def value_range(rows: sparse.csr_array) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest value of each feature over all samples, 0 among them ``(d,)``."""
    lowest, highest = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    np.minimum.at(lowest, rows.indices, rows.data)
    np.maximum.at(highest, rows.indices, rows.data)
    return lowest, highest
