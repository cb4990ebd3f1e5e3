"""Rows of length one, and the lengths of rows: the one definition for losses, metrics and models.

Entries may be of any size that their type holds. Only operations that can be compiled and exported
are used, and no branch depends on the data.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# What losses take for a row of zeros: dividing by a tiny length would give it a huge gradient.
MIN_LENGTH = 1e-6


# Squares of lengths from 1 / safe to safe neither vanish nor overflow; rows that are longer or
# shorter are brought there by a power of two, down or up.
_RANGES = {
    torch.float32: (1e15, 2.0**-80, 2.0**100),
    torch.float64: (1e140, 2.0**-550, 2.0**700),
}


def at_least_float32(z: Tensor) -> Tensor:
    """Half-precision numbers as float32; others as they are."""
    return z.float() if z.itemsize < 4 else z


def row_lengths(rows: Tensor) -> Tensor:
    """The Euclidean length of each row, ``(n, 1)``, exact for entries of any size.

    Args:
        rows: ``(n, d)``, floating point; half precision is computed in float32.

    Example:
        A square overflows float32 from 1.8e19 on; the length does not.

        >>> row_lengths(torch.tensor([[3e30, 4e30], [0.0, 0.0]]))
        tensor([[5.0000e+30],
                [0.0000e+00]])
    """
    scaled, scale = _scaled(at_least_float32(rows))
    lengths: Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return lengths / scale


def array_row_lengths(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """The same for an array of float32 or float64, on one thread, ``(n, 1)``."""
    with np.errstate(over="ignore"):
        lengths: NDArray[np.floating] = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    safe, _, _ = _RANGES[torch.float32 if rows.itemsize == 4 else torch.float64]
    risky = ((lengths < 1 / safe) | (lengths > safe))[:, 0]
    if risky.any():
        lengths[risky] = row_lengths(torch.from_numpy(rows[risky])).numpy()
    return lengths


def unit_rows(rows: Tensor, *, length: float | Tensor = 1.0, shortest: float = 0.0) -> Tensor:
    """Rows scaled to length 1 or another, ``(n, d)``; a row of zeros stays a row of zeros.

    Args:
        rows: ``(n, d)``, floating point; half precision is computed in float32.
        length: What the rows get; may be a tensor with a gradient.
        shortest: A row of at most this length counts as zero: it has no direction to keep, and is
            multiplied by ``length`` alone. The gradient of a row is about ``length`` divided by
            its own length, so this also bounds it. At 0 only zeros are zero: the result does not
            depend on how long rows are, but the gradient has no bound, nor a second derivative
            at a row of zeros.

    Example:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    scaled, scale = _scaled(at_least_float32(rows))
    lengths: Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    has_direction = lengths.detach() > shortest * scale
    if shortest:
        # The length of a row of zeros has no second derivative: NaN, even where it is not used.
        lengths = torch.linalg.vector_norm(scaled.where(has_direction, 1.0), dim=1, keepdim=True)
    return scaled / (lengths.where(has_direction, scale) / length)


def power_of_two(largest: Tensor) -> Tensor:
    """What to divide numbers by so that their fourth powers fit; it rounds nothing.

    Args:
        largest: Of the numbers, ``()``.
    """
    most = 110 if largest.dtype == torch.float32 else 1000
    # What is left is up to 256: then the scale has less to do where the result itself is large.
    scale: Tensor = largest.log2().ceil().sub(8).clamp(-most, most).exp2()
    return scale


def _scaled(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows times powers of two, which round nothing, and these ``(n, 1)``; mostly 1."""
    safe, down, up = _RANGES[rows.dtype]
    # A direction does not depend on its scale, so neither does the gradient.
    lengths = torch.linalg.vector_norm(rows.detach(), dim=1, keepdim=True)
    scale = torch.ones_like(lengths)
    scale = scale.masked_fill(lengths > safe, down).masked_fill(lengths < 1 / safe, up)
    return rows * scale, scale
