"""Views of image batches, by a few matrix products for many images at once.

With brightness b, contrast c, saturation s, hue angle t and m the mean grey of the view,
``x → c·b·(grey(x) + s·cos t·chroma(x) + s·sin t·turned(x)) + (1 − c)·b·m``: the four changes in
this order. Grey is s = 0.

Crop, resize, mirror and blur are linear and act on rows and columns separately:
view = down · image · acrossᵀ.
"""

import math
import threading
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.pairs.view_settings import ViewPlan, ViewSettings


class Buffers(threading.local):
    """Reusable memory by name, for intermediate results; each thread has its own.

    An operating system hands out fresh memory page by page, which takes longer than the
    arithmetic on small images. Other devices have allocators that keep memory by themselves.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, *shape: int, device: torch.device) -> Tensor:
        """Float32 of this shape, with any content; what had this name before is overwritten."""
        if device.type != "cpu":
            return torch.empty(shape, device=device)
        n_numbers = math.prod(shape)
        kept = self._kept.get(name)
        if kept is None or kept.numel() < n_numbers:
            # A tensor made in inference mode could not be written outside of it.
            with torch.inference_mode(False):
                kept = self._kept[name] = torch.empty(n_numbers)
        return kept[:n_numbers].view(shape)


# Luminance of the NTSC primaries (ITU-R BT.601), as in Pillow and torchvision.
_LUMINANCE = (0.299, 0.587, 0.114)
_TO_GREY = torch.tensor(_LUMINANCE).expand(3, 3)
_CHROMA = torch.eye(3) - _TO_GREY
# A quarter turn about the grey axis, brought back to the same luminance: turned twice, a chroma
# is its negative. A third of a full turn takes the chroma of red to that of green.
_TURNED = _CHROMA @ torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)


def chroma_map(saturation: Tensor, hue: Tensor) -> Tensor:
    """The linear map of saturation and hue, ``(n, 3, 3)``; it keeps each colour's luminance.

    Args:
        saturation: Factors ``(n,)``.
        hue: Shares of a full turn ``(n,)``.
    """
    angle = 2 * math.pi * hue
    along, across = saturation * angle.cos(), saturation * angle.sin()
    to_grey, chroma, turned = (part.to(hue.device) for part in (_TO_GREY, _CHROMA, _TURNED))
    return to_grey + along[:, None, None] * chroma + across[:, None, None] * turned


def mean_grey(views: Tensor) -> Tensor:
    """The mean luminance ``(...)`` of views with channels first, ``(c, ..., h, w)``."""
    means = views.flatten(-2).mean(-1)
    if len(means) == 1:
        return means[0]
    grey: Tensor = sum(weight * mean for weight, mean in zip(_LUMINANCE, means, strict=True))
    return grey


def crop_centres(start: Tensor, length: Tensor, n_out: int) -> Tensor:
    """Where the centres of the output pixels lie along an axis, ``(n, n_out)``.

    Args:
        start: Where the crop begins, in input pixels, ``(n,)``.
        length: How far it goes, ``(n,)``; negative to mirror it.
        n_out: Output pixels.

    Example:
        >>> crop_centres(torch.tensor([1.0]), torch.tensor([4.0]), 2)
        tensor([[2., 4.]])
    """
    steps = torch.arange(n_out, device=start.device) + 0.5
    return start[:, None] + (length / n_out)[:, None] * steps


def crop_weights(centres: Tensor, reach: Tensor, n_in: int, *, out: Tensor | None = None) -> Tensor:
    """The weight of each input pixel in each output pixel along an axis, ``(n, n_out, n_in)``.

    Bilinear; when the crop shrinks, the triangle widens with it, so that nothing is skipped
    (the rule of Pillow's ``resize`` with a ``box``). Each row sums to 1.

    Args:
        centres: Where the output pixels lie, ``(n, n_out)``.
        reach: How far apart they are, ``(n,)``; at least 1 counts.
        n_in: Input pixels.
        out: Where to write the result.

    Example:
        >>> crop_weights(torch.tensor([[1.0, 3.0]]), torch.tensor([2.0]), 4)
        tensor([[[0.4286, 0.4286, 0.1429, 0.0000],
                 [0.0000, 0.1429, 0.4286, 0.4286]]])
    """
    pixels = torch.arange(n_in, device=centres.device) + 0.5
    if n_in <= centres.shape[1]:
        # Never shrinks: between two pixel centres the weights add up to 1 by themselves.
        centres = centres.clamp(0.5, n_in - 0.5)
        distance = torch.sub(centres[:, :, None], pixels, out=out).abs_()
        return torch.sub(torch.ones_like(reach)[:, None, None], distance, out=out).clamp_(min=0)
    distance = torch.sub(centres[:, :, None], pixels, out=out).abs_()
    weights = distance.mul_(-1 / reach.clamp(min=1)[:, None, None]).add_(1).clamp_(min=0)
    return weights.div_(weights.sum(2, keepdim=True))


def blur_weights(sigma: Tensor, n_pixels: int) -> Tensor:
    """The weight of each pixel in each blurred pixel along an axis, ``(n, n_pixels, n_pixels)``.

    Gaussian; beyond the border there is nothing, and each row sums to 1.

    Args:
        sigma: Standard deviations in pixels, ``(n,)``, above 0.
        n_pixels: In and out.
    """
    distance = torch.arange(1 - n_pixels, n_pixels, device=sigma.device)
    exponent = (-0.5 / sigma.clamp(min=0.01).square())[:, None] * distance.square()
    # What weighs less than exp(-25) is zero: denormal numbers would slow down every product.
    profile = F.threshold(exponent.clamp_(min=-25).exp(), 2e-11, 0.0)
    # Row i is the profile from distance -i on.
    weights = profile.unfold(1, n_pixels, 1).flip(1)
    return weights.div_(weights.sum(2, keepdim=True))


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
            part = (numbers.unflatten(0, (n_each, n))[:, rows] for numbers in maps)
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
    """What a plan comes to: small tensors ``(n_views, ...)``, in parts ``(n_each, n, ...)``."""

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
    planes = _resampled(images, *_weights(maps, settings, images.shape[2:]), out.shape[3:])
    # Rows of weights sum to 1, so that colours may change after the products as well as before.
    if settings.jitter_rate or settings.grey_rate:
        _recolour(planes, maps, out=out)
    else:
        out.copy_(planes[:-1].permute(1, 2, 0, 3, 4))
    out.clamp_(0, 1)
    if settings.solarise_rate:
        chosen = maps.solarised[:, :, None, None, None]
        inverted = chosen & (out >= settings.solarise_threshold)
        torch.where(inverted, 1 - out, out, out=out)


def _weights(maps: _Maps, settings: ViewSettings, size_in: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What takes rows of an image to rows of its views, and columns to columns.

    Returns:
        ``(n · n_each, h_out, h)`` and ``(n · n_each, w_out, w)``: all views of the first image
        come first.
    """
    centres_down, reach_down, centres_across, reach_across, sigma = (
        numbers.transpose(0, 1).flatten(0, 1) for numbers in maps[:5]
    )
    down = _taken("down", (*centres_down.shape, size_in[0]), sigma)
    across = _taken("across", (*centres_across.shape, size_in[1]), sigma)
    crop_weights(centres_down, reach_down, size_in[0], out=down)
    crop_weights(centres_across, reach_across, size_in[1], out=across)
    if settings.blur_rate:
        blurred = sigma.nonzero()[:, 0]
        sizes = {down.shape[1], across.shape[1]}
        blurs = {n_pixels: blur_weights(sigma[blurred], n_pixels) for n_pixels in sizes}
        for weights in (down, across):
            weights[blurred] = blurs[weights.shape[1]].bmm(weights[blurred])
    return down, across


def _resampled(images: Tensor, down: Tensor, across: Tensor, size: Sequence[int]) -> Tensor:
    """The channels of all views as planes, and room for one more, ``(c + 1, n_each, n, *size)``."""
    n, channels, height, width = images.shape
    n_each = len(down) // n
    pixels = _taken("pixels", (n, channels * height, width), images)
    pixels.copy_(images.reshape(pixels.shape))
    if images.dtype == torch.uint8:
        pixels.div_(255)
    narrowed = _taken("narrowed", (n, channels * height, n_each * size[1]), images)
    torch.bmm(pixels, across.view(n, -1, width).transpose(1, 2), out=narrowed)
    narrowed = narrowed.view(n, channels, height, n_each, size[1])
    planes = _taken("planes", (channels + 1, n_each, n, *size), images)
    for view, weights in enumerate(down.view(n, n_each, size[0], height).unbind(1)):
        for channel in range(channels):
            torch.bmm(weights, narrowed[:, channel, :, view], out=planes[channel, view])
    return planes


def _recolour(planes: Tensor, maps: _Maps, *, out: Tensor) -> None:
    """Write planes with changed colours to ``(n_each, n, c, *size)``; overwrites the last plane."""
    colours, ones = planes[:-1], planes[-1]
    gain, offset = maps.gain[:, :, None, None], (maps.lift * mean_grey(colours))[:, :, None, None]
    if len(colours) == 1:
        out[:, :, 0] = colours[0].mul_(gain).add_(offset)
        return
    # An affine map of three planes is a linear map of four, of which one is constant.
    ones.fill_(1)
    affine = torch.cat([maps.chroma * gain, offset.expand(-1, -1, 3, 1)], dim=3)
    for view, each in enumerate(affine):
        torch.bmm(each, planes[:, view].flatten(2).transpose(0, 1), out=out[view].flatten(2))


def _taken(name: str, shape: Sequence[int], like: Tensor) -> Tensor:
    return _buffers.take(name, *shape, device=like.device)
