"""What is random but smooth over an image? A field drawn through few random numbers."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor


def smooth_field(values: Tensor, size: Sequence[int]) -> Tensor:
    """Smooth surfaces through numbers on a coarse grid, whose corners are those of the image.

    Bicubic: between the numbers, surfaces can go a little beyond the largest and smallest.

    Args:
        values: ``(n, m, g, g)``.
        size: Height and width of the result, ``(n, m, height, width)``.

    Example:
        >>> import torch
        >>> corners = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])
        >>> smooth_field(corners, (1, 3))
        tensor([[[[0.0000, 0.5000, 1.0000]]]])
    """
    height, width = size
    return F.interpolate(values, size=(height, width), mode="bicubic", align_corners=True)


def clouds(uniform: Tensor, size: Sequence[int]) -> Tensor:
    """Fields of large and small bulges, each spanning 0 to 1, ``(n, *size)``.

    A sum of smooth fields: each has cells half as wide as the last and is half as high.

    Args:
        uniform: In [0, 1), ``(n, n_cloud_numbers(size))``.
        size: Height and width.
    """
    total = uniform.new_zeros(len(uniform), 1, *size)
    start = 0
    for octave, n_points in enumerate(_grids(size)):
        values = uniform[:, start : start + n_points**2].unflatten(1, (1, n_points, n_points))
        total += smooth_field(values, size) * 0.5**octave
        start += n_points**2
    lowest, highest = total.flatten(1).aminmax(dim=1)
    span = (highest - lowest).clamp(min=1e-6)
    return (total[:, 0] - lowest[:, None, None]) / span[:, None, None]


def n_cloud_numbers(size: Sequence[int]) -> int:
    """How many random numbers ``clouds`` takes for an image.

    Example:
        >>> n_cloud_numbers((8, 8))  # grids of 3 x 3 and 5 x 5 points
        34
    """
    return sum(n_points**2 for n_points in _grids(size))


def _grids(size: Sequence[int]) -> list[int]:
    """Points a side of each octave; the last has cells of about two pixels or more."""
    grids = [3]
    while 4 * (grids[-1] - 1) <= min(size):
        grids.append(2 * grids[-1] - 1)
    return grids
