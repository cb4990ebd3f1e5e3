"""What does a poor sensor do to an image? Gaussian, shot and impulse noise, pixel by pixel."""

import torch
from torch import Tensor

from nonneg.evaluation.corruptions.pixels import as_floats, as_given
from nonneg.evaluation.corruptions.severity import at_severity, fine_scale
from nonneg.evaluation.corruptions.streams import Stream
from nonneg.pairs import Draws
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
