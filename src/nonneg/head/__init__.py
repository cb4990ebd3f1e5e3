"""The last layer and all that is done to it: projector, transform, gate, re-initialisation."""

from nonneg.head.nonnegative import TRANSFORMS, NonNegative

__all__ = ["TRANSFORMS", "NonNegative"]
