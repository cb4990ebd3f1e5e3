"""Images as they should not be: damaged, drawn or repainted, to see what features withstand."""

from nonneg.evaluation.corruptions.corrupted import DRAWINGS, Corrupted, names
from nonneg.evaluation.corruptions.drawing import sketch, stylised
from nonneg.evaluation.corruptions.severity import N_SEVERITIES
from nonneg.evaluation.corruptions.table import CORRUPTIONS, Corruption

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
