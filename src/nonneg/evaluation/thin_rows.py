"""Can samples of many columns be made small? By coordinates in the space that they span."""

import torch
from torch import Tensor

from nonneg.evaluation.solver_rows import DenseRows

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
