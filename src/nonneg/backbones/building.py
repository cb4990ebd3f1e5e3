"""Backbones by name: their settings, and one builder for each family of names."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, JsonValue, PositiveInt, field_validator, model_validator
from torch import nn

from nonneg.backbones import resnet as blocks
from nonneg.backbones import simple as mlp
from nonneg.backbones.adapters import TimmBackbone, TransformersBackbone
from nonneg.backbones.resnet import RESNETS, ResNet, StemName
from nonneg.backbones.simple import MLP, Flatten, Frozen, Projection
from nonneg.settings import Settings

LIBRARIES = ("timm", "transformers")

_USED = {
    "resnet": ("width", "stem", "norm", "stages"),
    "mlp": ("hidden", "norm"),
    "identity": (),
    "projection": ("hidden",),
    "timm": ("pretrained", "config"),
    "transformers": ("pretrained", "config"),
}
_NORMS = {"resnet": tuple(blocks.NORMS), "mlp": tuple(mlp.NORMS)}


def names() -> tuple[str, ...]:
    """The names that ``BackboneSettings`` knows; the last two stand for a library's models.

    Example:
        >>> names()[:4]
        ('resnet10', 'resnet18', 'resnet34', 'resnet50')
    """
    own = (*RESNETS, "mlp", "identity", "projection")
    return (*own, *(f"{library}:NAME" for library in LIBRARIES))


class BackboneSettings(Settings):
    """Which network maps a batch to hidden vectors ``(n, h)``.

    A setting that the named network does not read has to keep its default: a value without effect
    is an error.

    Example:
        >>> BackboneSettings(name="resnet10", width=16).stem
        'small'
    """

    name: str = "resnet18"
    """One of ``names()``: a ResNet, ``mlp``, ``identity`` (the samples themselves, flattened),
    ``projection`` (vectors on the axes that ``nonneg.NCL`` found), ``timm:NAME`` or
    ``transformers:NAME`` (a model of the hub, or a folder)."""
    width: PositiveInt = 64
    """ResNets: channels of the first stage; the others have 2, 4 and 8 times as many."""
    stem: StemName = "small"
    """ResNets: ``small`` (3×3) for images up to about 64 pixels, ``strided`` (3×3 of stride 2) for
    the same at a quarter of the work, ``large`` (7×7 of stride 2, and max-pool) for larger ones,
    ``authors`` (3×3, padding 2) for the NCL paper's CIFAR runs."""
    norm: Literal["batch", "group", "layer", "none"] = "batch"
    """ResNets: ``batch`` or ``group``; mlp: ``batch``, ``layer`` or ``none``."""
    stages: int = Field(default=4, ge=1, le=4)
    """ResNets: how many of the four stages there are. With fewer the network ends at an earlier
    layer, and features are of that layer."""
    hidden: tuple[PositiveInt, ...] = Field(default=(512, 512), min_length=1)
    """mlp: the width of each layer; projection: the number of axes."""
    pretrained: bool = False
    """timm, transformers: start from the published weights (from a folder, from those saved in
    it) instead of random ones."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """timm: more arguments of the model, as ``{"img_size": 32}``. transformers: the whole
    configuration of the model, as in its ``config.json``; with it, NAME is not looked up."""

    @property
    def family(self) -> str:
        """What the name belongs to: ``resnet``, a name of its own, or a library."""
        if self.name in RESNETS:
            return "resnet"
        return self.name.partition(":")[0]

    @field_validator("config", mode="before")
    @classmethod
    def _as_json(cls, config: object) -> object:
        # The configs of transformers have whole numbers as keys, which JSON turns into text.
        try:
            return json.loads(json.dumps(config))
        except TypeError as error:
            raise ValueError(f"config has to be a JSON table ({error})") from error

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        library, _, model = self.name.partition(":")
        if self.name not in names()[: -len(LIBRARIES)] and not (library in LIBRARIES and model):
            raise ValueError(f"unknown backbone {self.name!r}; known: {', '.join(names())}")
        return self

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        for key, field in type(self).model_fields.items():
            value, default = getattr(self, key), field.get_default(call_default_factory=True)
            if key != "name" and key not in _USED[self.family] and value != default:
                raise ValueError(
                    f"backbone {self.name!r} does not use {key}, so {value!r} has no effect; "
                    f"leave it at {default!r}"
                )
        if self.family == "projection" and len(self.hidden) != 1:
            raise ValueError(
                f"backbone 'projection' has one number of axes, got hidden={self.hidden}"
            )
        known = _NORMS.get(self.family, (self.norm,))
        if self.norm not in known:
            raise ValueError(
                f"backbone {self.name!r} has no norm {self.norm!r}; known: {', '.join(known)}"
            )
        if self.family == "transformers" and self.pretrained and self.config:
            raise ValueError(
                f"backbone {self.name!r} with pretrained weights takes its config from them; "
                "give config or pretrained, not both"
            )
        return self


# What makes a library look something up although the whole model is described.
_LOOKED_UP = {
    "timm": ("pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "checkpoint_path"),
    "transformers": ("use_pretrained_backbone", "auto_map", "quantization_config"),
}


def check_whole(settings: BackboneSettings | None, folder: Path) -> None:
    """Raise ``ValueError`` for settings of a saved network that would have something else fetched.

    Whoever makes a folder must not choose what is loaded beside it. Settings that were saved with
    an encoder have the whole model.

    Args:
        settings: As read from the folder.
        folder: What the error names.
    """
    if settings is None:
        return
    found = next(
        (key for key in _LOOKED_UP.get(settings.family, ()) if _asks(settings.config, key)), None
    )
    if settings.pretrained:
        found = "pretrained = true"
    elif settings.family == "transformers" and not settings.config:
        found = "a model without its config"
    if found:
        raise ValueError(
            f"the settings in {folder} ask for something outside of it ({found}), which is not "
            "fetched for a saved encoder; copy the folder again, or delete it and train again"
        )


def _asks(config: JsonValue, key: str) -> bool:
    """Whether a table or one inside it has a value for the key that is not off."""
    if isinstance(config, dict):
        return bool(config.get(key)) or any(_asks(value, key) for value in config.values())
    return isinstance(config, list) and any(_asks(value, key) for value in config)


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
        stages=settings.stages,
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
