"""Log-sum-exp with a running maximum for each row and column: slower, and never out of range.

Needed at very low temperatures, where exponentials of one batch no longer fit one range of floats,
and for rows that have nothing to be summed over.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from nonneg.losses.tiled_product import TiledProduct
from nonneg.losses.tiles import Tile


def online_log_sums(product: TiledProduct) -> tuple[Tensor, Tensor]:
    """The log-sum-exp of every row and of every column; ``-inf`` where nothing is summed.

    Returns:
        ``(n_rows,)`` and ``(n_columns,)``.

    Example:
        >>> rows = torch.tensor([[1000.0], [1.0]])  # logits 1e6, 1000, 1000, 1
        >>> online_log_sums(TiledProduct(rows, None, None))[0]
        tensor([1000000.,    1000.])
    """
    row_tops, column_tops = product.empty_sums(-math.inf)
    row_sums, column_sums = product.empty_sums(0.0)
    for tile in product.tiles:
        logits = product.leave_out(tile, product.logits(tile), value=-math.inf)
        _add(row_tops[tile.rows], row_sums[tile.rows], logits)
        if tile.is_mirrored:
            _add(column_tops[tile.columns], column_sums[tile.columns], logits.T)
    return row_tops + row_sums.log(), column_tops + column_sums.log()


def online_weights(
    product: TiledProduct,
    of_rows: Tensor,
    of_columns: Tensor,
    row_gradient: Tensor,
    column_gradient: Tensor,
) -> Iterator[tuple[Tile, Tensor]]:
    """Each tile with the gradient of its logits, ``r_i exp(x_ij - R_i) + c_j exp(x_ij - C_j)``.

    Args:
        product: The logits x.
        of_rows: ``(n_rows,)``: their log-sum-exp R.
        of_columns: ``(n_columns,)``: their log-sum-exp C.
        row_gradient: ``(n_rows,)``: the gradient r of R.
        column_gradient: ``(n_columns,)``: the gradient c of C.
    """
    # A sum over nothing has no gradient to give: exp(x - inf) is 0.
    of_rows, of_columns = (z.masked_fill(z == -math.inf, math.inf) for z in (of_rows, of_columns))
    for tile in product.tiles:
        logits = product.leave_out(tile, product.logits(tile), value=-math.inf)
        weights = (logits - of_rows[tile.rows, None]).exp_().mul_(row_gradient[tile.rows, None])
        logits.sub_(of_columns[tile.columns]).exp_()
        yield tile, weights.addcmul_(logits, column_gradient[tile.columns].expand_as(logits))


def _add(tops: Tensor, sums: Tensor, logits: Tensor) -> None:
    """Add the exponentials of each row to sums that are relative to ``exp(tops)``, in place."""
    higher = torch.maximum(tops, logits.amax(1))
    finite = higher.masked_fill(higher == -math.inf, 0.0)
    sums.mul_((tops - finite).exp()).add_((logits - finite[:, None]).exp_().sum(1))
    tops.copy_(higher)
