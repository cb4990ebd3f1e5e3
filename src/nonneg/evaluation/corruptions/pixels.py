"""Pixels, severities and random fields: what all corruptions share.

The published parameters (Hendrycks and Dietterich 2019) were set for images of 224 and of 32
pixels. Between the two, blur and distortion are about the same share of the side; noise, blocks
and compression grow about with its square root. Each table here follows one of these two rules.
"""

import math
from collections.abc import Sequence
from enum import IntEnum

import torch
import torch.nn.functional as F
from torch import Tensor

# Luminance of the NTSC primaries (ITU-R BT.601), as in Pillow and torchvision.
_LUMINANCE = (0.299, 0.587, 0.114)


def as_floats(images: Tensor) -> Tensor:
    """Images as float32 in [0, 1], same shape."""
    return images.float() / 255 if images.dtype == torch.uint8 else images.float()


def as_bytes(pixels: Tensor) -> Tensor:
    """Pixels as uint8, same shape, rounded; what lies outside [0, 1] is cut off.

    Example:
        >>> as_bytes(torch.tensor([-0.1, 0.5, 1.2]))
        tensor([  0, 128, 255], dtype=torch.uint8)
    """
    return (pixels * 255).round_().clamp_(0, 255).to(torch.uint8)


def as_given(pixels: Tensor, images: Tensor) -> Tensor:
    """Pixels ``(n, c, h, w)`` in the type of the images, cut to [0, 1] or to 0 … 255."""
    if images.dtype == torch.uint8:
        return as_bytes(pixels)
    return pixels.clamp(0, 1).to(images.dtype)


def luminance(pixels: Tensor) -> Tensor:
    """How bright each pixel is, ``(n, h, w)`` from ``(n, c, h, w)`` with 1 or 3 channels."""
    if pixels.shape[1] == 1:
        return pixels[:, 0]
    red, green, blue = (
        weight * plane for weight, plane in zip(_LUMINANCE, pixels.unbind(1), strict=True)
    )
    return red + green + blue


N_SEVERITIES = 5
_SMALL_SIDE = 32


def check_severity(severity: int) -> None:
    """Raise ``ValueError`` unless this is a whole number from 1 to 5."""
    if not isinstance(severity, int) or not 1 <= severity <= N_SEVERITIES:
        raise ValueError(
            f"severity must be a whole number from 1 to {N_SEVERITIES}, got {severity!r}"
        )


def at_severity(table: tuple[float, float, float, float, float], severity: int) -> float:
    """The entry of a table for a severity; the first is that of severity 1.

    Example:
        >>> at_severity((0.1, 0.2, 0.3, 0.4, 0.5), 2)
        0.2
    """
    check_severity(severity)
    return table[severity - 1]


def short_side(images: Tensor) -> int:
    """The smaller of height and width of images ``(n, c, h, w)``."""
    return min(images.shape[2:])


def fine_scale(images: Tensor) -> float:
    """How much stronger fine-grained damage is than at 32 pixels: the root of the side's ratio.

    A larger image shows its content with more pixels, so that each may be damaged more. Images
    below 32 pixels get the tables as they are.

    Example:
        >>> import torch
        >>> fine_scale(torch.zeros(1, 3, 128, 128)), fine_scale(torch.zeros(1, 1, 8, 8))
        (2.0, 1.0)
    """
    return math.sqrt(max(1.0, short_side(images) / _SMALL_SIDE))


class Stream(IntEnum):
    """Streams of ``Draws``, all different; those below 100 are left to the views of training.

    Corruptions of one sample are therefore independent of each other, while the severities of one
    corruption share their numbers: a higher severity is more of the same.
    """

    GAUSSIAN_NOISE = 101
    SHOT_NOISE = 102
    IMPULSE_NOISE = 103
    MOTION_BLUR = 104
    FOG = 105
    ELASTIC = 106
    STYLISED = 107


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
    """Grid points per side of each octave; the last has cells of about two pixels or more."""
    grids = [3]
    while 4 * (grids[-1] - 1) <= min(size):
        grids.append(2 * grids[-1] - 1)
    return grids
