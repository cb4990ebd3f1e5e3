"""ResNets, with torchvision's parameter names."""

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import torch
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


StemName = Literal["small", "strided", "large", "authors"]
Block = type[BasicBlock] | type[Bottleneck]


class Stem(NamedTuple):
    """The first convolution, and whether a 3×3 max-pool of stride 2 follows it."""

    kernel: int
    stride: int
    padding: int
    max_pool: bool


STEMS: dict[str, Stem] = {
    "small": Stem(kernel=3, stride=1, padding=1, max_pool=False),
    # A quarter of the work of "small": for processors.
    "strided": Stem(kernel=3, stride=2, padding=1, max_pool=False),
    "large": Stem(kernel=7, stride=2, padding=3, max_pool=True),
    # NCL's authors pad by 2 on CIFAR: 32×32 images become 34×34 maps.
    "authors": Stem(kernel=3, stride=1, padding=2, max_pool=False),
}

RESNETS: dict[str, tuple[Block, tuple[int, int, int, int]]] = {
    "resnet10": (BasicBlock, (1, 1, 1, 1)),
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
}
STAGES: tuple[str, ...] = ("layer1", "layer2", "layer3", "layer4")


class ResNet(nn.Module):
    """A residual network without its classifier (He et al. 2015, table 1).

    Parameters are called as torchvision's (``layer2.0.downsample.1.weight``, …), so that its
    weights can be loaded. Convolutions start from He's normal distribution over the outputs,
    norms from scale 1 and shift 0.

    Args:
        name: A key of ``RESNETS``; the blocks in each of the four stages.
        in_channels: Of the images ``(n, in_channels, h, w)``.
        width: Channels of the first stage; the others have 2, 4 and 8 times as many.
        stem: ``"small"`` keeps the size of small images, ``"strided"`` halves it first,
            ``"large"`` divides it by 4, ``"authors"`` is the stem of the NCL paper for CIFAR.
        norm: ``"batch"``, or ``"group"``: no statistics across samples, so that a sample's
            output does not depend on its batch.
        stages: How many of the four stages there are: with fewer, the output is that of an
            earlier layer.

    Example:
        >>> backbone = ResNet("resnet10", in_channels=1, width=16)
        >>> backbone(torch.zeros(2, 1, 8, 8)).shape, backbone.hidden_size
        (torch.Size([2, 128]), 128)
    """

    stages = STAGES  # for networks that were pickled without

    def __init__(
        self,
        name: str = "resnet18",
        *,
        in_channels: int = 3,
        width: int = 64,
        stem: StemName = "small",
        norm: ImageNorm = "batch",
        stages: int = 4,
    ) -> None:
        super().__init__()
        for what, key, table in (
            ("ResNet", name, RESNETS),
            ("stem", stem, STEMS),
            ("norm of a ResNet", norm, NORMS),
        ):
            if key not in table:
                raise ValueError(f"unknown {what} {key!r}; known: {', '.join(table)}")
        if not 1 <= stages <= len(STAGES):
            raise ValueError(f"a ResNet has 1 to {len(STAGES)} stages, got stages={stages}")
        block, depths = RESNETS[name]
        first = STEMS[stem]
        self.in_channels = in_channels
        self.conv1 = nn.Conv2d(
            in_channels, width, first.kernel, first.stride, first.padding, bias=False
        )
        self.bn1 = NORMS[norm](width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1) if first.max_pool else nn.Identity()
        self.stages = STAGES[:stages]
        n_in = width
        for number, stage in enumerate(self.stages):
            n_inside = width << number
            stride = 2 if number else 1
            self.add_module(
                stage, _stage(block, n_in, n_inside, depths[number], stride=stride, norm=norm)
            )
            n_in = n_inside * block.expansion
        self.hidden_size = n_in
        self._initialise()
        # Channels innermost in memory is the faster layout, and having it from the start makes
        # the output bit-equal before and after saving and loading.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Hidden vectors ``(n, hidden_size)`` ≥ 0 of images ``(n, in_channels, h, w)``."""
        if images.ndim != 4 or images.shape[1] != self.in_channels:
            raise ValueError(
                f"this ResNet needs images (n, {self.in_channels}, h, w), "
                f"got a batch of shape {tuple(images.shape)}"
            )
        maps = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for stage in self.stages:
            maps = self.get_submodule(stage)(maps)
        return maps.mean((2, 3))  # type: ignore[no-any-return]

    def load_torchvision(self, weights: Mapping[str, Tensor]) -> None:
        """Read the weights of a ResNet in torchvision's names.

        Those of a classifier, and of stages that this network ends before, are dropped.

        Args:
            weights: A state dict of torchvision, with ``fc.weight`` and ``fc.bias`` or without.

        Raises:
            ValueError: When names or shapes are not exactly those of this network, which is then
                unchanged.
        """
        self.check_torchvision(weights)
        self.load_state_dict(self._used(weights), strict=False)

    def check_torchvision(self, weights: Mapping[str, Tensor]) -> None:
        """Raise ``ValueError`` for weights that :meth:`load_torchvision` does not read."""
        theirs, ours = self._used(weights), self.state_dict()
        # Counters of batches were not saved by early versions; they are not used either.
        missing = [n for n in ours if n not in theirs and not n.endswith("num_batches_tracked")]
        unexpected = [n for n in theirs if n not in ours]
        other_shape = [
            f"{n} {tuple(theirs[n].shape)} for {tuple(ours[n].shape)}"
            for n in ours
            if n in theirs and theirs[n].shape != ours[n].shape
        ]
        found = (("missing", missing), ("unexpected", unexpected), ("of other shape", other_shape))
        wrong = [f"{what}: {_shortened(which)}" for what, which in found if which]
        if wrong:
            raise ValueError(
                f"the weights do not fit this ResNet ({'; '.join(wrong)}); build it with their "
                "name, width, stem and norm (torchvision's: width 64, stem 'large', norm 'batch')"
            )

    def _used(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights without those of a classifier and of stages behind the last one."""
        dropped = ("fc", *STAGES[len(self.stages) :])
        return {name: w for name, w in weights.items() if name.split(".")[0] not in dropped}

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _stage(
    block: Block, in_channels: int, width: int, depth: int, *, stride: int, norm: ImageNorm
) -> nn.Sequential:
    """Blocks of one width; the first of them has the stride."""
    out_channels = width * block.expansion
    return nn.Sequential(
        block(in_channels, width, stride=stride, norm=norm),
        *(block(out_channels, width, stride=1, norm=norm) for _ in range(depth - 1)),
    )


def _shortened(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
