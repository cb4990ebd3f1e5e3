"""Barlow Twins: no negatives; the correlation of features between views shall be the identity."""

import torch
from torch import Tensor

from nonneg.losses.rows import at_least_float32, check_two_views

_EPSILON = 1e-5


def barlow_twins(z_a: Tensor, z_b: Tensor, *, redundancy: float = 0.005) -> Tensor:
    """The Barlow Twins loss of a batch of pairs (Zbontar et al. 2021, eq. 1).

    ``sum_i (1 - C_ii)² + redundancy · sum_{i≠j} C_ij²`` with C the correlations of the features of
    one view with those of the other, over the batch. A feature that does not vary has correlation
    0 with all.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.
        redundancy: Weight of the second sum.

    Example:
        The same two features in both views, uncorrelated: nothing is left to lose.

        >>> z = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> float(barlow_twins(z, z)) < 1e-4
        True
    """
    check_two_views(z_a, z_b)
    with torch.autocast(z_a.device.type, enabled=False):
        z_a, z_b = at_least_float32(z_a), at_least_float32(z_b)
        correlation = _standard(z_a).T @ _standard(z_b) / len(z_a)  # (d, d)
        diagonal = correlation.diagonal()
        others = correlation.square().sum() - diagonal.square().sum()
        return (1 - diagonal).square().sum() + redundancy * others


def _standard(z: Tensor) -> Tensor:
    centred = z - z.mean(dim=0)
    return centred / (centred.square().mean(dim=0) + _EPSILON).sqrt()
