"""How is a sprite drawn? Coverage of each pixel by a square, an ellipse or a heart, by counting."""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

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
