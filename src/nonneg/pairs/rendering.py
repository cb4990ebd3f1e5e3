"""How are images and a plan turned into views? In a few matrix products for many images at once."""

from typing import NamedTuple

import torch
from torch import Tensor

from nonneg.pairs.colour import chroma_map, mean_grey
from nonneg.pairs.plan import ViewPlan
from nonneg.pairs.resampling import blur_weights, crop_centres, crop_weights
from nonneg.pairs.view_settings import ViewSettings

Size = tuple[int, int]

# Numbers in one intermediate result: on a CPU what its cache holds, elsewhere what memory allows.
_CHUNK_FLOATS = {"cpu": 3 * 2**17}
_CHUNK_FLOATS_ELSEWHERE = 2**26


def rendered(images: Tensor, plan: ViewPlan, settings: ViewSettings, size: Size) -> Tensor:
    """The views of a plan, float32 ``(n_views, c, *size)`` in [0, 1].

    Args:
        images: uint8 or floats in [0, 1], ``(n, c, h, w)``; not changed.
        plan: For each image once, or for all images several times over.
        settings: Where the plan came from; what they turn off is not computed.
        size: Height and width of a view.
    """
    n, channels, height, width = images.shape
    largest = channels * max(height, size[0]) * max(width, size[1])
    limit = _CHUNK_FLOATS.get(images.device.type, _CHUNK_FLOATS_ELSEWHERE)
    step = max(1, limit // largest)
    maps = _mapped(plan, (height, width), size)
    # One block for all views: the C library hands two out anew, page by page, on every call.
    views = torch.empty(len(plan.boxes), channels, *size, device=images.device)
    # Half precision would cost more detail than the bytes of an image have.
    with torch.autocast(images.device.type, enabled=False):
        for start in range(0, n, step):
            pixels = _unit_floats(images[start : start + step])
            for first in range(start, len(views), n):
                rows = slice(first, first + len(pixels))
                part = _Maps(*(numbers[rows] for numbers in maps))
                _render(pixels, part, settings, out=views[rows])
    return views


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
    brightness, contrast = plan.brightness[:, None, None, None], plan.contrast[:, None, None, None]
    return _Maps(
        centres_down=crop_centres(top, height, size_out[0]),
        reach_down=height / size_out[0],
        centres_across=crop_centres(begin, extent, size_out[1]),
        reach_across=width / size_out[1],
        sigma=plan.sigma,
        chroma=chroma_map(plan.saturation, plan.hue),
        gain=contrast * brightness,
        lift=(1 - contrast) * brightness,
        solarised=plan.solarised[:, None, None, None],
    )


def _render(images: Tensor, maps: _Maps, settings: ViewSettings, *, out: Tensor) -> None:
    n, channels, height, width = images.shape
    down = crop_weights(maps.centres_down, maps.reach_down, height)
    across = crop_weights(maps.centres_across, maps.reach_across, width)
    if settings.blur_rate:
        blurred = maps.sigma.nonzero()[:, 0]
        sigma = maps.sigma[blurred]
        blurs = {n_pixels: blur_weights(sigma, n_pixels) for n_pixels in set(out.shape[2:])}
        for weights in (down, across):
            weights[blurred] = blurs[weights.shape[1]].bmm(weights[blurred])
    views = torch.bmm(images.reshape(n, channels * height, width), across.transpose(1, 2))
    # Rows of weights sum to 1, so that colours may change before, between or after the products.
    if channels == 3 and (settings.jitter_rate or settings.grey_rate):
        views = torch.bmm(maps.chroma, views.view(n, 3, -1))
    views = torch.matmul(down[:, None], views.view(n, channels, height, -1))
    if settings.jitter_rate:
        offset = maps.lift * mean_grey(views)
        views.mul_(maps.gain).add_(offset)
    torch.clamp(views, 0, 1, out=out)
    if settings.solarise_rate:
        inverted = maps.solarised & (out >= settings.solarise_threshold)
        torch.where(inverted, 1 - out, out, out=out)


def _unit_floats(images: Tensor) -> Tensor:
    if images.dtype == torch.uint8:
        return images.float().div_(255)
    return images.float()
