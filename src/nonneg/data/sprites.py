"""Sprites: images whose five causes are known, every combination once, as in dSprites.

The order of the 737,280 images is dSprites' (Matthey et al. 2017); edges are smooth, and the 40
orientations are spread over the full turn without its end, which dSprites repeats.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod

import torch
from torch import Tensor

from nonneg.data.dataset import ArrayData, of_split, permutation

PATCH = 33  # pixels a side; a sprite turns about the middle of its patch and never leaves it
SCALES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
N_TURNS = 40

_SAMPLES = 8  # a pixel is looked at in 8 x 8 places
_SQUARE_SIDE = 22.0
_ELLIPSE_RADII = (15.5, 7.75)
_HEART_SIDE = 17.0

# From the tip of a heart of side 1 to its centre of mass, along each side of its square: the
# square and the two half discs, each with its own centre, weighted by their areas.
_HEART_CENTRE = (7 / 12 + 3 * math.pi / 16) / (1 + math.pi / 4)


def _in_square(x: Tensor, y: Tensor) -> Tensor:
    return (x.abs() < _SQUARE_SIDE / 2) & (y.abs() < _SQUARE_SIDE / 2)


def _in_ellipse(x: Tensor, y: Tensor) -> Tensor:
    across, up = _ELLIPSE_RADII
    return (x / across) ** 2 + (y / up) ** 2 < 1


def _in_heart(x: Tensor, y: Tensor) -> Tensor:
    """A square that stands on its tip, with half a disc on each of its upper sides."""
    root = math.sqrt(0.5)
    u = (y + x) * root / _HEART_SIDE + _HEART_CENTRE  # (u, v) runs along the sides from the tip
    v = (y - x) * root / _HEART_SIDE + _HEART_CENTRE
    in_square = (u > 0) & (u < 1) & (v > 0) & (v < 1)
    in_left = (u - 0.5) ** 2 + (v - 1) ** 2 < 0.25
    in_right = (u - 1) ** 2 + (v - 0.5) ** 2 < 0.25
    return in_square | in_left | in_right


# The inside of each shape at scale 1, upright, with y upwards and its centre of mass at 0; and
# after how many of the 40 turns it looks the same again.
SHAPES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], int]] = {
    "square": (_in_square, 10),
    "ellipse": (_in_ellipse, 20),
    "heart": (_in_heart, 40),
}


@cache
def patches() -> Tensor:
    """Every shape at every scale and turn, ``uint8 (3 * 6 * 40, 33 * 33)``, drawn once.

    Row ``(shape * 6 + scale) * 40 + orientation`` holds the share of each pixel that lies inside,
    times 255. Orientation k is k times 9 degrees counter-clockwise.
    """
    drawn = [
        _all_turns(inside, scale, period) for inside, period in SHAPES.values() for scale in SCALES
    ]
    return torch.cat(drawn).mul(255).round().byte()


def _all_turns(inside: Callable[[Tensor, Tensor], Tensor], scale: float, period: int) -> Tensor:
    """One shape at one scale, ``(40, 33 * 33)`` in [0, 1]; equal-looking turns are equal."""
    angles = torch.arange(period)[:, None, None] * (2 * math.pi / N_TURNS)
    cos, sin = angles.cos() / scale, angles.sin() / scale
    places = (torch.arange(PATCH * _SAMPLES) + 0.5) / _SAMPLES - PATCH / 2
    x, y = places, -places[:, None]
    is_inside = inside(x * cos + y * sin, y * cos - x * sin)  # (period, 33 * 8, 33 * 8)
    pixels = is_inside.view(period, PATCH, _SAMPLES, PATCH, _SAMPLES).float().mean(dim=(2, 4))
    return pixels.flatten(1).repeat(N_TURNS // period, 1)


FACTOR_NAMES = ("shape", "scale", "orientation", "posX", "posY")
FACTOR_SIZES = (len(SHAPES), len(SCALES), N_TURNS, 32, 32)
N_SPRITES = prod(FACTOR_SIZES)

_SIDE = 64
_DRAWN_AT_ONCE = 4096  # drawing an image takes about 10 kB beside the image
_VALUE_NAMES = {
    "shape": tuple(SHAPES),
    "scale": tuple(str(scale) for scale in SCALES),
    "orientation": tuple(f"{turn * 360 // N_TURNS}°" for turn in range(N_TURNS)),
    "posX": tuple(str(step) for step in range(32)),
    "posY": tuple(str(step) for step in range(32)),
}


def sprite_factors(numbers: Tensor) -> Tensor:
    """The factors of sprites 0 to 737,279, int64 ``(n, 5)``; the last factor changes fastest.

    Example:
        >>> sprite_factors(torch.tensor([0, 33, 737279])).tolist()
        [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [2, 5, 39, 31, 31]]
    """
    return torch.stack(torch.unravel_index(numbers, FACTOR_SIZES), dim=1)


def sprite_numbers(factors: Tensor) -> Tensor:
    """The numbers of the sprites with these factors ``(n, 5)``, int64 ``(n,)``.

    Example:
        >>> sprite_numbers(torch.tensor([[0, 0, 0, 1, 1]]))
        tensor([33])
    """
    sizes = torch.tensor(FACTOR_SIZES)
    if factors.ndim != 2 or factors.shape[1] != 5 or ((factors < 0) | (factors >= sizes)).any():
        raise ValueError(f"sprite factors must be (n, 5) and lie below {FACTOR_SIZES}")
    steps = torch.tensor([prod(FACTOR_SIZES[i + 1 :]) for i in range(5)])
    return (factors.long() * steps).sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class SpriteArray(ArrayData):
    """Sprites that are drawn already, with their factors int64 ``(n, 5)``."""

    factors: Tensor
    factor_names: tuple[str, ...] = FACTOR_NAMES
    factor_sizes: tuple[int, ...] = FACTOR_SIZES


class Sprites:
    """White squares, ellipses and hearts on black, ``uint8 (n, 1, 64, 64)``, drawn when fetched.

    Position step (i, j) puts the centre of mass in the middle of pixel column 16 + i and row
    16 + j, from the left and the top; no sprite touches the border. Orientation k is k times 9
    degrees counter-clockwise, so a square repeats after 10 steps and an ellipse after 20.

    Args:
        indices: Numbers of sprites, int64 ``(n,)``; None means all 737,280.
        label: The factor that serves as label.

    Example:
        >>> sprites = Sprites(torch.tensor([0, 737279]), label="shape")
        >>> sprites.labels, sprites.fetch(torch.tensor([1])).shape
        (tensor([0, 2]), torch.Size([1, 1, 64, 64]))
    """

    name = "sprites"
    factor_names = FACTOR_NAMES
    factor_sizes = FACTOR_SIZES
    sample_shape = (1, _SIDE, _SIDE)

    def __init__(self, indices: Tensor | None = None, *, label: str = "shape") -> None:
        if label not in FACTOR_NAMES:
            raise ValueError(f"unknown factor {label!r}; known: {', '.join(FACTOR_NAMES)}")
        self.indices = torch.arange(N_SPRITES) if indices is None else indices
        self.label = label
        if self.indices.ndim != 1 or self.indices.dtype != torch.int64:
            raise ValueError(
                f"sprite numbers must be int64 (n,), got {self.indices.dtype}"
                f" {tuple(self.indices.shape)}"
            )
        if ((self.indices < 0) | (self.indices >= N_SPRITES)).any():
            raise ValueError(
                f"sprite numbers go from 0 to {N_SPRITES - 1}, got"
                f" {int(self.indices.min())} to {int(self.indices.max())}"
            )

    @property
    def factors(self) -> Tensor:
        """What made each image: shape, scale, orientation, posX, posY, int64 ``(n, 5)``."""
        return sprite_factors(self.indices)

    @cached_property
    def labels(self) -> Tensor:
        """The chosen factor, int64 ``(n,)``."""
        return self.factors[:, FACTOR_NAMES.index(self.label)].clone()

    @property
    def class_names(self) -> tuple[str, ...]:
        """The values of the chosen factor."""
        return _VALUE_NAMES[self.label]

    def __len__(self) -> int:
        return len(self.indices)

    def fetch(self, indices: Tensor) -> Tensor:
        """The images of these samples, ``uint8 (len(indices), 1, 64, 64)``."""
        numbers = self.indices[indices]
        n_places = 32 * 32
        column, row = numbers % n_places // 32, numbers % 32
        corner = row * _SIDE + column  # a step is a pixel, so that a patch only has to be moved
        steps = torch.arange(PATCH)
        within = (steps[:, None] * _SIDE + steps).flatten()
        images = torch.zeros(len(numbers), _SIDE * _SIDE, dtype=torch.uint8)
        images.scatter_(1, corner[:, None] + within, patches()[numbers // n_places])
        return images.view(-1, *self.sample_shape)

    def take(self, indices: Tensor) -> "Sprites":
        """The sprites of these samples."""
        return Sprites(self.indices[indices], label=self.label)

    def cached(self) -> SpriteArray:
        """The same data, all drawn: 4 kB per image."""
        images = torch.empty(len(self), *self.sample_shape, dtype=torch.uint8)
        for start in range(0, len(self), _DRAWN_AT_ONCE):
            stop = min(start + _DRAWN_AT_ONCE, len(self))
            images[start:stop] = self.fetch(torch.arange(start, stop))
        return SpriteArray(
            images,
            labels=self.labels,
            name=self.name,
            class_names=self.class_names,
            factors=self.factors,
        )


def sprite_split(split: str = "train") -> SpriteArray:
    """20,000 random sprites to train and 5,000 others to test, always the same, labels = shape."""
    part = of_split({"train": slice(20_000), "test": slice(20_000, 25_000)}, split)
    return Sprites(permutation(N_SPRITES, seed=0)[part]).cached()
