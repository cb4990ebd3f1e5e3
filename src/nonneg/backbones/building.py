"""How does a written-down backbone become a network? One builder for each family of names."""

import math
from collections.abc import Callable, Sequence

from torch import nn

from nonneg.backbones.frozen import Frozen
from nonneg.backbones.mlp import MLP, Flatten
from nonneg.backbones.projection import Projection
from nonneg.backbones.resnet import ResNet
from nonneg.backbones.settings import BackboneSettings
from nonneg.backbones.timm_models import TimmBackbone
from nonneg.backbones.transformers_models import TransformersBackbone

Backbone = ResNet | MLP | Flatten | Projection | TimmBackbone | TransformersBackbone
Shape = tuple[int, ...]


def build(settings: BackboneSettings, sample_shape: Sequence[int]) -> Backbone:
    """The network that the settings describe: a module from a batch to ``(n, hidden_size)``.

    Args:
        settings: Which network.
        sample_shape: Of one sample, ``(c, h, w)`` or ``(d,)``; gives the channels or numbers in.

    Raises:
        ValueError: When the network cannot read samples of this shape.
        ImportError: When it needs an extra that is not installed.

    Example:
        >>> build(BackboneSettings(name="mlp", hidden=(32, 16)), (1, 8, 8)).hidden_size
        16
    """
    shape = tuple(sample_shape)
    if not shape or min(shape) < 1:
        raise ValueError(f"a backbone needs samples with something in them, got shape {shape}")
    return _BUILDERS[settings.family](settings, shape)


def portable(settings: BackboneSettings | None, backbone: nn.Module) -> BackboneSettings | None:
    """The settings from which ``build`` gives the same architecture again without the network.

    The weights are not part of it: load them from the state dict of the first one.

    Args:
        settings: What the backbone was built from; None for a module that was given.
        backbone: The module, frozen or not.

    Returns:
        None for a module of the user's own, of which no settings are known.
    """
    inner = backbone.frozen if isinstance(backbone, Frozen) else backbone
    if isinstance(inner, Projection):
        return BackboneSettings(name="projection", hidden=(inner.hidden_size,))
    if settings is None or not isinstance(inner, TimmBackbone | TransformersBackbone):
        return settings
    return settings.model_copy(update={"pretrained": False, "config": inner.config})


def _resnet(settings: BackboneSettings, shape: Shape) -> Backbone:
    in_channels = _channels(settings.name, shape)
    norm = settings.norm
    assert norm in ("batch", "group")
    return ResNet(
        settings.name,
        in_channels=in_channels,
        width=settings.width,
        stem=settings.stem,
        norm=norm,
    )


def _mlp(settings: BackboneSettings, shape: Shape) -> Backbone:
    norm = settings.norm
    assert norm != "group"
    return MLP(math.prod(shape), settings.hidden, norm=norm)


def _identity(_: BackboneSettings, shape: Shape) -> Backbone:
    return Flatten(math.prod(shape))


def _projection(settings: BackboneSettings, shape: Shape) -> Backbone:
    if len(shape) != 1:
        raise ValueError(
            f"backbone {settings.name!r} needs vectors (d,), got samples of shape {shape}"
        )
    return Projection(shape[0], settings.hidden[0])


def _timm(settings: BackboneSettings, shape: Shape) -> Backbone:
    _channels(settings.name, shape)
    return TimmBackbone(
        settings.name,
        sample_shape=shape,
        pretrained=settings.pretrained,
        config=settings.config,
    )


def _transformers(settings: BackboneSettings, shape: Shape) -> Backbone:
    return TransformersBackbone(
        settings.name,
        sample_shape=shape,
        pretrained=settings.pretrained,
        config=settings.config,
    )


def _channels(name: str, shape: Shape) -> int:
    if len(shape) != 3:
        raise ValueError(
            f"backbone {name!r} needs images (c, h, w), got samples of shape {shape}; "
            "use 'mlp' or 'identity' for vectors"
        )
    return shape[0]


_BUILDERS: dict[str, Callable[[BackboneSettings, Shape], Backbone]] = {
    "resnet": _resnet,
    "mlp": _mlp,
    "identity": _identity,
    "projection": _projection,
    "timm": _timm,
    "transformers": _transformers,
}
