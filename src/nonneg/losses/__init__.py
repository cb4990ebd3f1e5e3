"""What is minimised: each loss in its plain form, one a file, and fast kernels beside it."""

from nonneg.losses.across import info_nce_across, spectral_contrastive_across
from nonneg.losses.cross_entropy import NonNegativeClassifier, non_negative_cross_entropy
from nonneg.losses.distributed import gathered
from nonneg.losses.info_nce import info_nce, info_nce_bounds
from nonneg.losses.spectral import spectral_contrastive

__all__ = [
    "NonNegativeClassifier",
    "gathered",
    "info_nce",
    "info_nce_across",
    "info_nce_bounds",
    "non_negative_cross_entropy",
    "spectral_contrastive",
    "spectral_contrastive_across",
]
