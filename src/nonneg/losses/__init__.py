"""The losses: the textbook form of each, and the fast kernel of InfoNCE beside it."""

from nonneg.losses.cross_entropy import NonNegativeClassifier, non_negative_cross_entropy
from nonneg.losses.distributed import gathered, info_nce_across, spectral_contrastive_across
from nonneg.losses.info_nce import decoupled_contrastive, info_nce, info_nce_bounds, info_nce_queue
from nonneg.losses.redundancy import barlow_twins, vicreg
from nonneg.losses.sigmoid import pairwise_sigmoid
from nonneg.losses.soft_targets import cosine_weights, group_weights, soft_info_nce
from nonneg.losses.spectral import spectral_contrastive

__all__ = [
    "NonNegativeClassifier",
    "barlow_twins",
    "cosine_weights",
    "decoupled_contrastive",
    "gathered",
    "group_weights",
    "info_nce",
    "info_nce_across",
    "info_nce_bounds",
    "info_nce_queue",
    "non_negative_cross_entropy",
    "pairwise_sigmoid",
    "soft_info_nce",
    "spectral_contrastive",
    "spectral_contrastive_across",
    "vicreg",
]
