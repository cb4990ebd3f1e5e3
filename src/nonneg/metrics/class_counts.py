"""How often does each feature fire for each class? What consistency is read from."""

import numpy as np

from nonneg.metrics.activity import active_tiles, column_counts
from nonneg.metrics.features import Features
from nonneg.metrics.results import IntArray


def class_counts(features: Features, classes: IntArray, threshold: float) -> IntArray:
    """Active samples of each class and feature, ``(n_classes, n_features)``.

    Rows are read in the order of their class, so that a tile holds few classes and the cost does
    not grow with the number of classes.

    Args:
        features: ``(n_samples, n_features)``.
        classes: ``(n_samples,)``, every number in ``[0, n_classes)`` occurring.
        threshold: Of an active entry.
    """
    counts = np.zeros((int(classes.max()) + 1, features.n_features), dtype=np.int64)
    order = np.argsort(classes, kind="stable")
    ordered = classes[order]
    for here, on in active_tiles(features, threshold, order):
        starts = run_starts(ordered[here])
        present = ordered[here][starts]
        counts[present] += column_counts(on, starts)[:, : features.n_features]
    return counts


def run_starts(ordered: IntArray) -> IntArray:
    """Where each run of equal numbers begins.

    Example:
        >>> run_starts(np.array([4, 4, 7, 7, 7, 9]))
        array([0, 2, 5])
    """
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return np.concatenate([[0], changes])


def consecutive_classes(labels: IntArray) -> IntArray:
    """The labels renumbered to 0, 1, … in their order, without gaps, ``(n_samples,)``.

    Example:
        >>> consecutive_classes(np.array([7, 3, 7]))
        array([1, 0, 1])
    """
    return np.unique(labels, return_inverse=True)[1]
