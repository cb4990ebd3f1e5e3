"""The samples of a probe as a matrix: dense or sparse, on one scale, in the space they span."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nonneg.metrics.inputs import Features

# Times as many rows as columns make a Gram matrix that is good enough to precondition with.
_GRAM_ROWS = 8
_GRAM_COLUMNS = 512


class Rows(Protocol):
    """Standardised samples ``(n, n_kept)`` as a solver needs them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of kept columns."""

    def part(self, which: slice | Tensor) -> "Rows":
        """Some of the samples; a slice of dense rows shares their memory."""

    def logits(self, weight: Tensor, bias: Tensor) -> Tensor:
        """The samples times weights ``(c, n_kept)`` plus a bias ``(c,)``: ``(n, c)``."""

    def gradient(self, residual: Tensor) -> Tensor:
        """A residual ``(n, c)``, transposed, times the samples: ``(c, n_kept)``."""

    def gram(self) -> Tensor:
        """Mean product of columns over the first samples, float64 ``(n_kept, n_kept)``."""


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Standardised samples in memory."""

    values: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of kept columns."""
        return self.values.shape[0], self.values.shape[1]

    def part(self, which: slice | Tensor) -> "DenseRows":
        """Some of the samples."""
        return DenseRows(self.values[which])

    def logits(self, weight: Tensor, bias: Tensor) -> Tensor:
        """The samples times weights plus a bias."""
        return torch.addmm(bias, self.values, weight.T)

    def gradient(self, residual: Tensor) -> Tensor:
        """The residual, transposed, times the samples."""
        # The other order, values.T @ residual, took twelve times as long for ten classes.
        return residual.T @ self.values

    def gram(self) -> Tensor:
        """Mean product of columns over the first samples."""
        some = self.values[: _GRAM_ROWS * self.shape[1]]
        n_columns = some.shape[1]
        gram = some.new_zeros(n_columns, n_columns)
        # It is symmetric: the lower triangle, by blocks of columns, is half of the work.
        for first in range(0, n_columns, _GRAM_COLUMNS):
            last = min(first + _GRAM_COLUMNS, n_columns)
            gram[first:last, :last] = some[:, first:last].T @ some[:, :last]
        gram = gram.tril() + gram.tril(-1).T
        return gram.double() / max(1, len(some))


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Scaled samples that keep their zeros; the mean is taken off in the products.

    Args:
        values: Scaled, not centred, ``(n, n_kept)``.
        shift: The mean in units of the scale, ``(n_kept,)``, of the type of the values.
    """

    values: sparse.csr_array
    shift: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of kept columns."""
        return int(self.values.shape[0]), len(self.shift)

    def part(self, which: slice | Tensor) -> "SparseRows":
        """Some of the samples."""
        index = which if isinstance(which, slice) else which.numpy()
        return SparseRows(sparse.csr_array(self.values[index]), self.shift)

    def logits(self, weight: Tensor, bias: Tensor) -> Tensor:
        """The samples times weights plus a bias."""
        product = torch.from_numpy(self.values @ weight.T.contiguous().numpy())
        return product.add_(bias - weight @ self.shift)

    def gradient(self, residual: Tensor) -> Tensor:
        """The residual, transposed, times the samples."""
        product = torch.from_numpy(self.values.T @ residual.numpy()).T
        return product - torch.outer(residual.sum(dim=0), self.shift)

    def gram(self) -> Tensor:
        """Mean product of columns over the first samples."""
        some = torch.from_numpy(self.values[: _GRAM_ROWS * self.shape[1]].toarray())
        return DenseRows(some - self.shift).gram()


# What is this much shorter than the samples is their rounding, in units of the type's.
_ROUNDING = 64.0
# Only a space of this share of the columns is worth the products that take the samples there.
_WORTH = 0.25
_TILE_ROWS = 4096


def fewer_columns(rows: DenseRows) -> tuple[DenseRows, Tensor | None]:
    """The samples in a space of fewer columns that all of them lie in, and its axes ``(r, d)``.

    Weights with an L2 penalty never leave the span of the samples, so the best weights there times
    the axes are the best weights here: the same probe from a smaller problem. Few samples span
    little; so do many whose columns are mixtures of fewer, as the scores of a linear projector are.

    Returns:
        The samples as they are, and None, where their span is not much smaller than the columns.

    Example:
        >>> mixtures = torch.randn(100, 2) @ torch.randn(2, 12)
        >>> flat, axes = fewer_columns(DenseRows(mixtures))
        >>> flat.shape, axes.shape
        ((100, 2), torch.Size([2, 12]))
    """
    n, d = rows.shape
    if d == 1:
        return rows, None
    few = 2 * n <= d
    # Half as many samples as columns show the span if it is small; then all have to lie in it.
    seen = slice(None) if few else torch.arange(d // 2, device=rows.values.device) * n // (d // 2)
    axes = _axes(rows.values[seen])
    if not (few or _is_worth_it(rows, axes)):
        return rows, None
    return DenseRows(torch.cat([tile @ axes.T for tile in _tiles(rows)])), axes


def _axes(some: Tensor) -> Tensor:
    """Orthonormal axes ``(r, d)`` of the span of some samples, but for their rounding."""
    values = some.double()
    squares, vectors = torch.linalg.eigh(values @ values.T)
    rounding = _ROUNDING * torch.finfo(some.dtype).eps
    of_squares = len(some) * torch.finfo(torch.float64).eps
    kept = squares > max(rounding**2, of_squares) * squares[-1:]
    axes: Tensor = torch.linalg.qr(values.T @ vectors[:, kept]).Q.T
    return axes.to(some.dtype).contiguous()


def _is_worth_it(rows: DenseRows, axes: Tensor) -> bool:
    """Whether a space is small, and all samples lie in it."""
    return len(axes) <= _WORTH * rows.shape[1] and all(_lie_in(t, axes) for t in _tiles(rows))


def _lie_in(tile: Tensor, axes: Tensor) -> bool:
    """Whether the space of some axes holds every sample but for rounding."""
    outside = tile - (tile @ axes.T) @ axes
    rounding = _ROUNDING * torch.finfo(tile.dtype).eps
    return bool((outside.norm(dim=1) <= rounding * tile.norm(dim=1).max()).all())


def _tiles(rows: DenseRows) -> list[Tensor]:
    return list(rows.values.split(_TILE_ROWS))


# No training entry is further than this many units from its column's mean.
_FURTHEST = 50.0
# From this share of zeros on, sparse products are faster than dense ones.
_SPARSE_ZERO_RATE = 0.9
# One row in so many is looked at to see how many entries are zero.
_ZERO_STEP = 16


@dataclass(frozen=True, eq=False)
class Columns:
    """What was learnt about the columns of the training features.

    Args:
        mean: ``(n_kept,)``, float64.
        scale: What one unit is, ``(n_kept,)``, float64.
        kept: The numbers of the columns that vary, ``(n_kept,)``.
        zero_rate: About the share of entries that are zero.
    """

    mean: Tensor
    scale: Tensor
    kept: Tensor
    zero_rate: float


def column_scales(features: Features) -> Columns:
    """Mean and scale of each column that varies, from one pass over the samples.

    The scale is the standard deviation, but at least a fiftieth of the largest distance from the
    mean. A feature that is on for 1 of 50,000 samples has a standard deviation of 1/224 of its
    value; without the floor it would enter the probe as 224 units, and a stronger test sample as
    thousands. Columns whose range is within rounding of zero are not kept.

    Example:
        >>> from nonneg.metrics.inputs import checked_features
        >>> columns = column_scales(checked_features([[0.0, 5.0], [2.0, 5.0]]))
        >>> columns.mean.tolist(), columns.scale.tolist(), columns.kept.tolist()
        ([1.0], [1.0], [0])
    """
    n = features.n_samples
    # Sums are taken around one sample's values: far from zero, squares would drown the variance.
    centre = features.rows(slice(0, 1))[0]
    total = torch.zeros_like(centre, dtype=torch.float64)
    squares = torch.zeros_like(total)
    lowest, highest = centre.clone(), centre.clone()
    n_zero, n_looked_at = 0, 0
    for _, tile in features.tiles():
        lowest = torch.minimum(lowest, tile.amin(dim=0))
        highest = torch.maximum(highest, tile.amax(dim=0))
        some = tile[::_ZERO_STEP]
        n_zero, n_looked_at = n_zero + int((some == 0).sum()), n_looked_at + some.numel()
        distance = tile - centre
        total += distance.sum(dim=0, dtype=torch.float64)
        squares += distance.square_().sum(dim=0, dtype=torch.float64)
    offset = total / n
    mean = (centre + offset).to(features.dtype).double()
    lowest, highest = lowest.double(), highest.double()
    furthest = torch.maximum(highest - mean, mean - lowest)
    scale = torch.maximum((squares / n - offset.square()).clamp(min=0).sqrt(), furthest / _FURTHEST)
    rounding = 8 * torch.finfo(features.dtype).eps
    kept = (highest - lowest > rounding * torch.maximum(highest.abs(), lowest.abs())).nonzero()[
        :, 0
    ]
    # Rounded, so that the matrix that is fitted to and the map that is kept agree exactly.
    scale = scale.to(features.dtype).double()
    if not bool(torch.isfinite(scale).all()):
        raise ValueError(
            f"train has entries up to {max(-features.lowest, features.highest):.3g}, whose squares "
            "overflow; divide the features by a constant"
        )
    return Columns(mean[kept], scale[kept], kept, zero_rate=n_zero / n_looked_at)


def standard_rows(features: Features, columns: Columns, order: Tensor) -> Rows:
    """The samples in the given order, standardised; sparse if most entries are zero.

    The only copy of the samples that a probe makes. Dense on other devices than the CPU, and for
    fewer samples than columns.

    Args:
        features: ``(n, n_features)``.
        columns: Of the same features.
        order: Numbers of samples, on the CPU.
    """
    tiles = order.split(features.tile_rows)
    on_cpu, enough = features.device.type == "cpu", len(order) >= len(columns.kept)
    if on_cpu and enough and columns.zero_rate >= _SPARSE_ZERO_RATE:
        scale = columns.scale.to(features.dtype)
        parts = [_csr(_kept_columns(features, tile, columns) / scale) for tile in tiles]
        shift = (columns.mean / columns.scale).to(features.dtype)
        return SparseRows(sparse.csr_array(sparse.vstack(parts, format="csr")), shift)
    values = torch.empty(
        len(order), len(columns.kept), dtype=features.dtype, device=features.device
    )
    mean, scale = columns.mean.to(features.dtype), columns.scale.to(features.dtype)
    for part, tile in zip(values.split(features.tile_rows), tiles, strict=True):
        part.copy_(_kept_columns(features, tile, columns)).sub_(mean).div_(scale)
    return DenseRows(values)


def _kept_columns(features: Features, which: Tensor, columns: Columns) -> Tensor:
    rows = features.rows(which.to(features.device))
    return rows if len(columns.kept) == rows.shape[1] else rows[:, columns.kept]


def _csr(tile: Tensor) -> sparse.csr_array:
    dense = tile.numpy()
    where = np.flatnonzero(dense)
    starts = np.concatenate([[0], np.count_nonzero(dense, axis=1).cumsum()])
    entries = (dense.ravel()[where], (where % dense.shape[1]).astype(np.int32), starts)
    return sparse.csr_array(entries, shape=dense.shape)
