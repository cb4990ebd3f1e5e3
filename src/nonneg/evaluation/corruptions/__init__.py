"""Corrupted images: damaged, sketched or stylised, to test the robustness of features."""

from nonneg.evaluation.corruptions.corrupted import (
    AVERAGED,
    CORRUPTIONS,
    DRAWINGS,
    Corrupted,
    Corruption,
    names,
)
from nonneg.evaluation.corruptions.drawing import sketch, stylised
from nonneg.evaluation.corruptions.pixels import N_SEVERITIES

__all__ = [
    "AVERAGED",
    "CORRUPTIONS",
    "DRAWINGS",
    "N_SEVERITIES",
    "Corrupted",
    "Corruption",
    "names",
    "sketch",
    "stylised",
]
