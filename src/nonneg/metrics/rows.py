"""How long is a sample? Row lengths that neither overflow nor vanish, and rows of length 1."""

import torch
from torch import Tensor


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
    safe = 1e15 if rows.dtype == torch.float32 else 1e140
    risky = ((lengths < 1 / safe) | (lengths > safe))[:, 0]
    if bool(risky.any()):
        extreme = rows[risky]
        largest = extreme.abs().amax(dim=1, keepdim=True)
        scaled = extreme / largest.where(largest > 0, 1)
        lengths[risky] = largest * torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return lengths


def unit_rows(rows: Tensor) -> Tensor:
    """Each row scaled to length 1, ``(n, d)``; a row of zeros stays a row of zeros.

    Example:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()[1]
        [0.0, 0.0]
    """
    lengths = row_lengths(rows)
    return rows / lengths.where(lengths > 0, 1)
