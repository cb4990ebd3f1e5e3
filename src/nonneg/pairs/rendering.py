"""How are images and a plan turned into views? In a few matrix products for many images at once."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nonneg.pairs.buffers import Buffers
from nonneg.pairs.colour import chroma_map, mean_grey
from nonneg.pairs.plan import ViewPlan
from nonneg.pairs.resampling import blur_weights, crop_centres, crop_weights
from nonneg.pairs.view_settings import ViewSettings

Size = tuple[int, int]

# Numbers in one intermediate result; more images than that are worked on in portions.
_MOST_FLOATS = {"cpu": 2**21}
_MOST_FLOATS_ELSEWHERE = 2**26

_buffers = Buffers()


def rendered(images: Tensor, plan: ViewPlan, settings: ViewSettings, size: Size) -> Tensor:
    """The views of a plan, float32 ``(n_views, c, *size)`` in [0, 1], without gradient.

    Args:
        images: uint8 or floats in [0, 1], ``(n, c, h, w)``; not changed.
        plan: For each image once, or for all images several times over.
        settings: Where the plan came from; what they turn off is not computed.
        size: Height and width of a view.
    """
    n, channels, height, width = images.shape
    n_each = len(plan.boxes) // max(1, n)
    largest = n_each * channels * max(height, size[0]) * max(width, size[1])
    limit = _MOST_FLOATS.get(images.device.type, _MOST_FLOATS_ELSEWHERE)
    step = max(1, limit // max(1, largest))
    maps = _mapped(plan, (height, width), size)
    views = torch.empty(n_each, n, channels, *size, device=images.device)
    # Half precision would cost more detail than the bytes of an image have.
    with torch.no_grad(), torch.autocast(images.device.type, enabled=False):
        for start in range(0, n, step):
            rows = slice(start, start + step)
            part = (numbers.unflatten(0, (n_each, n))[:, rows].flatten(0, 1) for numbers in maps)
            _render(images[rows], _Maps(*part), settings, out=views[:, rows])
    return views.flatten(0, 1)


def check_images(images: Tensor, n_draws: int) -> None:
    """Raise one clear sentence unless these are images ``(n, c, h, w)`` with a draw for each."""
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(
            f"images must have shape (n, c, h, w) with 1 or 3 channels, got {tuple(images.shape)}"
        )
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise TypeError(f"images must be uint8, or floats in [0, 1], got {images.dtype}")
    if len(images) != n_draws:
        raise ValueError(f"{len(images)} images came with the draws of {n_draws} samples")


class _Maps(NamedTuple):
    """What a plan comes to, all small and with one row for each image."""

    centres_down: Tensor
    reach_down: Tensor
    centres_across: Tensor
    reach_across: Tensor
    sigma: Tensor
    chroma: Tensor
    gain: Tensor
    lift: Tensor
    solarised: Tensor


def _mapped(plan: ViewPlan, size_in: Size, size_out: Size) -> _Maps:
    top, left, height, width = plan.boxes.unbind(1)
    top, height = top * size_in[0], height * size_in[0]
    left, width = left * size_in[1], width * size_in[1]
    begin = torch.where(plan.mirrored, left + width, left)
    extent = torch.where(plan.mirrored, -width, width)
    return _Maps(
        centres_down=crop_centres(top, height, size_out[0]),
        reach_down=height / size_out[0],
        centres_across=crop_centres(begin, extent, size_out[1]),
        reach_across=width / size_out[1],
        sigma=plan.sigma,
        chroma=chroma_map(plan.saturation, plan.hue),
        gain=plan.contrast * plan.brightness,
        lift=(1 - plan.contrast) * plan.brightness,
        solarised=plan.solarised,
    )


def _render(images: Tensor, maps: _Maps, settings: ViewSettings, *, out: Tensor) -> None:
    """Write views of images ``(n, c, h, w)`` to ``(n_each, n, c, h_out, w_out)``."""
    channels = images.shape[1]
    down, across = _weights(maps, settings, images.shape[2:], out.shape[3:])
    views = _resampled_across(images, across)
    # Rows of weights sum to 1, so that colours may change before, between or after the products.
    if channels == 3 and (settings.jitter_rate or settings.grey_rate):
        coloured = _taken("coloured", views.flatten(2).shape, views)
        views = torch.bmm(maps.chroma, views.flatten(2), out=coloured).view(views.shape)
    views = _resampled_down(views, down)
    if settings.jitter_rate:
        offset = maps.lift * mean_grey(views)
        views.mul_(maps.gain[:, None, None]).add_(offset[:, None, None])
    torch.clamp(views.unflatten(1, out.shape[:2]).permute(1, 2, 0, 3, 4), 0, 1, out=out)
    if settings.solarise_rate:
        chosen = maps.solarised.view(*out.shape[:2], 1, 1, 1)
        inverted = chosen & (out >= settings.solarise_threshold)
        torch.where(inverted, 1 - out, out, out=out)


def _weights(
    maps: _Maps, settings: ViewSettings, size_in: Sequence[int], size_out: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """What takes rows of images to rows of views, and columns to columns."""
    down = _taken("down", (*maps.centres_down.shape, size_in[0]), maps.sigma)
    across = _taken("across", (*maps.centres_across.shape, size_in[1]), maps.sigma)
    crop_weights(maps.centres_down, maps.reach_down, size_in[0], out=down)
    crop_weights(maps.centres_across, maps.reach_across, size_in[1], out=across)
    if settings.blur_rate:
        blurred = maps.sigma.nonzero()[:, 0]
        sigma = maps.sigma[blurred]
        blurs = {n_pixels: blur_weights(sigma, n_pixels) for n_pixels in set(size_out)}
        for weights in (down, across):
            weights[blurred] = blurs[weights.shape[1]].bmm(weights[blurred])
    return down, across


def _resampled_across(images: Tensor, across: Tensor) -> Tensor:
    """Images ``(n, c, h, w)``, several times over, by ``(n_views, w_out, w)``."""
    n, channels, height, width = images.shape
    pixels = _taken("pixels", (n, channels * height, width), images)
    pixels.copy_(images.reshape(pixels.shape))
    if images.dtype == torch.uint8:
        pixels.div_(255)
    views = _taken("across done", (len(across), channels * height, across.shape[1]), images)
    for weights, view in zip(across.split(n), views.split(n), strict=True):
        torch.bmm(pixels, weights.transpose(1, 2), out=view)
    return views.view(len(across), channels, height, -1)


def _resampled_down(views: Tensor, down: Tensor) -> Tensor:
    """Views ``(n_views, c, h, w_out)`` by ``(n_views, h_out, h)``, channels first."""
    n_views, channels, _, width = views.shape
    done = _taken("down done", (channels, n_views, down.shape[1], width), views)
    # One product for each channel: a single one would need a copy of the weights for each.
    for channel in range(channels):
        torch.bmm(down, views[:, channel], out=done[channel])
    return done


def _taken(name: str, shape: Sequence[int], like: Tensor) -> Tensor:
    return _buffers.take(name, *shape, device=like.device)
