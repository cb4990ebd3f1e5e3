"""In which numbers is an image corrupted? In float32 from 0 to 1, and back to its own type."""

import torch
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
