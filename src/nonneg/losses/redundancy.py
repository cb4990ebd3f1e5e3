"""Losses without negatives, against redundant features: VICReg and Barlow Twins."""

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses.checks import check_two_views
from nonneg.rows import at_least_float32

_LEAST_VARIANCE = 1e-4


def vicreg(
    z_a: Tensor,
    z_b: Tensor,
    *,
    invariance: float = 25.0,
    variance: float = 25.0,
    covariance: float = 1.0,
) -> Tensor:
    """The VICReg loss of a batch of pairs (Bardes et al. 2022, as in the authors' repository).

    Mean squared difference of partners; hinge of every feature's standard deviation at 1, mean
    over features; squared covariances of different features, divided by their number d; the last
    two for either side. Eq. 6 of the paper differs in two factors: its first term is summed over
    features, here it is their mean, and of the two sides' hinges it has the sum, here half of it.
    Rows are NOT normalised.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.
        invariance: Weight of the first term.
        variance: Of the second.
        covariance: Of the third.

    Example:
        One feature that is the same for all: only its missing variance costs, almost 1, half of
        it from either side.

        >>> vicreg(torch.ones(3, 1), torch.ones(3, 1), variance=1.0)
        tensor(0.9900)
    """
    check_two_views(z_a, z_b)
    with torch.autocast(z_a.device.type, enabled=False):
        z_a, z_b = at_least_float32(z_a), at_least_float32(z_b)
        spread = torch.stack([_missing_spread(z) for z in (z_a, z_b)]).mean()
        repeated = torch.stack([_repeated(z) for z in (z_a, z_b)]).sum()
        return invariance * F.mse_loss(z_a, z_b) + variance * spread + covariance * repeated


def _missing_spread(z: Tensor) -> Tensor:
    return F.relu(1 - (z.var(dim=0) + _LEAST_VARIANCE).sqrt()).mean()


def _repeated(z: Tensor) -> Tensor:
    centred = z - z.mean(dim=0)
    matrix = centred.T @ centred / (len(z) - 1)  # (d, d)
    return _without_diagonal(matrix).square().sum() / z.shape[1]


def _without_diagonal(matrix: Tensor) -> Tensor:
    """A square matrix with zeros there; to subtract the squares would lose digits."""
    return matrix - matrix.diagonal().diag()


_LEAST_SPREAD = 1e-5


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
        others = _without_diagonal(correlation).square().sum()
        return (1 - diagonal).square().sum() + redundancy * others


def _standard(z: Tensor) -> Tensor:
    centred = z - z.mean(dim=0)
    return centred / (centred.square().mean(dim=0) + _LEAST_SPREAD).sqrt()
