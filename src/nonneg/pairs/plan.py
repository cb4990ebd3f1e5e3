"""What was drawn for each image of a batch? Where it is cropped and how its colours change."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg.pairs.draws import Draws
from nonneg.pairs.view_settings import ViewSettings

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
