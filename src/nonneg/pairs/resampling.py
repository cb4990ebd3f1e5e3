"""Which pixels make a pixel of a view? Crop, resize, mirror and blur as one matrix per axis.

All four are linear and act on rows and columns separately: view = down · image · acrossᵀ.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


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
