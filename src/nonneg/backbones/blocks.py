"""What is a residual block? A few convolutions whose result is added to their input."""

import math
from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

ImageNorm = Literal["batch", "group"]

_MOST_GROUPS = 32
_FEWEST_CHANNELS = 8


def group_norm(channels: int) -> nn.GroupNorm:
    """Normalisation of each sample by itself, in at most 32 groups of at least 8 channels.

    A group of one channel over a 1×1 map has no spread: it would give the same output for every
    sample. That is why small widths get few groups.

    Example:
        >>> group_norm(512).num_groups, group_norm(24).num_groups, group_norm(4).num_groups
        (32, 3, 1)
    """
    wanted = max(1, min(_MOST_GROUPS, channels // _FEWEST_CHANNELS))
    return nn.GroupNorm(math.gcd(channels, wanted), channels)


NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm2d, "group": group_norm}


def convolution(in_channels: int, out_channels: int, kernel: int, *, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size of the map at stride 1; the norm behind it has the bias."""
    return nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False)


class Subsampled(nn.Conv2d):
    """A 1×1 convolution of every second position: one of stride 2, with the same parameters.

    PyTorch 2.13 on CPUs computes a wrong weight gradient for a 1×1 convolution of stride 2 on maps
    with channels innermost, and writes beyond its memory. Leaving positions out first is exact.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, 1, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps ``(n, out_channels, ceil(h / 2), ceil(w / 2))``."""
        return super().forward(maps[:, :, ::2, ::2])


def _shortcut(in_channels: int, out_channels: int, stride: int, norm: ImageNorm) -> nn.Module:
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    pointwise = (
        Subsampled(in_channels, out_channels)
        if stride == 2
        else convolution(in_channels, out_channels, 1)
    )
    return nn.Sequential(pointwise, NORMS[norm](out_channels))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut (He et al. 2015, figure 5, left).

    Args:
        in_channels: Of the input ``(n, in_channels, h, w)``.
        width: Channels inside; the output is ``(n, width, ceil(h / stride), ceil(w / stride))``.
        stride: Of the first convolution and of the shortcut.
        norm: ``"batch"`` or ``"group"``.
    """

    expansion = 1

    def __init__(self, in_channels: int, width: int, *, stride: int, norm: ImageNorm) -> None:
        super().__init__()
        self.conv1 = convolution(in_channels, width, 3, stride=stride)
        self.bn1 = NORMS[norm](width)
        self.conv2 = convolution(width, width, 3)
        self.bn2 = NORMS[norm](width)
        self.downsample = _shortcut(in_channels, width, stride, norm)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps ``(n, width, h', w')`` ≥ 0."""
        inner = self.relu(self.bn1(self.conv1(maps)))
        inner = self.bn2(self.conv2(inner))
        return self.relu(inner.add_(self.downsample(maps)))  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions around a shortcut (He et al. 2015, figure 5, right).

    The stride sits in the 3×3 convolution, as in torchvision, and not in the first one, as in the
    paper: the weights have the same shapes either way.

    Args:
        in_channels: Of the input ``(n, in_channels, h, w)``.
        width: Channels inside; the output has ``4 * width``.
        stride: Of the 3×3 convolution and of the shortcut.
        norm: ``"batch"`` or ``"group"``.
    """

    expansion = 4

    def __init__(self, in_channels: int, width: int, *, stride: int, norm: ImageNorm) -> None:
        super().__init__()
        out_channels = self.expansion * width
        self.conv1 = convolution(in_channels, width, 1)
        self.bn1 = NORMS[norm](width)
        self.conv2 = convolution(width, width, 3, stride=stride)
        self.bn2 = NORMS[norm](width)
        self.conv3 = convolution(width, out_channels, 1)
        self.bn3 = NORMS[norm](out_channels)
        self.downsample = _shortcut(in_channels, out_channels, stride, norm)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps ``(n, 4 * width, h', w')`` ≥ 0."""
        inner = self.relu(self.bn1(self.conv1(maps)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        inner = self.bn3(self.conv3(inner))
        return self.relu(inner.add_(self.downsample(maps)))  # type: ignore[no-any-return]
