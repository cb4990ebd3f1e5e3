"""Which features may be measured? Finite matrices of real numbers, of any kind."""

import warnings

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse
from torch import Tensor

from nonneg.metrics.features import Features, SparseRows

FeatureLike = ArrayLike | Tensor | SparseRows


def checked_features(Z: FeatureLike, name: str = "Z") -> Features:
    """Features that are a finite, non-empty matrix of real numbers.

    Args:
        Z: ``(n_samples, n_features)``: NumPy, torch on any device, SciPy CSR, or nested lists.
        name: What the caller calls them.

    Raises:
        TypeError: Entries that are not real numbers, or a sparse format other than CSR.
        ValueError: Not two-dimensional, empty, NaN or infinite (with the row and the column).

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
        return _one_entry_a_place(Z)
    array = np.asarray(Z)
    _check_kind(array.dtype, name)
    array = array.astype(_torch_readable(array.dtype), order="C", copy=False)
    with warnings.catch_warnings():
        # Read-only arrays (memory maps) are welcome: nothing here writes to its input.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _one_entry_a_place(Z: SparseRows) -> SparseRows:
    """The same matrix with the entries of one place added up, on a copy."""
    if Z.has_canonical_format:
        return Z
    summed = Z.copy()
    summed.sum_duplicates()
    return summed


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
    # Unlike Python's min and max, these keep a NaN.
    return float(np.minimum(0, source.data.min())), float(np.maximum(0, source.data.max()))


def _raise_not_finite(features: Features, name: str) -> None:
    for rows, tile in features.tiles():
        bad = ~torch.isfinite(tile)
        if bad.any():
            row, column = (int(i) for i in bad.nonzero()[0])
            raise ValueError(
                f"{name} holds {float(tile[row, column])} in row {rows.start + row}, "
                f"column {column}; features must be finite"
            )
