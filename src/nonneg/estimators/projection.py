"""Which directions of the vectors carry meaning? Centring, principal axes, rows of one length."""

import math
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor, nn

from nonneg.estimators.vectors import tiles
from nonneg.metrics.results import FloatArray
from nonneg.metrics.rows import unit_rows

# Up to this many columns the covariance matrix is held whole; beyond, some axes are searched for.
_MAX_COVARIANCE = 4096
_MAX_AXES = 256
# An axis with less than this share of the largest variance is rounding error.
_RELATIVE_FLOOR = 1e-6


class Projection(nn.Module):
    """Vectors as directions: centred, on fixed axes, each scaled to the same length.

    The length is the square root of the number of axes, so that entries are of size 1.

    Args:
        in_features: Columns of the vectors.
        hidden_size: Number of axes.

    Example:
        >>> projection = Projection(3, 2)
        >>> _ = projection.axes.copy_(torch.eye(3)[:, :2])
        >>> projection(torch.tensor([[5.0, 0.0, 7.0]]))
        tensor([[1.4142, 0.0000]])
    """

    def __init__(self, in_features: int, hidden_size: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.hidden_size = hidden_size
        self.center: Tensor
        self.axes: Tensor
        self.register_buffer("center", torch.zeros(in_features))
        self.register_buffer("axes", torch.zeros(in_features, hidden_size))

    def forward(self, vectors: Tensor) -> Tensor:
        """Hidden vectors ``(n, hidden_size)`` of vectors ``(n, in_features)``.

        A vector that equals the centre has no direction and gives zeros.
        """
        return unit_rows((vectors - self.center) @ self.axes) * math.sqrt(self.hidden_size)


def principal_axes(X: Any, seed: int) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
    """The centre ``(d,)`` of the vectors, their principal axes ``(d, r)`` and variances ``(r,)``.

    Reads X twice, tile by tile. Axes without variance are left out; of more than 4,096 columns
    the 256 strongest axes are found.

    Args:
        X: ``(n, d)``.
        seed: Of the search for the strongest axes.

    Raises:
        ValueError: All rows are equal.
    """
    total = torch.zeros(X.shape[1], dtype=torch.float64)
    for _, part in tiles(X):
        total += part.double().sum(dim=0)
    center = total / X.shape[0]
    if X.shape[1] <= _MAX_COVARIANCE:
        variances, axes = torch.linalg.eigh(_covariance(X, center))
        variances, axes = variances.flip(0), axes.flip(1)
    else:
        variances, axes = _strongest_axes(X, center, seed)
    largest, size = float(variances[0]), float(center.square().sum())
    # Equal rows differ from their mean by the rounding of a sum, not by nothing.
    if largest <= 1e-12 * max(size, 1e-300):
        raise ValueError(
            f"X is constant: all {X.shape[0]} rows are equal, so there is nothing to learn"
        )
    kept = variances > _RELATIVE_FLOOR * largest
    return center.float(), _signed_axes(axes[:, kept]).float(), variances[kept].float()


def _covariance(X: Any, center: Tensor) -> Tensor:  # noqa: ANN401
    products = torch.zeros(len(center), len(center), dtype=torch.float64)
    for _, part in tiles(X):
        centred = part.double() - center
        products += centred.T @ centred
    products /= X.shape[0]
    return products


def _strongest_axes(X: Any, center: Tensor, seed: int) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """Variances and axes of the centred X, without holding it: only products with vectors."""
    mean = center.numpy()

    def times(vectors: FloatArray) -> FloatArray:
        product: FloatArray = np.asarray(X @ vectors) - mean @ vectors
        return product

    def transposed_times(vectors: FloatArray) -> FloatArray:
        product: FloatArray = np.asarray(X.T @ vectors)
        product -= np.multiply.outer(mean, vectors.sum(axis=0))
        return product

    operator = LinearOperator(
        X.shape, matvec=times, rmatvec=transposed_times, matmat=times, rmatmat=transposed_times,
        dtype=np.float64,
    )  # fmt: skip
    n_axes = min(_MAX_AXES, min(X.shape) - 1)
    start = np.random.default_rng(seed).standard_normal(min(X.shape))
    _, singular, axes = svds(operator, k=n_axes, v0=start, solver="arpack")
    order = np.argsort(-singular)
    variances = singular[order] ** 2 / X.shape[0]
    return torch.from_numpy(variances), torch.from_numpy(axes[order].T.copy())


def _signed_axes(axes: Tensor) -> Tensor:
    """Each axis with its largest entry positive, so that equal data give equal axes."""
    largest = axes.gather(0, axes.abs().argmax(dim=0, keepdim=True))
    return axes * torch.where(largest < 0, -1.0, 1.0)
