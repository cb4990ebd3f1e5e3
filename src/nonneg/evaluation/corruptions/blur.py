"""What does a poor lens or a shaking hand do to an image? Defocus and motion blur."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.evaluation.corruptions.pixels import as_floats, as_given
from nonneg.evaluation.corruptions.severity import at_severity, short_side
from nonneg.evaluation.corruptions.streams import Stream
from nonneg.pairs import Draws
from nonneg.pairs.rendering import check_images

# Shares of the shorter side: what is seen in a blurred image does not depend on its pixels.
RADIUS = (0.012, 0.018, 0.026, 0.035, 0.044)  # of the disk, beyond the half pixel of a point
TRAVEL = (0.04, 0.07, 0.10, 0.14, 0.18)  # of a point while the shutter is open

_FFT_MULTIPLE = 16  # numbers: 64 bytes, the alignment of memory


def defocus_blur(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images in which each point is spread evenly over a disk; the border goes on beyond itself.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5; the disk's radius is a share of the shorter side.
        draws: Of these samples; nothing here is random.
    """
    check_images(images, len(draws.indices))
    radius = 0.5 + at_severity(RADIUS, severity) * short_side(images)
    kernels = disk(radius).to(images.device).expand(len(images), -1, -1)
    return as_given(_convolved(as_floats(images), kernels), images)


def motion_blur(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images that moved along a straight line, each in a direction of its own.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5; the way is a share of the shorter side.
        draws: Of these samples; all directions are equally likely.
    """
    check_images(images, len(draws.indices))
    travel = at_severity(TRAVEL, severity) * short_side(images)
    angles = math.pi * draws.uniform(1, stream=Stream.MOTION_BLUR)[:, 0]
    return as_given(_convolved(as_floats(images), lines(angles, travel)), images)


def disk(radius: float) -> Tensor:
    """Weights of a disk around the middle pixel, which sum to 1, ``(k, k)`` with k odd.

    Pixels within the radius count fully; towards half a pixel beyond they fade out.

    Args:
        radius: In pixels, at least 0.5, which is one pixel.

    Example:
        >>> disk(0.5)
        tensor([[0., 0., 0.],
                [0., 1., 0.],
                [0., 0., 0.]])
    """
    reach = math.ceil(radius)
    steps = torch.arange(-reach, reach + 1).float()
    weights = (radius + 0.5 - torch.hypot(steps[:, None], steps)).clamp_(0, 1)
    return weights / weights.sum()


def lines(angles: Tensor, length: float) -> Tensor:
    """Weights of lines through the middle pixel, which sum to 1, ``(n, k, k)`` with k odd.

    Args:
        angles: Of the lines against the rows, in radians, ``(n,)``.
        length: In pixels; 0 is one pixel.

    Example:
        >>> lines(torch.tensor([0.0]), 2.0)[0, 1]
        tensor([0.3000, 0.4000, 0.3000])
    """
    reach = math.ceil(length / 2)
    points = torch.linspace(-length / 2, length / 2, 4 * reach + 1, device=angles.device)
    steps = torch.arange(-reach, reach + 1, device=angles.device)
    # Each point of a line is shared out among its four nearest pixels.
    down, across = (
        (1 - (steps[:, None] - turned[:, None] * points).abs()).clamp_(min=0)
        for turned in (angles.sin()[:, None], angles.cos()[:, None])
    )
    # Not a matrix product, whose rounding depends on where in memory a matrix of odd size begins.
    return (down[:, :, None] * across[:, None]).mean(3)


def _convolved(pixels: Tensor, kernels: Tensor) -> Tensor:
    """Each image with its kernel, by Fourier transform: the cost hardly grows with the kernel.

    Args:
        pixels: ``(n, c, h, w)``.
        kernels: Symmetric about their middle, ``(n, k, k)`` with k odd.
    """
    n, _, height, width = pixels.shape
    if n == 0:
        return pixels  # of which there is no transform
    if n == 1:
        # A plane alone is transformed in another way, with other rounding, than two or more.
        return _convolved(pixels.repeat(2, 1, 1, 1), kernels.repeat(2, 1, 1))[:1]
    reach = kernels.shape[1] // 2
    # Nor may the rounding depend on where in memory a plane begins: all begin alike.
    below, beside = (-(side + 2 * reach) % _FFT_MULTIPLE for side in (height, width))
    padding = (reach, reach + beside, reach, reach + below)
    padded = F.pad(pixels, padding, mode="replicate")
    size = padded.shape[2:]
    spectrum = torch.fft.rfft2(padded) * torch.fft.rfft2(kernels, s=size)[:, None]
    spread: Tensor = torch.fft.irfft2(spectrum, s=size)
    # The kernel begins at pixel 0, not at its middle: the result lies that much further on.
    start = 2 * reach
    return spread[:, :, start : start + height, start : start + width]
