"""How often does each feature fire for each class? What consistency is read from."""

from collections.abc import Iterator

import torch
from torch import Tensor

from nonneg.metrics.activity import active_rows, check_threshold
from nonneg.metrics.inputs import Features


def class_counts(features: Features, classes: Tensor, threshold: float) -> Tensor:
    """Active samples of each class and feature, float64 ``(n_classes, n_features)``.

    Rows are read in the order of their class, so that a tile holds few classes and the cost does
    not grow with the number of classes.

    Args:
        features: ``(n_samples, n_features)``.
        classes: Int64 ``(n_samples,)``, every number in ``[0, n_classes)`` occurring.
        threshold: Of an active entry.
    """
    n_classes = int(classes.max()) + 1
    counts = torch.zeros(
        n_classes, features.n_features, dtype=torch.float64, device=features.device
    )
    for classes_here, on in sorted_active_tiles(features, classes, threshold):
        first, last = int(classes_here[0]), int(classes_here[-1])
        among = torch.arange(first, last + 1)[:, None] == classes_here
        counts[first : last + 1] += among.to(on.device, on.dtype) @ on
    return counts


def sorted_active_tiles(
    features: Features, classes: Tensor, threshold: float
) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows in the order of their class, by tiles: the classes, and ones where an entry is on.

    The next tile overwrites the one before.
    """
    check_threshold(threshold)
    gathered, on = features.buffer(), features.buffer()
    order = torch.argsort(classes, stable=True)
    for rows in order.split(features.tile_rows):
        tile = features.rows(rows.to(features.device), out=gathered[: len(rows)])
        yield (
            classes[rows],
            active_rows(tile, threshold, signed=features.signed, out=on[: len(rows)]),
        )


def consecutive_classes(labels: Tensor) -> Tensor:
    """The labels renumbered to 0, 1, … in their order, without gaps, ``(n_samples,)``.

    Example:
        >>> consecutive_classes(torch.tensor([7, 3, 7]))
        tensor([1, 0, 1])
    """
    _, renumbered = torch.unique(labels, return_inverse=True)
    classes: Tensor = renumbered
    return classes
