"""Log-sum-exp over all rows and columns of a product, in tiles: exact, without the matrix.

The largest product that rows of these lengths can have is known before it is computed. Shifted so
that no sum can overflow, entries may still underflow; whether that has mattered shows in the sums.

Needed at very low temperatures, where exponentials of one batch no longer fit one range of floats,
and for rows that have nothing to be summed over.

The gradient needs the same exponentials again: some tiles are kept, the others computed anew.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from nonneg.losses._tiles import Keys, Tile, TiledProduct, n_kept, slots, tile_size, tiles

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


def tiled_log_sums(
    rows: Tensor, columns: Tensor | None = None, keys: Keys | None = None
) -> tuple[Tensor, Tensor]:
    """``log sum_j exp(rows_i · columns_j)`` for every row i, and the same for every column.

    The matrix of products is symmetric if both sides are the same rows; then only its upper
    triangle is computed, and a tile serves its rows and its columns. Memory grows with the number
    of rows, not with its square.

    Args:
        rows: ``(n_rows, d)``, float32 or float64.
        columns: ``(n_columns, d)``; None for the rows themselves.
        keys: A row and a column with the same key are left out of each other's sum. A sum over
            nothing is ``-inf``.

    Returns:
        ``(n_rows,)`` and ``(n_columns,)``; the same tensor twice if ``columns`` is None.

    Example:
        Two rows at a right angle: ``log(e + 1)`` each.

        >>> tiled_log_sums(torch.eye(2))[0]
        tensor([1.3133, 1.3133])
    """
    if keys is None or keys.are_rising():
        return _in_order(rows, columns, keys)
    orders = [of_side.argsort() for of_side in keys]
    found = _in_order(
        rows[orders[0]],
        None if columns is None else columns[orders[1]],
        Keys(*(of_side[order] for of_side, order in zip(keys, orders, strict=True))),
    )
    of_rows, of_columns = (z[order.argsort()] for z, order in zip(found, orders, strict=True))
    return of_rows, of_columns


def _in_order(rows: Tensor, columns: Tensor | None, keys: Keys | None) -> tuple[Tensor, Tensor]:
    for side in (rows, rows if columns is None else columns):
        # Torch would take the derivative of an operator of our own for zero.
        if forward_ad.unpack_dual(side).tangent is not None:
            raise NotImplementedError("sums in tiles have no forward-mode gradient; use backward")
    learns = rows.requires_grad or (columns is not None and columns.requires_grad)
    of_rows, of_columns, _ = _sums(
        rows, columns, *(keys or (None, None)), learns and torch.is_grad_enabled()
    )
    return of_rows, of_rows if columns is None else of_columns


def _compute_sums(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    product = TiledProduct(rows, columns, _keys(row_keys, column_keys))
    shift = smallest_shift(product)
    of_rows, of_columns, kept = fixed_log_sums(product, shift, keep=keep)
    if not is_safe(product, shift, of_rows, of_columns):
        of_rows, of_columns = online_log_sums(product)
    return of_rows, rows.new_empty(0) if columns is None else of_columns, kept


def _compute_gradients(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    of_rows: Tensor,
    of_columns: Tensor,
    kept: Tensor,
    row_gradient: Tensor,
    column_gradient: Tensor,
    wanted: Sequence[bool],
) -> tuple[Tensor, Tensor]:
    product = TiledProduct(rows, columns, _keys(row_keys, column_keys))
    to_rows, to_columns = _room_for_gradients(rows, columns, wanted)
    if columns is None:
        of_columns, column_gradient, to_columns = of_rows, row_gradient, to_rows
    shift = smallest_shift(product)
    if is_safe(product, shift, of_rows, of_columns):
        row_scale = row_gradient * (shift - of_rows).exp()
        column_scale = column_gradient * (shift - of_columns).exp()
        weights = fixed_weights(product, shift, kept, row_scale, column_scale)
    else:
        weights = online_weights(product, of_rows, of_columns, row_gradient, column_gradient)
    for tile, weight in weights:
        if wanted[0]:
            to_rows[tile.rows].addmm_(weight, product.columns[tile.columns])
        if wanted[1] and tile.is_mirrored:
            to_columns[tile.columns].addmm_(weight.T, product.rows[tile.rows])
    return to_rows, rows.new_empty(0) if columns is None else to_columns


def _room_for_gradients(
    rows: Tensor, columns: Tensor | None, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor]:
    to_rows = torch.zeros_like(rows) if wanted[0] else rows.new_empty(0)
    if columns is None or not wanted[1]:
        return to_rows, rows.new_empty(0)
    return to_rows, torch.zeros_like(columns)


def _keys(of_rows: Tensor | None, of_columns: Tensor | None) -> Keys | None:
    return None if of_rows is None or of_columns is None else Keys(of_rows, of_columns)


def _shapes_of_sums(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    n_columns = None if columns is None else len(columns)
    size = tile_size(len(rows), on_cpu=rows.device.type == "cpu")
    found = tiles(len(rows), n_columns, size=size)
    n_entries = n_kept(found, itemsize=rows.itemsize) if keep else 0
    return rows.new_empty(len(rows)), rows.new_empty(n_columns or 0), rows.new_empty(n_entries)


def _shapes_of_gradients(
    rows: Tensor,
    columns: Tensor | None,
    *others: Any,  # noqa: ANN401
) -> tuple[Tensor, Tensor]:
    *_, wanted = others
    return _room_for_gradients(rows, columns, wanted)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401
    *tensors, _ = inputs
    ctx.save_for_backward(*tensors, *output)
    # The kept tiles have no gradient: no zeros for them.
    ctx.set_materialize_grads(False)


def _backward(
    ctx: Any,  # noqa: ANN401
    row_gradient: Tensor | None,
    column_gradient: Tensor | None,
    _: None,
) -> tuple[Tensor | None, ...]:
    rows, columns, row_keys, column_keys, of_rows, of_columns, kept = ctx.saved_tensors
    of_pair = ctx.needs_input_grad[:2]
    to_rows, to_columns = _gradients(
        rows,
        columns,
        row_keys,
        column_keys,
        of_rows,
        of_columns,
        kept,
        torch.zeros_like(of_rows) if row_gradient is None else row_gradient,
        torch.zeros_like(of_columns) if column_gradient is None else column_gradient,
        # A tile of the triangle also gives to the rows that are its columns.
        [of_pair[0], of_pair[0] if columns is None else of_pair[1]],
    )
    return to_rows if of_pair[0] else None, to_columns if of_pair[1] else None, None, None, None


# Operators of their own: torch.compile calls them without looking inside.
_sums = torch.library.custom_op("nonneg::log_sums", _compute_sums, mutates_args=())
_gradients = torch.library.custom_op(
    "nonneg::log_sums_gradients", _compute_gradients, mutates_args=()
)
_sums.register_fake(_shapes_of_sums)
_gradients.register_fake(_shapes_of_gradients)
_sums.register_autograd(_backward, setup_context=_remember)
