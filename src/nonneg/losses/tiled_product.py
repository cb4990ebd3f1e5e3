"""A product of rows with columns that is never there as a whole: one tile after the other."""

import torch
from torch import Tensor

from nonneg.losses.tiles import Keys, Tile, tile_size, tiles


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

    def empty_sums(self, value: float) -> tuple[Tensor, Tensor]:
        """A number for every row and for every column; the same tensor twice for a triangle."""
        of_rows = self.rows.new_full((len(self.rows),), value)
        return of_rows, of_rows if self.is_triangle else self.rows.new_full(
            (len(self.columns),), value
        )
