"""What may happen to an image on its way to a view? Ranges and rates, each with an off value."""

from typing import Annotated

from pydantic import AfterValidator, Field

from nonneg.settings import Settings


def _ordered(limits: tuple[float, float]) -> tuple[float, float]:
    low, high = limits
    if not low <= high:
        raise ValueError("a range goes from low to high")
    return limits


Rate = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Strength = Annotated[float, Field(ge=0)]
ShareRange = Annotated[tuple[Share, Share], AfterValidator(_ordered)]
PositiveRange = Annotated[tuple[Positive, Positive], AfterValidator(_ordered)]


class ViewSettings(Settings):
    """How a view is made from an image. With no argument, the view is the image.

    The order is crop, flip, blur, brightness, contrast, saturation, hue, grey, solarise, and values
    are cut to [0, 1] once, before solarising. torchvision, in the authors' recipe, blurs later,
    shuffles the four changes of colour and cuts after each; hue turns in HSV there and at constant
    luminance here. Contrast pulls towards the mean grey of the view.

    Example:
        >>> ViewSettings(flip_rate=0.5).flip_rate, ViewSettings().crop_scale
        (0.5, (1.0, 1.0))
    """

    crop_scale: ShareRange = (1.0, 1.0)
    """Range of the area of the crop, as a share of the image; drawn evenly."""
    crop_ratio: PositiveRange = (1.0, 1.0)
    """Range of width : height of the crop, where 1 has the shape of the view, so that nothing is
    stretched; its logarithm is drawn evenly from the part that fits the image."""
    flip_rate: Rate = 0.0
    """How often left and right change places."""
    jitter_rate: Rate = 0.0
    """How often brightness, contrast, saturation and hue change, all together."""
    brightness: Strength = 0.0
    """Strength b: colours are multiplied by a number from [max(0, 1 − b), 1 + b]."""
    contrast: Strength = 0.0
    """Strength, of the same form: the distance from the mean grey is multiplied."""
    saturation: Strength = 0.0
    """Strength, of the same form: the distance from the pixel's grey is multiplied."""
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    """Colours turn about the grey axis by up to this share of a full circle, either way."""
    grey_rate: Rate = 0.0
    """How often colours become greys. Like saturation and hue it leaves images with one channel as
    they are."""
    blur_rate: Rate = 0.0
    """How often the view is blurred with a Gaussian."""
    blur_sigma: PositiveRange = (0.1, 2.0)
    """Range of the standard deviation of that Gaussian, in pixels of the view: the same number
    blurs a small view more than a large one."""
    solarise_rate: Rate = 0.0
    """How often values from the threshold on are inverted."""
    solarise_threshold: Rate = 0.5
    """Where inverting begins, in [0, 1]."""
