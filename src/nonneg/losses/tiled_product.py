"""A product of rows with columns that is never there as a whole: one tile after the other."""

from functools import cached_property

import torch
from torch import Tensor

from nonneg.losses.tiles import Keys, Tile, tile_size, tiles

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
