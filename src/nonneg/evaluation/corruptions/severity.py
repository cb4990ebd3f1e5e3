"""How strong is a corruption? Five severities, and how their sizes go with the size of an image.

The published parameters (Hendrycks and Dietterich 2019) were set for images of 224 and of 32
pixels. Between the two, blur and distortion are about the same share of the side; noise, blocks
and compression grow about with its square root. Each table here follows one of these two rules.
"""

import math

from torch import Tensor

N_SEVERITIES = 5
_SMALL_SIDE = 32


def check_severity(severity: int) -> None:
    """Raise ``ValueError`` unless this is a whole number from 1 to 5."""
    if not isinstance(severity, int) or not 1 <= severity <= N_SEVERITIES:
        raise ValueError(
            f"severity must be a whole number from 1 to {N_SEVERITIES}, got {severity!r}"
        )


def at_severity(table: tuple[float, float, float, float, float], severity: int) -> float:
    """The entry of a table for a severity; the first is that of severity 1.

    Example:
        >>> at_severity((0.1, 0.2, 0.3, 0.4, 0.5), 2)
        0.2
    """
    check_severity(severity)
    return table[severity - 1]


def short_side(images: Tensor) -> int:
    """The smaller of height and width of images ``(n, c, h, w)``."""
    return min(images.shape[2:])


def fine_scale(images: Tensor) -> float:
    """How much stronger fine-grained damage is than at 32 pixels: the root of the side's ratio.

    A larger image shows its content with more pixels, so that each may be damaged more. Images
    below 32 pixels get the tables as they are.

    Example:
        >>> import torch
        >>> fine_scale(torch.zeros(1, 3, 128, 128)), fine_scale(torch.zeros(1, 1, 8, 8))
        (2.0, 1.0)
    """
    return math.sqrt(max(1.0, short_side(images) / _SMALL_SIDE))
