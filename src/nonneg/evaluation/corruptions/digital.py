"""What does saving an image too small do to it? Large pixels, and JPEG compression."""

import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from nonneg.evaluation.corruptions.pixels import as_bytes, as_floats, as_given
from nonneg.evaluation.corruptions.severity import at_severity, fine_scale
from nonneg.pairs import Draws
from nonneg.pairs.rendering import check_images

# At 32 pixels; at 224 these come close to the published blocks of 1.7 to 4 pixels and JPEG
# qualities of 25 to 7, while as shares of the side small images would be left without content.
BLOCK_EXCESS = (0.2, 0.4, 0.7, 1.0, 1.5)  # side of a block beyond one pixel
JPEG_COARSENESS = (0.5, 0.8, 1.2, 1.8, 2.7)  # of the steps of the code; 1 is JPEG quality 50


def pixelate(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images in blocks, each the mean of its pixels; blocks grow with the root of the side.

    At 32 pixels, severity 4 has blocks of 2 x 2. Where blocks do not fit the image, the sides of
    some are one pixel longer.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples; nothing here is random.

    Example:
        >>> stripes = torch.tensor([0.0, 1.0]).repeat(16).expand(1, 1, 32, 32)
        >>> pixelate(stripes, severity=4, draws=Draws(0, 0, torch.tensor([7]))).unique()
        tensor([0.5000])
    """
    check_images(images, len(draws.indices))
    block = 1 + at_severity(BLOCK_EXCESS, severity) * fine_scale(images)
    pixels = as_floats(images)
    for axis in (2, 3):
        pixels = _in_blocks(pixels, axis, block)
    return as_given(pixels, images)


def jpeg(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images coded as JPEG by Pillow and decoded again; steps grow with the root of the side.

    Colours are coded at half the resolution, as cameras and phones do. Floats are coded as 8
    bits. Another version of the JPEG library can give values that differ by a little.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples; nothing here is random.
    """
    check_images(images, len(draws.indices))
    quality = jpeg_quality(at_severity(JPEG_COARSENESS, severity) * fine_scale(images))
    whole = images if images.dtype == torch.uint8 else as_bytes(as_floats(images))
    # Turned for all images at once: one by one it would take longer than the codec.
    values = np.ascontiguousarray(whole.permute(0, 2, 3, 1).cpu().numpy())
    coded = np.empty_like(values)
    for image, out in zip(values, coded, strict=True):
        out[:] = _coded(image, quality)
    decoded = torch.from_numpy(coded).permute(0, 3, 1, 2).contiguous().to(images.device)
    return decoded if images.dtype == torch.uint8 else as_given(as_floats(decoded), images)


def jpeg_quality(coarseness: float) -> int:
    """The quality, 1 to 100, at which JPEG's standard steps are multiplied by this number.

    Example:
        >>> jpeg_quality(0.5), jpeg_quality(1.0), jpeg_quality(5.0)
        (75, 50, 10)
    """
    quality = 100 - 50 * coarseness if coarseness <= 1 else 50 / coarseness
    return max(1, round(quality))


def _coded(image: np.ndarray, quality: int) -> np.ndarray:
    """One image, uint8 ``(h, w, c)``, after a way through JPEG."""
    buffer = io.BytesIO()
    plain = image[:, :, 0] if image.shape[2] == 1 else image
    Image.fromarray(plain).save(buffer, "JPEG", quality=quality)
    with Image.open(buffer) as decoded:
        return np.asarray(decoded).reshape(image.shape)


def _in_blocks(pixels: Tensor, axis: int, block: float) -> Tensor:
    """Means over blocks of about this length along an axis, at each pixel of theirs."""
    n_pixels = pixels.shape[axis]
    n_blocks = max(1, round(n_pixels / block))
    belongs_to = torch.arange(n_pixels, device=pixels.device) * n_blocks // n_pixels
    lengths = belongs_to.bincount()[belongs_to].view(-1, *[1] * (3 - axis))
    room = list(pixels.shape)
    room[axis] = n_blocks
    sums = pixels.new_zeros(room).index_add_(axis, belongs_to, pixels)
    return sums.index_select(axis, belongs_to) / lengths
