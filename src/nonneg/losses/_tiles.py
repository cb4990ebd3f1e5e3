"""Tiles of a similarity matrix that is never held as a whole."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

# Rows and columns of a tile: a few MB, so that what is done to it happens in a processor's cache.
# Accelerators want more work a call.
CPU_TILE = (512, 1024)
ACCELERATOR_TILE = (4096, 8192)
# Tiles that are kept from the forward to the backward pass need not be computed again: all of them
# up to 4,096 rows in float32.
KEPT_BYTES = 36 * 2**20


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


def tile_size(n_rows: int, *, on_cpu: bool) -> tuple[int, int]:
    """The numbers of rows and columns of a tile.

    Example:
        >>> tile_size(1000, on_cpu=True), tile_size(10_000, on_cpu=True)
        ((256, 1024), (512, 1024))
    """
    if not on_cpu:
        return ACCELERATOR_TILE
    height, width = CPU_TILE
    # The squares on the diagonal of a triangle are computed whole: few rows want small ones.
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
        >>> for tile in tiles(5, None, size=(2, 2)):
        ...     print(tile.rows, tile.columns, tile.is_mirrored)
        slice(0, 2, None) slice(0, 2, None) False
        slice(0, 2, None) slice(2, 4, None) True
        slice(0, 2, None) slice(4, 5, None) True
        slice(2, 4, None) slice(2, 4, None) False
        slice(2, 4, None) slice(4, 5, None) True
        slice(4, 5, None) slice(4, 5, None) False
    """
    height, width = size
    lists = None if keys is None else (keys.of_rows.tolist(), keys.of_columns.tolist())
    found = []
    for above in _pieces(0, n_rows, height):
        if n_columns is None:
            across = [above, *_pieces(above.stop, n_rows, width)]
        else:
            across = [*_pieces(0, n_columns, width)]
        for left in across:
            is_masked = lists is not None and _overlap(lists[0], above, lists[1], left)
            found.append(Tile(above, left, n_columns is not None or left != above, is_masked))
    return found


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


def _pieces(start: int, stop: int, step: int) -> Iterator[slice]:
    for begin in range(start, stop, step):
        yield slice(begin, min(begin + step, stop))


def _overlap(row_keys: list[int], above: slice, column_keys: list[int], left: slice) -> bool:
    first, last = row_keys[above.start], row_keys[above.stop - 1]
    return not (column_keys[left.stop - 1] < first or last < column_keys[left.start])


# With more keys in a row than this, one mask is faster than so many diagonals.
MAX_DIAGONALS = 4


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
        if not tile.is_masked or self.keys is None:
            return entries
        is_square = self.is_triangle and tile.rows == tile.columns
        if not is_square or self._longest_run > MAX_DIAGONALS:
            return entries.masked_fill_(self.keys.equal(tile), value)
        # Equal keys lie side by side: a few diagonals hold all that the whole mask would.
        keys = self.keys.of_rows[tile.rows]
        entries.diagonal().fill_(value)
        for beside in range(1, min(self._longest_run, len(keys))):
            is_same = keys[beside:] == keys[:-beside]
            entries.diagonal(beside).masked_fill_(is_same, value)
            entries.diagonal(-beside).masked_fill_(is_same, value)
        return entries

    @cached_property
    def _longest_run(self) -> int:
        """The most rows one after the other that share a key."""
        assert self.keys is not None
        return int(self.keys.of_rows.unique_consecutive(return_counts=True)[1].max())

    def empty_sums(self, value: float) -> tuple[Tensor, Tensor]:
        """A number for every row and for every column; the same tensor twice for a triangle."""
        of_rows = self.rows.new_full((len(self.rows),), value)
        return of_rows, of_rows if self.is_triangle else self.rows.new_full(
            (len(self.columns),), value
        )
