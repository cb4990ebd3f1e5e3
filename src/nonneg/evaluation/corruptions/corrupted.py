"""Corrupted data sets: each image when it is fetched, always the same way."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor

from nonneg.data.dataset import Data
from nonneg.evaluation.corruptions.drawing import sketch, stylised
from nonneg.evaluation.corruptions.kinds import (
    brightness,
    contrast,
    defocus_blur,
    elastic,
    fog,
    gaussian_noise,
    impulse_noise,
    jpeg,
    motion_blur,
    pixelate,
    shot_noise,
)
from nonneg.evaluation.corruptions.pixels import check_severity
from nonneg.pairs.protocol import Draws
from nonneg.settings import nearest


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

# What the figure ``robust_corruption`` is the mean over. A corruption that is added to the table
# above is measured too, but stays out of this list: published means would no longer compare.
AVERAGED = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "motion_blur",
    "contrast",
    "brightness",
    "fog",
    "pixelate",
    "jpeg",
    "elastic",
)

# Besides those of ``CORRUPTIONS``; they have no severity.
DRAWINGS = ("sketch", "stylised")

_MOST_NUMBERS = 2**19  # in the images worked on at once: what a processor's cache holds
_USUAL_SEVERITY = 3


class Corrupted:
    """Images of a data set, damaged or redrawn; labels and all else stay as they are.

    What happens to a sample depends on its number and on the seed, not on the batch. A part of this
    data (``subset``) therefore has the images of the whole, while corrupting a part numbers its
    samples from 0.

    Args:
        data: Images ``(c, h, w)`` with 1 or 3 channels.
        corruption: A name of ``CORRUPTIONS``, or ``"sketch"`` or ``"stylised"``.
        severity: 1 to 5, or None for 3; a sketch or stylised image has none.
        seed: Of all that is random; another seed gives other noise, clouds or textures.

    Example:
        >>> from nonneg.data import digits
        >>> foggy = Corrupted(digits(), "fog", severity=2)
        >>> foggy.name, foggy.fetch(torch.arange(4)).shape
        ('digits, fog 2', torch.Size([4, 1, 8, 8]))
    """

    def __init__(
        self, data: Data, corruption: str, *, severity: int | None = None, seed: int = 0
    ) -> None:
        if corruption not in CORRUPTIONS and corruption not in DRAWINGS:
            raise ValueError(f"unknown corruption {corruption!r}; {nearest(corruption, names())}")
        shape = data.sample_shape
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise ValueError(
                f"{data.name} has samples of shape {shape}; only images (c, h, w) with 1 or 3"
                " channels can be corrupted"
            )
        if corruption in DRAWINGS and severity is not None:
            raise ValueError(f"{corruption} has one strength; leave out severity {severity}")
        if corruption in CORRUPTIONS:
            severity = _USUAL_SEVERITY if severity is None else severity
            check_severity(severity)
        Draws(seed, 0, torch.arange(0))  # refuses a seed that no draw could take
        self.data = data
        self.corruption = corruption
        self.severity = severity
        self.seed = seed

    @property
    def name(self) -> str:
        """The name of the data, the corruption, and the severity where there is one."""
        strength = "" if self.severity is None else f" {self.severity}"
        return f"{self.data.name}, {self.corruption}{strength}"

    @property
    def labels(self) -> Tensor | None:
        """Class numbers, int64 ``(n,)``, or None."""
        return self.data.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        """The class names of the data."""
        return self.data.class_names

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """``(c, h, w)``."""
        return self.data.sample_shape

    def __len__(self) -> int:
        return len(self.data)

    def fetch(self, indices: Tensor) -> Tensor:
        """The corrupted images with these numbers, of the type that the data has."""
        step = max(1, _MOST_NUMBERS // max(1, math.prod(self.sample_shape)))
        parts = [self._corrupted(part) for part in indices.split(step)]
        return torch.cat(parts)

    def _corrupted(self, indices: Tensor) -> Tensor:
        images, draws = self.data.fetch(indices), Draws(self.seed, 0, indices)
        if self.corruption == "sketch":
            return sketch(images)
        if self.severity is None:
            return stylised(images, draws=draws)
        return CORRUPTIONS[self.corruption](images, severity=self.severity, draws=draws)


def names() -> tuple[str, ...]:
    """All that ``Corrupted`` can make, those of ``CORRUPTIONS`` first."""
    return (*CORRUPTIONS, *DRAWINGS)
