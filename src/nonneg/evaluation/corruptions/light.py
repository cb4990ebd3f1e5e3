"""What does the light do to an image? Less contrast, more brightness, fog."""

from torch import Tensor

from nonneg.evaluation.corruptions.fields import clouds, n_cloud_numbers
from nonneg.evaluation.corruptions.pixels import as_floats, as_given
from nonneg.evaluation.corruptions.severity import at_severity
from nonneg.evaluation.corruptions.streams import Stream
from nonneg.pairs import Draws
from nonneg.pairs.rendering import check_images

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
