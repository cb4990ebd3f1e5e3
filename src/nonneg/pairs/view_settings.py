"""Settings of image views, and what is drawn from them for each image of a batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from nonneg.pairs.protocol import Draws
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
    """How a view is made from an image. By default the view is the image.

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


RECIPES: dict[str, ViewSettings] = {
    # The authors' SimCLR recipe for photographs (Wang et al. 2024, appendix; Chen et al. 2020).
    "colour": ViewSettings(
        crop_scale=(0.08, 1.0),
        crop_ratio=(3 / 4, 4 / 3),
        flip_rate=0.5,
        jitter_rate=0.8,
        brightness=0.8,
        contrast=0.8,
        saturation=0.8,
        hue=0.2,
        grey_rate=0.2,
        blur_rate=0.5,
        blur_sigma=(0.1, 2.0),
    ),
    # Grey pictures of things that have no left and right, such as Fashion-MNIST. Most of the
    # image is background, hence larger crops; detail is in few pixels, hence less blur.
    "grey": ViewSettings(
        crop_scale=(0.3, 1.0),
        crop_ratio=(3 / 4, 4 / 3),
        flip_rate=0.5,
        jitter_rate=0.8,
        brightness=0.4,
        contrast=0.4,
        blur_rate=0.2,
        blur_sigma=(0.1, 1.0),
    ),
    # A mirrored digit is no digit, and half a digit may be another one.
    "digits": ViewSettings(
        crop_scale=(0.6, 1.0),
        crop_ratio=(3 / 4, 4 / 3),
        jitter_rate=0.8,
        brightness=0.3,
        contrast=0.3,
    ),
    # A white shape on black, whose size, direction and place are what is to be learnt.
    "sprites": ViewSettings(
        crop_scale=(0.8, 1.0),
        crop_ratio=(0.9, 1 / 0.9),
        jitter_rate=0.8,
        brightness=0.3,
        blur_rate=0.2,
        blur_sigma=(0.1, 1.0),
    ),
}


def recipe(name: str, **overrides: Any) -> ViewSettings:  # noqa: ANN401 (validated by pydantic)
    """The settings of a named recipe, with some of them replaced.

    Args:
        name: A key of ``RECIPES``.
        overrides: Fields of ``ViewSettings`` and their new values, checked as usual.

    Raises:
        ValueError: One sentence that names the recipe, key or value that is wrong.

    Example:
        >>> recipe("digits", blur_rate=0.1).blur_rate, recipe("digits").blur_rate
        (0.1, 0.0)
    """
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}; known: {', '.join(RECIPES)}")
    return ViewSettings.read(RECIPES[name].model_dump() | overrides)


# Streams of the two views. Stream 0 is left to a Pairs that first chooses other samples.
VIEW_STREAMS = (1, 2)


@dataclass(frozen=True)
class ViewPlan:
    """All that is random about n views.

    Args:
        boxes: The crops as shares of the image: top, left, height, width; float32 ``(n, 4)``.
        mirrored: Whether left and right change places, bool ``(n,)``.
        brightness: Factor, float32 ``(n,)``; 1 changes nothing.
        contrast: Factor, float32 ``(n,)``; 1 changes nothing.
        saturation: Factor, float32 ``(n,)``; 1 changes nothing, 0 makes grey.
        hue: Shares of a full turn, float32 ``(n,)``; 0 changes nothing.
        sigma: Of the Gaussian blur, in pixels of the view, float32 ``(n,)``; 0 does not blur.
        solarised: Whether bright values are inverted, bool ``(n,)``.
    """

    boxes: Tensor
    mirrored: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    sigma: Tensor
    solarised: Tensor


def drawn_plan(
    settings: ViewSettings,
    draws: Draws,
    *,
    streams: Sequence[int] = VIEW_STREAMS,
    stretch: Tensor | float = 1.0,
) -> ViewPlan:
    """A plan for some views of each sample: all samples for the first stream, then the next.

    Args:
        settings: The ranges to draw from.
        draws: Random numbers of the samples.
        streams: One for each view.
        stretch: Width : height of the images over width : height of the view, one for all or
            one for each sample.
    """
    table = torch.cat([draws.uniform(14, stream=stream) for stream in streams]).T.contiguous()
    area, shape, top, left, flip, jitter, brightness, contrast, saturation, hue, *rest = table
    grey, blur, sigma, solarise = rest
    jittered = jitter < settings.jitter_rate
    log_stretch = torch.as_tensor(stretch, dtype=torch.float32, device=area.device).log()
    if log_stretch.ndim:
        log_stretch = log_stretch.repeat(len(streams))
    return ViewPlan(
        boxes=_boxes(settings, area, shape, top, left, log_stretch),
        mirrored=flip < settings.flip_rate,
        brightness=_factor(brightness, settings.brightness, jittered),
        contrast=_factor(contrast, settings.contrast, jittered),
        saturation=_factor(saturation, settings.saturation, jittered)
        * (grey >= settings.grey_rate),
        hue=(2 * hue - 1) * settings.hue * jittered,
        sigma=_between(sigma, *settings.blur_sigma) * (blur < settings.blur_rate),
        solarised=solarise < settings.solarise_rate,
    )


def _boxes(
    settings: ViewSettings,
    area: Tensor,
    shape: Tensor,
    top: Tensor,
    left: Tensor,
    log_stretch: Tensor,
) -> Tensor:
    log_area = _between(area, *settings.crop_scale).log()
    # A crop of this area fits if its ratio lies between stretch · area and stretch / area. Where
    # no allowed ratio does, the nearest one is taken and the crop shrunk until it fits.
    limits = [math.log(ratio) for ratio in settings.crop_ratio]
    lowest = (log_stretch + log_area).clamp(*limits)
    highest = (log_stretch - log_area).clamp(*limits)
    log_ratio = lowest + shape * (highest - lowest) - log_stretch
    height = ((log_area - log_ratio) / 2).exp()
    width = ((log_area + log_ratio) / 2).exp()
    excess = torch.maximum(height, width).clamp(min=1)
    height, width = height / excess, width / excess
    return torch.stack([top * (1 - height), left * (1 - width), height, width], dim=1)


def _between(unit: Tensor, low: float, high: float) -> Tensor:
    return low + unit * (high - low)


def _factor(unit: Tensor, strength: float, applied: Tensor) -> Tensor:
    return torch.where(applied, _between(unit, max(0.0, 1 - strength), 1 + strength), 1.0)
