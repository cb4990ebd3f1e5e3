"""Which corruptions are there? Eleven, each at five severities, under their usual names."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from torch import Tensor

from nonneg.evaluation.corruptions.blur import defocus_blur, motion_blur
from nonneg.evaluation.corruptions.digital import jpeg, pixelate
from nonneg.evaluation.corruptions.elastic import elastic
from nonneg.evaluation.corruptions.light import brightness, contrast, fog
from nonneg.evaluation.corruptions.noise import gaussian_noise, impulse_noise, shot_noise
from nonneg.pairs import Draws


class Corruption(Protocol):
    """Damage to images that keeps their shape and type; the given images are not changed."""

    def __call__(self, images: Tensor, *, severity: int, draws: Draws) -> Tensor:
        """Damaged images ``(n, c, h, w)``, each depending on itself and its own draws alone."""
        ...


CORRUPTIONS: Mapping[str, Corruption] = MappingProxyType(
    {
        "gaussian_noise": gaussian_noise,
        "shot_noise": shot_noise,
        "impulse_noise": impulse_noise,
        "defocus_blur": defocus_blur,
        "motion_blur": motion_blur,
        "contrast": contrast,
        "brightness": brightness,
        "fog": fog,
        "pixelate": pixelate,
        "jpeg": jpeg,
        "elastic": elastic,
    }
)
