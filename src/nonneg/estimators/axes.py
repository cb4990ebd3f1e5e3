"""Principal axes of the vectors, and how many of them are worth keeping."""

import math
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor

from nonneg.backbones.simple import Projection
from nonneg.estimators.inputs import TILE_ENTRIES, dense_rows, tiles
from nonneg.metrics.results import FloatArray
from nonneg.pairs.neighbours import exact_neighbors

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


# How many samples are compared with how many others, and with how many of the nearest.
_N_QUERIES = 1000
_N_GALLERY = 20_000
_N_NEIGHBORS = 10
# An axis on which neighbours agree nearly as well as on the average is no noise.
_NEARLY = 0.9


def fitted_projection(
    X: Any,  # noqa: ANN401
    denoise: str | int,
    seed: int,
    name: str = "X",
) -> Projection:
    """Centre and principal axes of the vectors, without the axes that are noise.

    Args:
        X: ``(n, d)``, an array, a memory map or SciPy CSR.
        denoise: ``"auto"`` (see :func:`kept_axes`), ``"none"`` for all axes, or their number.
        seed: Of the samples that are compared.
        name: What errors call the vectors.
    """
    center, axes, variances = principal_axes(X, seed, name)
    if denoise == "auto":
        generator = torch.Generator().manual_seed(seed)
        some = torch.randperm(X.shape[0], generator=generator)[:_N_GALLERY].sort().values
        positions = _positions(X, some, center, axes)  # (n, r)
        # A power of two changes no digit, and keeps squares within float32.
        scale = 2.0 ** round(math.log2(float(variances[0])) / 2)
        kept = kept_axes(positions / scale, (variances / scale**2).float(), generator)
    else:
        kept = torch.arange(len(variances) if denoise == "none" else int(denoise))
        if len(kept) > len(variances):
            raise ValueError(
                f"denoise={denoise} asks for more principal axes than the {len(variances)} found "
                f"in the {X.shape[0]} rows and {X.shape[1]} columns of {name}; lower it, or set "
                "denoise='none' to keep all"
            )
    projection = Projection(X.shape[1], len(kept))
    projection.center.copy_(center)
    projection.axes.copy_(axes[:, kept])
    return projection


def _positions(X: Any, rows: Tensor, center: Tensor, axes: Tensor) -> Tensor:  # noqa: ANN401
    """Some rows on the axes, ``(n, r)``, without holding all of their columns at once."""
    step = max(1, TILE_ENTRIES // X.shape[1])
    return torch.cat([(dense_rows(X, part.numpy()) - center) @ axes for part in rows.split(step)])


def kept_axes(positions: Tensor, variances: Tensor, generator: torch.Generator) -> Tensor:
    """The numbers of the axes to keep, int64.

    Let c be the correlation of neighbours along an axis that was not used to find them, and s its
    mean over all axes, weighted by variance. Where samples come in tight groups s is near 1, and
    what is left beside the groups is noise; where each sample is a thing of its own s is near 0,
    and every detail counts. So the strongest axes with a share ``1 - s/2`` of the variance are
    kept, and those with c of at least 0.9 s besides.

    Args:
        positions: Centred samples on their principal axes ``(n, r)``.
        variances: Of the axes, falling ``(r,)``.
        generator: Draws the samples to compare and the halves of the axes.

    Example:
        Two tight groups far apart on the first axis, and five axes of noise:

        >>> generator = torch.Generator().manual_seed(0)
        >>> positions = 0.1 * torch.randn(400, 6, generator=generator)
        >>> positions[:, 0] += torch.arange(400) % 2 * 2 - 1
        >>> 0 in kept_axes(positions, positions.var(dim=0), generator).tolist()
        True
    """
    agreement = neighbor_correlation(positions, variances, generator)
    share = variances / variances.sum()
    overall = float((agreement * share).sum())
    before = share.cumsum(0) - share
    kept = (before < 1 - overall / 2) | (agreement >= _NEARLY * max(overall, 0.0))
    return kept.nonzero()[:, 0]


def neighbor_correlation(
    positions: Tensor, variances: Tensor, generator: torch.Generator
) -> Tensor:
    """How well neighbours agree along each axis, found by other axes only, ``(r,)`` in [0, 1].

    The axes are split by chance into halves; neighbours by cosine in one half are compared in the
    other. With one axis there is no other to find neighbours by, and the answer is 0.
    """
    n_samples, n_axes = positions.shape
    correlation = torch.zeros(n_axes)
    queries = torch.randperm(n_samples, generator=generator)[:_N_QUERIES]
    k = min(_N_NEIGHBORS, n_samples - 1)
    order = torch.randperm(n_axes, generator=generator)
    halves = order[: n_axes // 2], order[n_axes // 2 :]
    for found_by, compared in (halves, halves[::-1]):
        if not len(found_by):
            continue
        nearest = exact_neighbors(positions[:, found_by], queries, k)  # (queries, k)
        there = positions[:, compared]
        around = there[nearest.flatten()].view(len(queries), k, -1).mean(dim=1)
        correlation[compared] = (there[queries] * around).mean(dim=0) / variances[compared]
    return correlation.clamp(0, 1)
