"""What is minimised: each loss in its plain form, one a file, and fast kernels beside it."""

from nonneg.losses.across import info_nce_across, spectral_contrastive_across
from nonneg.losses.barlow import barlow_twins
from nonneg.losses.cross_entropy import NonNegativeClassifier, non_negative_cross_entropy
from nonneg.losses.decoupled import decoupled_contrastive
from nonneg.losses.distributed import gathered
from nonneg.losses.info_nce import info_nce, info_nce_bounds
from nonneg.losses.queue import info_nce_queue
from nonneg.losses.sigmoid import pairwise_sigmoid
from nonneg.losses.spectral import spectral_contrastive
from nonneg.losses.vicreg import vicreg

__all__ = [
    "NonNegativeClassifier",
    "barlow_twins",
    "decoupled_contrastive",
    "gathered",
    "info_nce",
    "info_nce_across",
    "info_nce_bounds",
    "info_nce_queue",
    "non_negative_cross_entropy",
    "pairwise_sigmoid",
    "spectral_contrastive",
    "spectral_contrastive_across",
    "vicreg",
]
