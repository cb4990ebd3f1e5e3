"""Log-sum-exp over all rows and columns of a product, in tiles: exact, without the matrix.

The largest product that rows of these lengths can have is known before it is computed. With a fixed
shift no sum overflows; underflow shows in the sums and is rare: it needs very low temperatures, or
nothing to sum. Such sums are computed again, each row with a shift of its own. The gradient needs
the same exponentials as the sums: some tiles are kept for it, the others computed again.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Never

import torch
from torch import Tensor
from torch.autograd import forward_ad

# Rows and columns of a tile: a few MB, so that what is done to it happens in a processor's cache.
# Accelerators want more work per call.
CPU_TILE = (512, 1024)
ACCELERATOR_TILE = (4096, 8192)
# Tiles that are kept from the forward to the backward pass need not be computed again: all of them
# up to 4,096 rows in float32.
KEPT_BYTES = 36 * 2**20
_LOG2_E = math.log2(math.e)


class Tile(NamedTuple):
    """A rectangle of the matrix."""

    rows: slice
    columns: slice
    is_mirrored: bool
    """Whether it counts for its columns too: all but the tiles on the diagonal of a triangle."""
    is_masked: bool
    """Whether a row and a column of it may have the same key."""

    @property
    def shape(self) -> tuple[int, int]:
        """Its numbers of rows and columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def n_entries(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


class Keys(NamedTuple):
    """Which entries are left out: those whose row and column have the same key.

    If keys rise, equal ones lie side by side, and of almost all tiles the ends of their keys tell
    that they have no such entry.
    """

    of_rows: Tensor
    """``(n_rows,)``"""
    of_columns: Tensor
    """``(n_columns,)``"""

    def are_rising(self) -> bool:
        """Whether no key is lower than the one before it."""
        return all(bool((keys[1:] >= keys[:-1]).all()) for keys in self)

    def equal(self, tile: Tile) -> Tensor:
        """Which entries of a tile are left out; ``(rows, columns)``."""
        return self.of_rows[tile.rows, None] == self.of_columns[tile.columns]


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
    found: tuple[Tensor, Tensor]
    if keys is None or keys.are_rising():
        found = _in_order(rows, columns, keys)
        return found
    orders = [of_side.argsort() for of_side in keys]
    found = _in_order(
        rows[orders[0]],
        None if columns is None else columns[orders[1]],
        Keys(*(of_side[order] for of_side, order in zip(keys, orders, strict=True))),
    )
    of_rows, of_columns = (z[order.argsort()] for z, order in zip(found, orders, strict=True))
    return of_rows, of_columns


# A compiler would unroll the loop over tiles.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _in_order(rows: Tensor, columns: Tensor | None, keys: Keys | None) -> tuple[Tensor, Tensor]:
    for side in (rows, rows if columns is None else columns):
        # Torch would take the derivative of a custom operator to be zero.
        if forward_ad.unpack_dual(side).tangent is not None:
            raise NotImplementedError("sums in tiles have no forward-mode gradient; use backward")
    learns = rows.requires_grad or (columns is not None and columns.requires_grad)
    of_rows, of_columns = _LogSums.apply(rows, columns, keys, learns and torch.is_grad_enabled())  # type: ignore[no-untyped-call]
    return of_rows, of_rows if columns is None else of_columns


class _LogSums(torch.autograd.Function):
    """The sums, and their first derivatives."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        rows: Tensor,
        columns: Tensor | None,
        keys: Keys | None,
        learns: bool,
    ) -> tuple[Tensor, Tensor | None]:
        product = TiledProduct(rows, columns, keys)
        shift = smallest_shift(product)
        of_rows, of_columns, kept = fixed_log_sums(product, shift, keep=learns)
        is_fixed = is_safe(product, shift, of_rows, of_columns)
        if not is_fixed:
            of_rows, of_columns = rowwise_log_sums(product)
        ctx.keys, ctx.shift, ctx.is_fixed = keys, shift, is_fixed
        ctx.save_for_backward(rows, columns, of_rows, of_columns, kept)
        return of_rows, None if columns is None else of_columns

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        row_gradient: Tensor,
        column_gradient: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        rows, columns, of_rows, of_columns, kept = ctx.saved_tensors
        product = TiledProduct(rows, columns, ctx.keys)
        to_rows = torch.zeros_like(rows) if ctx.needs_input_grad[0] else None
        to_columns = torch.zeros_like(columns) if ctx.needs_input_grad[1] else None
        if column_gradient is None:
            # A tile of the triangle also gives to the rows that are its columns.
            column_gradient, to_columns = row_gradient, to_rows
        with torch.no_grad():
            sums, gradients = (of_rows, of_columns), (row_gradient, column_gradient)
            if ctx.is_fixed:
                scales = (g * (ctx.shift - z).exp() for z, g in zip(sums, gradients, strict=True))
                weights = fixed_weights(product, ctx.shift, kept, *scales)
            else:
                weights = rowwise_weights(product, *sums, *gradients)
            for tile, weight in weights:
                if to_rows is not None:
                    to_rows[tile.rows].addmm_(weight, product.columns[tile.columns])
                if to_columns is not None and tile.is_mirrored:
                    to_columns[tile.columns].addmm_(weight.T, product.rows[tile.rows])
        found = [to_rows, None if columns is None else to_columns]
        if torch.is_grad_enabled():
            known = (rows, columns, *gradients)
            found = [z if z is None else _LastDerivative.apply(z, *known) for z in found]  # type: ignore[no-untyped-call]
        return *found, None, None


class _LastDerivative(torch.autograd.Function):
    """A gradient that raises if it is differentiated again, where torch would give zero."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *_: Tensor | None) -> Tensor:  # noqa: ANN401
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Never:  # noqa: ANN401
        raise RuntimeError("sums in tiles have no second derivative; use a smaller batch")


def tile_size(n_rows: int, *, on_cpu: bool) -> tuple[int, int]:
    """The numbers of rows and columns of a tile.

    Example:
        >>> tile_size(1000, on_cpu=True), tile_size(10_000, on_cpu=True)
        ((256, 1024), (512, 1024))
    """
    if not on_cpu:
        return ACCELERATOR_TILE
    height, width = CPU_TILE
    # The squares on the diagonal of a triangle are computed whole: few rows need small ones.
    return (height if n_rows >= 8 * height else height // 2), width


def tiles(
    n_rows: int, n_columns: int | None, *, size: tuple[int, int], keys: Keys | None = None
) -> list[Tile]:
    """The tiles of a matrix, or of the upper triangle of a symmetric one.

    Args:
        n_rows: Of the matrix.
        n_columns: Of the matrix; None for the triangle. Its tiles on the diagonal are whole
            squares; each of the others also stands for its mirror image.
        size: The numbers of rows and columns of a tile; those at the edges have fewer.
        keys: Entries to leave out, if any; keys must rise.

    Example:
        >>> for tile in tiles(3, None, size=(2, 2)):
        ...     print(tile.rows, tile.columns, tile.is_mirrored)
        slice(0, 2, None) slice(0, 2, None) False
        slice(0, 2, None) slice(2, 3, None) True
        slice(2, 3, None) slice(2, 3, None) False
    """
    height, width = size
    ends = None if keys is None else (keys.of_rows.tolist(), keys.of_columns.tolist())
    found = []
    for above in _pieces(0, n_rows, height):
        if n_columns is None:
            across = [above, *_pieces(above.stop, n_rows, width)]
        else:
            across = [*_pieces(0, n_columns, width)]
        for left in across:
            is_masked = ends is not None and _overlap(ends[0], above, ends[1], left)
            found.append(Tile(above, left, n_columns is not None or left != above, is_masked))
    return found


def _pieces(start: int, stop: int, step: int) -> Iterator[slice]:
    for begin in range(start, stop, step):
        yield slice(begin, min(begin + step, stop))


def _overlap(row_keys: list[int], above: slice, column_keys: list[int], left: slice) -> bool:
    first, last = row_keys[above.start], row_keys[above.stop - 1]
    return not (column_keys[left.stop - 1] < first or last < column_keys[left.start])


def n_kept(found: list[Tile], *, itemsize: int) -> int:
    """The number of entries of the first tiles, as many as may be kept.

    Example:
        >>> large = Tile(slice(0, 4096), slice(0, 1024), is_mirrored=True, is_masked=False)
        >>> n_kept([large] * 3, itemsize=4)  # 16 MiB each: two of them
        8388608
    """
    n_entries = 0
    for tile in found:
        if (n_entries + tile.n_entries) * itemsize > KEPT_BYTES:
            break
        n_entries += tile.n_entries
    return n_entries


def slots(found: list[Tile], kept: Tensor) -> Iterator[Tensor | None]:
    """For each tile its part of ``kept``, in its shape; None for those that are not kept.

    Args:
        found: The tiles, in order.
        kept: ``(n_entries,)``: the entries of the first of them, one tile after the other.
    """
    end = 0
    for tile in found:
        start, end = end, end + tile.n_entries
        yield kept[start:end].view(tile.shape) if end <= len(kept) else None


class TiledProduct:
    """The logits ``rows @ columns.T`` in tiles, with room for one of them.

    Args:
        rows: ``(n_rows, d)``.
        columns: ``(n_columns, d)``; None for the rows themselves, of which only the upper
            triangle is visited.
        keys: A row and a column with the same key are left out.
    """

    def __init__(self, rows: Tensor, columns: Tensor | None, keys: Keys | None) -> None:
        self.is_triangle = columns is None
        self.rows = rows
        self.columns = rows if columns is None else columns
        self.keys = keys
        n_columns = None if columns is None else len(columns)
        size = tile_size(len(rows), on_cpu=rows.device.type == "cpu")
        self.tiles = tiles(len(rows), n_columns, size=size, keys=keys)
        self._room = self.new_room()

    def new_room(self) -> Tensor:
        """A flat tensor that is large enough for each of the tiles."""
        return self.rows.new_empty(max(tile.n_entries for tile in self.tiles))

    def logits(self, tile: Tile, *, out: Tensor | None = None, scale: float = 1.0) -> Tensor:
        """The dot products of a tile, ``(rows, columns)``, good until the next call.

        Args:
            tile: One of ``tiles``.
            out: Where to put them instead of the common room.
            scale: What they are multiplied by, at no cost.
        """
        if out is None:
            out = self._room[: tile.n_entries].view(tile.shape)
        rows, columns = self.rows[tile.rows], self.columns[tile.columns].T
        return torch.addmm(out, rows, columns, beta=0, alpha=scale, out=out)

    def leave_out(self, tile: Tile, entries: Tensor, *, value: float) -> Tensor:
        """Put a value, in place, on the entries of a tile whose row and column share a key."""
        if tile.is_masked and self.keys is not None:
            entries.masked_fill_(self.keys.equal(tile), value)
        return entries

    def exponentials(self, tile: Tile, shift: float, *, out: Tensor | None = None) -> Tensor:
        """``exp(logit - shift)`` of a tile, ``(rows, columns)``; 0 where it is left out."""
        # Powers of two are computed in about half the time of powers of e.
        logits = self.logits(tile, out=out, scale=_LOG2_E)
        if shift:
            logits.sub_(shift * _LOG2_E)
        return self.leave_out(tile, logits.exp2_(), value=0.0)


def smallest_shift(product: TiledProduct) -> float:
    """The least number to subtract from all logits so that no sum of exponentials overflows.

    Example:
        Cosines over a temperature of 0.2 are at most 5: nothing has to be subtracted.

        >>> smallest_shift(TiledProduct(torch.eye(3) / 0.2**0.5, None, None))
        0.0
    """
    sides = (product.rows,) if product.is_triangle else (product.rows, product.columns)
    longest = [float(torch.linalg.vector_norm(z, dim=1).max()) for z in sides]
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
    of_rows = product.rows.new_zeros(len(product.rows))
    of_columns = of_rows if product.is_triangle else of_rows.new_zeros(len(product.columns))
    for tile, slot in zip(product.tiles, slots(product.tiles, kept), strict=True):
        entries = product.exponentials(tile, shift, out=slot)
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
        entries = product.exponentials(tile, shift) if slot is None else slot
        weights = room[: tile.n_entries].view(tile.shape)
        torch.add(row_scale[tile.rows, None], column_scale[tile.columns], out=weights)
        yield tile, weights.mul_(entries)


def rowwise_log_sums(product: TiledProduct) -> tuple[Tensor, Tensor]:
    """The same sums, each with a shift of its own; ``-inf`` where nothing is summed.

    Returns:
        ``(n_rows,)`` and ``(n_columns,)``.

    Example:
        >>> rows = torch.tensor([[1000.0], [1.0]])  # logits 1e6, 1000, 1000, 1
        >>> rowwise_log_sums(TiledProduct(rows, None, None))[0]
        tensor([1000000.,    1000.])
    """
    of_rows = product.rows.new_full((len(product.rows),), -math.inf)
    of_columns = (
        of_rows if product.is_triangle else of_rows.new_full((len(product.columns),), -math.inf)
    )
    for tile in product.tiles:
        logits = product.leave_out(tile, product.logits(tile), value=-math.inf)
        of_rows[tile.rows] = of_rows[tile.rows].logaddexp(logits.logsumexp(1))
        if tile.is_mirrored:
            of_columns[tile.columns] = of_columns[tile.columns].logaddexp(logits.logsumexp(0))
    return of_rows, of_columns


def rowwise_weights(
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
