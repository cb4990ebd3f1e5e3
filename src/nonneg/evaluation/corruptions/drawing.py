"""Sketched and stylised images: what is left when texture and colour go."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.evaluation.corruptions.pixels import Stream, as_floats, as_given, luminance, short_side
from nonneg.pairs.protocol import Draws
from nonneg.pairs.rendering import check_images

# Smoothing before lines are sought or levels made: a share of the side, and at least so many
# pixels, since a line of less is noise.
_SKETCH_SIGMA, _STYLE_SIGMA, _LEAST_SIGMA = 0.006, 0.008, 0.6
_PAPER = 0.12  # what is flatter than this share of the steepest parts is left white
_STEEPEST = 0.95  # share of pixels that are less steep than a black line
_LEAST_STEP = 0.01  # a change of brightness a pixel below which nothing is a black line

_N_LEVELS = 5  # of brightness, each of which gets one texture
_EDGE = 0.15  # how much of a level is mixed with the next: soft outlines
_PERIODS = (0.12, 0.40)  # of the waves, as shares of the shorter side
_LEAST_PERIOD = 2.5  # pixels
_WAVE = (0.03, 0.09)  # how far a wave goes up and down
_DARKEST = 0.12  # lightness of a level; the lightest is as far from white
_CHROMA = 0.35  # how far colours lie from grey


def sketch(images: Tensor) -> Tensor:
    """Images as drawings: dark lines on white where brightness changes, all channels equal.

    The brightness is smoothed a little; the steepest twentieth of its pixels is black, flat parts
    are white. A constant image gives an empty sheet. Nothing is random.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.

    Example:
        >>> sketch(torch.full((1, 3, 8, 8), 0.3)).unique()
        tensor([1.])
    """
    check_images(images, len(images))
    bright = _smoothed(luminance(as_floats(images)), _SKETCH_SIGMA * short_side(images))
    padded = F.pad(bright[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
    down = (padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]) / 2
    across = (padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]) / 2
    steepness = torch.hypot(down, across)  # (n, h, w)
    rank = max(1, math.ceil(_STEEPEST * steepness.shape[1:].numel()))
    black = steepness.flatten(1).kthvalue(rank, dim=1).values.clamp(min=_LEAST_STEP)
    ink = (steepness / black[:, None, None] - _PAPER).div_(1 - _PAPER).clamp_(0, 1)
    return as_given((1 - ink)[:, None].repeat(1, images.shape[1], 1, 1), images)


def stylised(images: Tensor, *, draws: Draws) -> Tensor:
    """Images whose brightness is cut into five levels, each filled with a random texture.

    Only the outlines of the levels come from the image. What fills a level is drawn for each
    sample: a lightness (the five are shuffled, so that dark can become light), a colour (where
    there are three channels), and two crossing waves of random direction, period and height.
    It is not Stylized-ImageNet, which transfers the style of paintings with a network:
    outlines here are coarser, shading within a level is lost, and textures are simpler.

    A constant image gives one texture all over.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        draws: Of these samples.
    """
    check_images(images, len(draws.indices))
    n_channels, height, width = images.shape[1:]
    numbers = draws.uniform(12 * _N_LEVELS, stream=Stream.STYLISED).unflatten(1, (_N_LEVELS, 12))
    bright = _smoothed(luminance(as_floats(images)), _STYLE_SIGMA * short_side(images))
    colours = _colours(numbers[:, :, :4], n_channels)[..., None, None]  # (n, c, levels, 1, 1)
    waves = _waves(numbers[:, :, 4:], height, width)[:, None]  # (n, 1, levels, h, w)
    shares = _level_shares(bright)[:, None]
    return as_given(((colours + waves) * shares).sum(2), images)


def _smoothed(bright: Tensor, sigma: float) -> Tensor:
    """Brightness ``(n, h, w)`` after a Gaussian blur of at least ``_LEAST_SIGMA`` pixels."""
    sigma = max(sigma, _LEAST_SIGMA)
    reach = math.ceil(3 * sigma)
    weights = [math.exp(-0.5 * (step / sigma) ** 2) for step in range(-reach, reach + 1)]
    for axis, padding in ((1, (0, 0, reach, reach)), (2, (reach, reach, 0, 0))):
        n_pixels = bright.shape[axis]
        padded = F.pad(bright[:, None], padding, mode="replicate")[:, 0]
        bright = torch.zeros_like(bright)
        for start, weight in enumerate(weights):
            bright.add_(padded.narrow(axis, start, n_pixels), alpha=weight / sum(weights))
    return bright


def _level_shares(bright: Tensor) -> Tensor:
    """How much each pixel belongs to each level, sums of 1, ``(n, levels, h, w)``."""
    lowest, highest = (end[:, None, None] for end in bright.flatten(1).aminmax(dim=1))
    height = (bright - lowest) / (highest - lowest).clamp(min=1e-3) * _N_LEVELS
    # Above border k a pixel belongs to the levels from k on: 0 below, 1 above, steep between.
    borders = torch.arange(1, _N_LEVELS, device=bright.device)[:, None, None]
    above = ((height[:, None] - borders) / (2 * _EDGE) + 0.5).clamp_(0, 1)
    whole = torch.ones_like(height[:, None])
    return torch.cat([whole, above], 1) - torch.cat([above, torch.zeros_like(whole)], 1)


def _colours(numbers: Tensor, n_channels: int) -> Tensor:
    """A colour for each level, ``(n, c, levels)``; in lightness they are evenly apart."""
    place = numbers[:, :, 0].argsort(dim=1)[:, None]
    lightness = _DARKEST + (1 - 2 * _DARKEST) * place / (_N_LEVELS - 1)  # (n, 1, levels)
    if n_channels == 1:
        return lightness
    chroma = _CHROMA * (2 * numbers[:, :, 1:].transpose(1, 2) - 1)  # (n, 3, levels)
    # Less its own brightness, so that a chroma does not move the lightness.
    return lightness + chroma - luminance(chroma[..., None])[:, None, :, 0]


def _waves(numbers: Tensor, height: int, width: int) -> Tensor:
    """Two crossing waves for each level, added, ``(n, levels, height, width)``."""
    # Each (n, levels, 2, 1, 1).
    direction, period, phase, high = numbers.unflatten(2, (2, 4))[..., None, None].unbind(3)
    shortest, longest = (max(_LEAST_PERIOD, share * min(height, width)) for share in _PERIODS)
    # Periods are even in their logarithm: as many fine textures as coarse ones.
    turn = 2 * math.pi / (shortest * (longest / shortest) ** period)
    angle = math.pi * direction
    rows = torch.arange(height, device=numbers.device)[:, None]
    columns = torch.arange(width, device=numbers.device)
    place = turn * (angle.sin() * rows + angle.cos() * columns) + 2 * math.pi * phase
    waves: Tensor = place.sin() * (_WAVE[0] + (_WAVE[1] - _WAVE[0]) * high)
    return waves.sum(2)
