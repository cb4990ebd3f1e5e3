"""Which directions of the vectors carry meaning? Their centre and their principal axes."""

from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor

from nonneg.backbones import Projection
from nonneg.estimators.vectors import tiles
from nonneg.metrics.results import FloatArray

__all__ = ["Projection", "principal_axes"]

# Up to this many columns the covariance matrix is held whole; beyond, some axes are searched for.
_MAX_COVARIANCE = 4096
_MAX_AXES = 256
# An axis with less than this share of the largest variance is rounding error.
_RELATIVE_FLOOR = 1e-6


def principal_axes(
    X: Any,  # noqa: ANN401
    seed: int,
    name: str = "X",
) -> tuple[Tensor, Tensor, Tensor]:
    """The centre ``(d,)`` of the vectors, their principal axes ``(d, r)`` and variances ``(r,)``.

    Reads X twice, tile by tile. Axes without variance are left out; of more than 4,096 columns
    the 256 strongest axes are found. Variances are float64: squares of large or small numbers are
    beyond float32.

    Args:
        X: ``(n, d)``.
        seed: Of the search for the strongest axes.
        name: What errors call the vectors.

    Raises:
        ValueError: All rows are equal.
    """
    total = torch.zeros(X.shape[1], dtype=torch.float64)
    low = torch.full((X.shape[1],), torch.inf)
    high = -low
    for _, part in tiles(X):
        total += part.double().sum(dim=0)
        low, high = low.minimum(part.amin(dim=0)), high.maximum(part.amax(dim=0))
    if torch.equal(low, high):
        raise ValueError(
            f"{name} is constant: all {X.shape[0]} rows are equal, so there is nothing to learn"
        )
    center = total / X.shape[0]
    if X.shape[1] <= _MAX_COVARIANCE:
        variances, axes = torch.linalg.eigh(_covariance(X, center))
        variances, axes = variances.flip(0), axes.flip(1)
    else:
        variances, axes = _strongest_axes(X, center, seed)
    kept = variances > _RELATIVE_FLOOR * variances[0]
    return center.float(), _signed_axes(axes[:, kept]).float(), variances[kept]


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

    # A sparse X is multiplied as it is; a map would be copied whole, to float64, at every product.
    is_sparse: bool = sparse.issparse(X)

    def times(vectors: FloatArray) -> FloatArray:
        if is_sparse:
            product: FloatArray = np.asarray(X @ vectors)
        else:
            product = np.concatenate([part.double().numpy() @ vectors for _, part in tiles(X)])
        return product - mean @ vectors

    def transposed_times(vectors: FloatArray) -> FloatArray:
        product: FloatArray = -np.multiply.outer(mean, vectors.sum(axis=0))
        if is_sparse:
            product += np.asarray(X.T @ vectors)
            return product
        for rows, part in tiles(X):
            product += part.double().numpy().T @ vectors[rows]
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
