"""Images as they should not be: damaged, drawn or repainted, to see what features withstand."""

from nonneg.evaluation.corruptions.corrupted import (
    CORRUPTIONS,
    DRAWINGS,
    Corrupted,
    Corruption,
    names,
)
from nonneg.evaluation.corruptions.drawing import sketch, stylised
from nonneg.evaluation.corruptions.pixels import N_SEVERITIES

__all__ = [
    "CORRUPTIONS",
    "DRAWINGS",
    "N_SEVERITIES",
    "Corrupted",
    "Corruption",
    "names",
    "sketch",
    "stylised",
]
