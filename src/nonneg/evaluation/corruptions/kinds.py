"""The corruptions: noise, blur, light, compression and elastic distortion."""

import io
import math

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from nonneg.evaluation.corruptions.pixels import (
    Stream,
    as_bytes,
    as_floats,
    as_given,
    at_severity,
    clouds,
    fine_scale,
    n_cloud_numbers,
    short_side,
    smooth_field,
)
from nonneg.pairs.protocol import Draws
from nonneg.pairs.rendering import check_images

# At 32 pixels, where noise that a person hardly sees is already much.
STD = (0.04, 0.06, 0.08, 0.10, 0.13)  # of the noise, where white is 1
PHOTONS = (500.0, 250.0, 120.0, 75.0, 50.0)  # that a white pixel counts, on average
IMPULSE_RATE = (0.01, 0.02, 0.035, 0.055, 0.08)  # share of values that are lost

# Below this mean counts are drawn exactly; above, an expansion is right to a count.
_FEW_PHOTONS = 10.0
# Draws are multiples of 2⁻²⁴: a count that is rarer than this cannot be drawn.
_RAREST = 2.0**-26


def gaussian_noise(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images with normal noise added to each value; its std grows with the root of the side.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples.

    Example:
        >>> grey = torch.full((1, 1, 64, 64), 0.5)
        >>> noisy = gaussian_noise(grey, severity=1, draws=Draws(0, 0, torch.tensor([7])))
        >>> round(float(noisy.std()), 2)  # 0.04 at 32 pixels, times the root of 2
        0.06
    """
    check_images(images, len(draws.indices))
    std = at_severity(STD, severity) * fine_scale(images)
    noise = draws.normal(images.shape[1:].numel(), stream=Stream.GAUSSIAN_NOISE)
    pixels = as_floats(images)
    return as_given(pixels + noise.view(images.shape).mul_(std), images)


def shot_noise(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images as counted photons: each value is a Poisson number whose mean is the true value.

    Black stays black. A white pixel counts fewer photons in larger images, so that the noise
    grows with the root of the side.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples.

    Example:
        >>> black = torch.zeros(1, 3, 8, 8)
        >>> draws = Draws(0, 0, torch.tensor([7]))
        >>> int(shot_noise(black, severity=5, draws=draws).count_nonzero())
        0
    """
    check_images(images, len(draws.indices))
    photons = at_severity(PHOTONS, severity) / fine_scale(images) ** 2
    uniform = draws.uniform(images.shape[1:].numel(), stream=Stream.SHOT_NOISE)
    counts = poisson(as_floats(images) * photons, uniform.view(images.shape))
    return as_given(counts.div_(photons), images)


def impulse_noise(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images in which some values, chosen one by one, are lost: half become 0, half become 1.

    Each channel loses its own values; the share grows with the root of the side.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples.
    """
    check_images(images, len(draws.indices))
    rate = at_severity(IMPULSE_RATE, severity) * fine_scale(images)
    uniform = draws.uniform(images.shape[1:].numel(), stream=Stream.IMPULSE_NOISE).view(
        images.shape
    )
    white = 255 if images.dtype == torch.uint8 else 1
    return images.masked_fill(uniform < rate / 2, 0).masked_fill(uniform >= 1 - rate / 2, white)


def poisson(mean: Tensor, uniform: Tensor) -> Tensor:
    """The Poisson counts at these points of their distribution, float32, same shape.

    Below a mean of 10 the distribution is summed up; above, the normal number is corrected for
    skewness and kurtosis (Cornish and Fisher 1938) and rounded, which is right to one count.

    Args:
        mean: From 0 on; mean 0 gives 0.
        uniform: Multiples of 2⁻²⁴ in [0, 1), one for each mean.

    Example:
        >>> half = torch.tensor(0.5)  # the medians
        >>> poisson(torch.tensor([0.0, 1.0, 8.0, 400.0]), half.expand(4))
        tensor([  0.,   1.,   8., 400.])
    """
    # The normal number at 0 would not be finite.
    normal: Tensor = torch.special.ndtri(uniform.clamp(min=2.0**-25))
    square, root = normal.square(), mean.sqrt()
    skewness = (square - 1) / 6
    kurtosis = normal * (1 - square) / (72 * root)
    counts = (mean + root * normal + skewness + kurtosis).round_().clamp_(min=0)
    few = mean < _FEW_PHOTONS
    counts[few] = _summed(mean[few], uniform[few])
    return counts


def _summed(mean: Tensor, uniform: Tensor) -> Tensor:
    """How often the probabilities of 0, 1, … must be added to exceed ``uniform``, ``(n,)``."""
    probability = torch.exp(-mean)
    total, counts = probability.clone(), torch.zeros_like(mean)
    count = 0
    # Rounded sums may never reach the largest draws, hence the second condition.
    while (beyond := (uniform >= total) & (probability > _RAREST)).any():
        count += 1
        counts += beyond
        total += probability.mul_(mean / count)
    return counts


# Shares of the shorter side: what is seen in a blurred image does not depend on its pixels.
RADIUS = (0.012, 0.018, 0.026, 0.035, 0.044)  # of the disk, beyond the half pixel of a point
TRAVEL = (0.04, 0.07, 0.10, 0.14, 0.18)  # of a point while the shutter is open

_FFT_MULTIPLE = 16  # numbers: 64 bytes, the alignment of memory


def defocus_blur(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images in which each point is spread evenly over a disk; edges repeat beyond the border.

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


# Light has no size: the same for all images. Steps between the published ones for 32 and 224.
CONTRAST = (0.70, 0.50, 0.35, 0.23, 0.14)  # share that is left
BRIGHTNESS = (0.08, 0.16, 0.24, 0.32, 0.40)  # that is added, where white is 1
FOG = (0.40, 0.53, 0.65, 0.75, 0.84)  # share of the light that the thickest fog covers
_THINNEST_FOG = 0.4  # of the thickest


def contrast(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images drawn towards the mean of each of their channels; a constant image stays as it is.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples; nothing here is random.

    Example:
        >>> import torch
        >>> halves, draws = torch.tensor([[[[0.0, 1.0]]]]), Draws(0, 0, torch.tensor([7]))
        >>> contrast(halves, severity=2, draws=draws)
        tensor([[[[0.2500, 0.7500]]]])
    """
    check_images(images, len(draws.indices))
    kept = at_severity(CONTRAST, severity)
    pixels = as_floats(images)
    mean = pixels.mean(dim=(2, 3), keepdim=True)
    return as_given((pixels - mean).mul_(kept).add_(mean), images)


def brightness(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images with the same amount added to every value, so that bright parts are lost in white.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples; nothing here is random.
    """
    check_images(images, len(draws.indices))
    return as_given(as_floats(images) + at_severity(BRIGHTNESS, severity), images)


def fog(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images behind clouds of white fog, thick here and thin there: each has its own clouds.

    Where fog of density d lies, a value x becomes ``(1 − d)·x + d``.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples.
    """
    check_images(images, len(draws.indices))
    thickest, size = at_severity(FOG, severity), images.shape[2:]
    field = clouds(draws.uniform(n_cloud_numbers(size), stream=Stream.FOG), size)
    density = field.mul_(1 - _THINNEST_FOG).add_(_THINNEST_FOG).mul_(thickest)
    pixels = as_floats(images)
    return as_given(pixels + (1 - pixels) * density[:, None], images)


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
    """One image, uint8 ``(h, w, c)``, encoded as JPEG and decoded."""
    buffer = io.BytesIO()
    plain = image[:, :, 0] if image.shape[2] == 1 else image
    Image.fromarray(plain).save(buffer, "JPEG", quality=quality)
    with Image.open(buffer) as decoded:
        return np.asarray(decoded).reshape(image.shape)


def _in_blocks(pixels: Tensor, axis: int, block: float) -> Tensor:
    """Means over blocks of about this length along an axis, repeated for each pixel."""
    n_pixels = pixels.shape[axis]
    n_blocks = max(1, round(n_pixels / block))
    belongs_to = torch.arange(n_pixels, device=pixels.device) * n_blocks // n_pixels
    lengths = belongs_to.bincount()[belongs_to].view(-1, *[1] * (3 - axis))
    room = list(pixels.shape)
    room[axis] = n_blocks
    sums = pixels.new_zeros(room).index_add_(axis, belongs_to, pixels)
    return sums.index_select(axis, belongs_to) / lengths


# Std of the way at a point of the grid, as a share of the shorter side: shape has no pixels.
SHIFT = (0.012, 0.020, 0.029, 0.038, 0.048)
_N_POINTS = 6  # a side of the grid whose points are moved


def elastic(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images stretched and squeezed: 6 x 6 points move at random, what is between moves along.

    Beyond its border an image repeats its edge.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples.
    """
    check_images(images, len(draws.indices))
    shift = at_severity(SHIFT, severity) * short_side(images)
    height, width = images.shape[2:]
    moves = draws.normal(2 * _N_POINTS**2, stream=Stream.ELASTIC)
    moves = smooth_field(moves.unflatten(1, (2, _N_POINTS, _N_POINTS)), (height, width))
    down, across = moves.mul_(shift).unbind(1)
    rows = torch.arange(height, device=images.device)[:, None] + down
    columns = torch.arange(width, device=images.device) + across
    # grid_sample counts from -1 at the left edge of the first pixel to 1 at the right of the last.
    grid = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], dim=3)
    moved = F.grid_sample(as_floats(images), grid, padding_mode="border", align_corners=False)
    return as_given(moved, images)
