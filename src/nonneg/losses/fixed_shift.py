"""Log-sum-exp with one shift for all entries: the fast way, where numbers are not too far apart.

The largest product that rows of these lengths can have is known before it is computed. Shifted so
that no sum can overflow, entries may still underflow; whether that has mattered shows in the sums.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from nonneg.losses.tiled_product import TiledProduct
from nonneg.losses.tiles import Tile, n_kept, slots

_LOG2_E = math.log2(math.e)


def smallest_shift(product: TiledProduct) -> float:
    """The least number to subtract from all logits so that no sum of exponentials overflows.

    Example:
        Cosines over a temperature of 0.2 are at most 5: nothing has to be subtracted.

        >>> smallest_shift(TiledProduct(torch.eye(3) / 0.2**0.5, None, None))
        0.0
    """
    longest = [float(torch.linalg.vector_norm(z, dim=1).max()) for z in _sides(product)]
    n_summed = max(len(product.rows), len(product.columns))
    highest = math.log(torch.finfo(product.rows.dtype).max) - math.log(n_summed) - 1
    return max(0.0, longest[0] * longest[-1] - highest)


def is_safe(product: TiledProduct, shift: float, of_rows: Tensor, of_columns: Tensor) -> bool:
    """Whether what underflowed is less than a rounding error of every sum.

    Args:
        product: What was summed.
        shift: What was subtracted.
        of_rows: ``(n_rows,)``: logarithms of the sums, with the shift added again.
        of_columns: ``(n_columns,)``
    """
    kind = torch.finfo(product.rows.dtype)
    n_summed = max(len(product.rows), len(product.columns))
    lowest = math.log(n_summed) + math.log(kind.tiny) - math.log(kind.eps)
    return float(torch.minimum(of_rows.min(), of_columns.min())) - shift >= lowest


def fixed_log_sums(
    product: TiledProduct, shift: float, *, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The log-sum-exp of every row and of every column, and the tiles kept for the gradient.

    Returns:
        ``(n_rows,)``, ``(n_columns,)``, and a flat tensor, empty unless ``keep``.
    """
    n_entries = n_kept(product.tiles, itemsize=product.rows.itemsize) if keep else 0
    kept = product.rows.new_empty(n_entries)
    of_rows, of_columns = product.empty_sums(0.0)
    for tile, slot in zip(product.tiles, slots(product.tiles, kept), strict=True):
        entries = _exponentials(product, tile, shift, out=slot)
        of_rows[tile.rows] += entries.sum(1)
        if tile.is_mirrored:
            of_columns[tile.columns] += entries.sum(0)
    return of_rows.log() + shift, of_columns.log() + shift, kept


def fixed_weights(
    product: TiledProduct, shift: float, kept: Tensor, row_scale: Tensor, column_scale: Tensor
) -> Iterator[tuple[Tile, Tensor]]:
    """Each tile with the gradient of its logits, ``exp(logit_ij - shift) (r_i + c_j)``.

    Args:
        product: The logits.
        shift: As for the sums.
        kept: The tiles that ``fixed_log_sums`` kept.
        row_scale: ``(n_rows,)``: r.
        column_scale: ``(n_columns,)``: c.
    """
    room = product.new_room()
    for tile, slot in zip(product.tiles, slots(product.tiles, kept), strict=True):
        entries = _exponentials(product, tile, shift) if slot is None else slot
        weights = room[: tile.n_entries].view(tile.shape)
        torch.add(row_scale[tile.rows, None], column_scale[tile.columns], out=weights)
        yield tile, weights.mul_(entries)


def _exponentials(
    product: TiledProduct, tile: Tile, shift: float, *, out: Tensor | None = None
) -> Tensor:
    # Powers of two are computed in about half the time of powers of e.
    logits = product.logits(tile, out=out, scale=_LOG2_E)
    if shift:
        logits.sub_(shift * _LOG2_E)
    return product.leave_out(tile, logits.exp2_(), value=0.0)


def _sides(product: TiledProduct) -> tuple[Tensor, ...]:
    return (product.rows,) if product.is_triangle else (product.rows, product.columns)
