"""How long is a sample? Row lengths that neither overflow nor vanish, and rows of length 1."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Squares of numbers in [1/safe, safe] neither vanish nor overflow, nor do sums of many of them.
_SAFE = {
    torch.float32: 1e15,
    torch.float64: 1e140,
    np.dtype(np.float32): 1e15,
    np.dtype(np.float64): 1e140,
}


def row_lengths(rows: Tensor) -> Tensor:
    """The Euclidean length of each row, ``(n, 1)``, exact for entries of any size.

    A square overflows float32 from 1.8e19 and vanishes below 1e-23, so rows whose plain length
    is outside a safe range are divided by their largest entry first.

    Example:
        >>> row_lengths(torch.tensor([[3e30, 4e30], [0.0, 0.0]]))
        tensor([[5.0000e+30],
                [0.0000e+00]])
    """
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    safe = _SAFE[rows.dtype]
    risky = ((lengths < 1 / safe) | (lengths > safe))[:, 0]
    if bool(risky.any()):
        extreme = rows[risky]
        largest = extreme.abs().amax(dim=1, keepdim=True)
        scaled = extreme / largest.where(largest > 0, 1)
        lengths[risky] = largest * torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return lengths


def array_row_lengths(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """The same for a float array, on one thread, ``(n, 1)``."""
    with np.errstate(over="ignore"):
        lengths: NDArray[np.floating] = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    safe = _SAFE[lengths.dtype]
    risky = ((lengths < 1 / safe) | (lengths > safe))[:, 0]
    if risky.any():
        lengths[risky] = row_lengths(torch.from_numpy(rows[risky])).numpy()
    return lengths


def unit_rows(rows: Tensor) -> Tensor:
    """Each row scaled to length 1, ``(n, d)``; a row of zeros stays a row of zeros.

    Example:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()[1]
        [0.0, 0.0]
    """
    lengths = row_lengths(rows)
    return rows / lengths.where(lengths > 0, 1)
