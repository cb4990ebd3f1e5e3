"""What do the losses compare? Rows of length one, in float32 or better."""

import torch
from torch import Tensor

# A row shorter than this counts as all zero: it has no direction to keep.
MIN_LENGTH = 1e-6
# Squares of larger entries may overflow float32, one by one or in sum.
_LARGE = 1e15


def at_least_float32(z: Tensor) -> Tensor:
    """Half-precision numbers as float32; others as they are."""
    return z.float() if z.itemsize < 4 else z


def unit_rows(z: Tensor, *, length: float | Tensor = 1.0) -> Tensor:
    """Rows scaled to length 1 or another, in at least float32; an all-zero row stays zero.

    The direction of an all-zero row is undefined, and dividing by a tiny length would give it a
    gradient of 1e11. Such a row is divided by 1 instead: it keeps a gradient of ordinary size.
    Entries may be as large as the type allows.

    Args:
        z: ``(n, d)``.
        length: What the rows get; may be a tensor with a gradient.

    Example:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    z = at_least_float32(z)
    # The direction does not depend on this number, so neither does the gradient.
    largest = torch.linalg.vector_norm(z.detach(), torch.inf, dim=1, keepdim=True)
    z = z / torch.where(largest > _LARGE, largest, 1.0)
    lengths = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return z / (torch.where(lengths > MIN_LENGTH, lengths, 1.0) / length)


def check_two_views(z_a: Tensor, z_b: Tensor, *, n_processes: int = 1) -> None:
    """Raise a clear error unless both are ``(n, d)`` floats, of at least two pairs in all."""
    for name, z in (("z_a", z_a), ("z_b", z_b)):
        if not isinstance(z, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(z).__name__}")
        if z.ndim != 2 or not z.shape[1]:
            raise ValueError(f"{name} must be (n_samples, n_features), got shape {tuple(z.shape)}")
        if not z.is_floating_point():
            raise TypeError(f"{name} must be floating point, got {z.dtype}")
    if z_a.shape != z_b.shape:
        raise ValueError(
            f"z_a and z_b must have the same shape, got {tuple(z_a.shape)} and {tuple(z_b.shape)}"
        )
    if len(z_a) * n_processes < 2:
        raise ValueError(
            f"a batch of {len(z_a)} pairs has no negatives; give the loss at least 2 pairs"
        )
