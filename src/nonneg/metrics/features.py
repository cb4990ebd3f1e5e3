"""How are features read? By tiles of rows or columns, whatever holds them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from nonneg.metrics.results import IntArray

SparseRows = sparse.csr_array | sparse.csr_matrix

_TILE_ENTRIES = 1 << 20  # 4 MB of float32: a tile stays in the cache between two operations


@dataclass(frozen=True)
class Features:
    """Checked features that are read by tiles of rows, so that a pass never copies them whole.

    Args:
        source: The caller's own ``(n_samples, n_features)`` matrix; never written to.
        dtype: What a tile is computed in: float64 for float64 input, float32 for the rest.
        device: Where a tile lives.
        lowest: The smallest entry.
        highest: The largest entry.
    """

    source: Tensor | SparseRows
    dtype: torch.dtype
    device: torch.device
    lowest: float
    highest: float

    @property
    def n_samples(self) -> int:
        """How many rows there are."""
        return int(self.source.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns there are."""
        return int(self.source.shape[1])

    @property
    def signed(self) -> bool:
        """Whether any entry is negative."""
        return self.lowest < 0

    @cached_property
    def tile_rows(self) -> int:
        """How many rows make a tile of a cache's size."""
        return max(1, _TILE_ENTRIES // self.n_features)

    def rows(self, which: slice | Tensor) -> Tensor:
        """Some rows, dense; may share memory with the source, so it must not be written to."""
        if isinstance(self.source, Tensor):
            return self.source[which].to(self.dtype)
        index = which if isinstance(which, slice) else which.numpy()
        return torch.from_numpy(self.source[index].toarray()).to(self.dtype)

    @cached_property
    def array_dtype(self) -> np.dtype[np.floating]:
        """The type of :meth:`array_rows`."""
        return np.dtype(np.float64 if self.dtype == torch.float64 else np.float32)

    def array_rows(
        self, which: slice | IntArray, out: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Some rows as a dense array; chosen rows go to ``out`` if they need no conversion."""
        source = self.source
        if isinstance(which, slice):
            return self.rows(which).cpu().numpy()
        if isinstance(source, Tensor) and source.is_cpu and source.dtype == self.dtype:
            return np.take(source.numpy(), which, axis=0, out=out, mode="clip")
        return self.rows(torch.from_numpy(which).to(self.device)).cpu().numpy()

    def columns(self, which: slice | Tensor) -> Tensor:
        """Some columns, dense; may share memory with the source, so it must not be written to."""
        if isinstance(self.source, Tensor):
            return self.source[:, which].to(self.dtype)
        index = which if isinstance(which, slice) else which.numpy()
        chosen: sparse.csc_array = self._by_column[:, index]  # type: ignore[index]
        return torch.from_numpy(chosen.toarray()).to(self.dtype)

    @cached_property
    def _by_column(self) -> sparse.csc_array:
        return sparse.csc_array(self.source)

    def dense(self) -> Tensor:
        """All rows; may share memory with the source, so it must not be written to."""
        return self.rows(slice(None))

    def tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """All rows from first to last, a tile at a time."""
        for start in range(0, self.n_samples, self.tile_rows):
            rows = slice(start, min(start + self.tile_rows, self.n_samples))
            yield rows, self.rows(rows)
