"""How is a backbone written down? A name, and the few numbers that the named network reads."""

import json
from typing import Literal, Self

from pydantic import Field, JsonValue, PositiveInt, field_validator, model_validator

from nonneg.backbones import blocks, mlp
from nonneg.backbones.resnet import RESNETS, StemName
from nonneg.settings import Settings

LIBRARIES = ("timm", "transformers")

_USED = {
    "resnet": ("width", "stem", "norm"),
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
