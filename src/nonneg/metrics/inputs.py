"""Which features may be measured? Finite matrices of any kind, read by tiles of rows."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import Tensor

from nonneg.metrics.results import IntArray

SparseRows = sparse.csr_array | sparse.csr_matrix
FeatureLike = ArrayLike | Tensor | SparseRows

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
        """Some rows as a dense array, as :meth:`rows`; chosen ones go to ``out`` if that is free."""
        if isinstance(which, slice):
            return self.rows(which).cpu().numpy()
        source = self.source
        if (
            isinstance(source, Tensor)
            and source.device.type == "cpu"
            and source.dtype == self.dtype
        ):
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


def checked_features(Z: FeatureLike, name: str = "Z") -> Features:
    """Features that are a finite, non-empty matrix of real numbers.

    Args:
        Z: ``(n_samples, n_features)``: NumPy, torch on any device, SciPy CSR, or nested lists.
        name: What the caller calls them.

    Raises:
        TypeError: Entries that are not real numbers, or a sparse format other than CSR.
        ValueError: Not two-dimensional, empty, NaN or infinite (with the row).

    Example:
        >>> checked_features([[1, 0], [0, -2]]).signed
        True
    """
    source = _as_matrix(Z, name)
    if len(source.shape) != 2:
        raise ValueError(
            f"{name} has {len(source.shape)} dimensions, shape {tuple(source.shape)}; "
            "pass (n_samples, n_features)"
        )
    if 0 in source.shape:
        raise ValueError(f"{name} is empty, shape {tuple(source.shape)}; nothing can be measured")
    lowest, highest = _range(source)
    checked = Features(
        source=source,
        dtype=_working_dtype(source),
        device=source.device if isinstance(source, Tensor) else torch.device("cpu"),
        lowest=lowest,
        highest=highest,
    )
    if not np.isfinite([lowest, highest]).all():
        _raise_not_finite(checked, name)
    return checked


def _as_matrix(Z: FeatureLike, name: str) -> Tensor | SparseRows:
    if isinstance(Z, Tensor):
        return _checked_tensor(Z, name)
    if sparse.issparse(Z):
        if Z.format != "csr":
            raise TypeError(f"{name} is a SciPy {Z.format} matrix; convert it with .tocsr()")
        _check_kind(Z.dtype, name)
        return Z
    array = np.asarray(Z)
    _check_kind(array.dtype, name)
    array = array.astype(_torch_readable(array.dtype), order="C", copy=False)
    with warnings.catch_warnings():
        # Read-only arrays (memory maps) are welcome: nothing here writes to its input.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _checked_tensor(Z: Tensor, name: str) -> Tensor:
    if Z.layout != torch.strided:
        raise TypeError(
            f"{name} is a torch tensor of layout {Z.layout}; pass .to_dense() or SciPy CSR"
        )
    if Z.is_complex():
        raise TypeError(f"{name} has dtype {Z.dtype}; features are real numbers")
    # Apple's GPU has no float64, which sums over samples are kept in.
    return Z.detach().cpu() if Z.device.type == "mps" else Z.detach()


def _check_kind(dtype: np.dtype[np.generic], name: str) -> None:
    if dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {dtype}; features are real numbers")


def _torch_readable(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The nearest type that torch can read: no foreign byte order, no wide or unsigned types."""
    if dtype.kind == "f" and dtype.itemsize > 8:
        return np.dtype(np.float64)
    if dtype.kind == "u" and dtype.itemsize > 1:
        return np.dtype(np.float64)
    return dtype.newbyteorder("=")


def _working_dtype(source: Tensor | SparseRows) -> torch.dtype:
    """Float64 for what float32 cannot hold exactly, float32 for the rest."""
    if isinstance(source, Tensor):
        exact = source.dtype in (torch.float64, torch.int64, torch.int32)
    else:
        exact = source.dtype.itemsize > 4 or source.dtype == np.int32
    return torch.float64 if exact else torch.float32


def _range(source: Tensor | SparseRows) -> tuple[float, float]:
    if isinstance(source, Tensor):
        lowest, highest = torch.aminmax(source)
        return float(lowest), float(highest)
    if source.nnz == 0:
        return 0.0, 0.0
    return min(0.0, float(source.data.min())), max(0.0, float(source.data.max()))


def _raise_not_finite(features: Features, name: str) -> None:
    for rows, tile in features.tiles():
        bad = ~torch.isfinite(tile)
        if bad.any():
            row, column = (int(i) for i in bad.nonzero()[0])
            raise ValueError(
                f"{name} holds {float(tile[row, column])} in row {rows.start + row}, "
                f"column {column}; features must be finite"
            )
