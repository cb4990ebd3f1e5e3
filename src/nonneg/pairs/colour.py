"""How do the colours of a view change? By one affine map of (red, green, blue) per image.

With brightness b, contrast c, saturation s, hue angle t and m the mean grey of the view,
``x → c·b·(grey(x) + s·cos t·chroma(x) + s·sin t·turned(x)) + (1 − c)·b·m``: the four changes in
this order. Grey is s = 0.
"""

import math

import torch
from torch import Tensor

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
