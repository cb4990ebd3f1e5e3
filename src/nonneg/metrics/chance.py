"""What would chance give? The purity of a feature when labels are dealt out at random."""

import numpy as np

from nonneg.metrics.inputs import checked_count
from nonneg.metrics.results import FloatArray, IntArray

RandomState = int | np.random.Generator | None


def chance_purity(
    classes: IntArray, n_permutations: int, random_state: RandomState
) -> tuple[FloatArray, FloatArray]:
    """The share of the commonest class among s samples under permuted labels, for every s at once.

    Under permuted labels the s samples of a feature carry s labels drawn without replacement, so
    the distribution depends on s alone, and the first s entries of one permutation are such a draw
    for every s. The largest count among them is the running maximum of "how often has this label
    occurred so far", which needs no count matrix: one permutation costs O(n log n) for all
    features together.

    Args:
        classes: Class numbers ``(n_samples,)``.
        n_permutations: How many permutations to average.
        random_state: Seed or generator.

    Returns:
        Mean and standard deviation, each ``(n_samples + 1,)``; entry s belongs to s samples, entry
        0 is NaN.

    Example:
        >>> chance_purity(np.array([0, 1]), 5, 0)[0]  # one is always pure, two are half and half
        array([nan, 1. , 0.5])
    """
    checked_count(n_permutations, name="n_permutations")
    rng = np.random.default_rng(random_state)
    n = len(classes)
    total, squares = np.zeros(n), np.zeros(n)
    for _ in range(n_permutations):
        share = np.maximum.accumulate(_occurrence(rng.permutation(classes))) / np.arange(1, n + 1)
        total += share
        squares += share**2
    mean = total / n_permutations
    deviation = np.sqrt(np.maximum(squares / n_permutations - mean**2, 0))
    return np.concatenate([[np.nan], mean]), np.concatenate([[np.nan], deviation])


def _occurrence(labels: IntArray) -> IntArray:
    """For each position, how often its label has occurred up to and including it."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    position = np.arange(len(labels))
    is_first = np.r_[True, ordered[1:] != ordered[:-1]]
    group_start = np.maximum.accumulate(np.where(is_first, position, 0))
    occurrence = np.empty(len(labels), dtype=np.int64)
    occurrence[order] = position - group_start + 1
    return occurrence
