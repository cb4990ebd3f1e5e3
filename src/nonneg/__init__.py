"""Non-negative contrastive learning: sparse features that a person can read."""

from nonneg import metrics
from nonneg.encoder import Encoded, Encoder, EncoderSettings
from nonneg.losses import info_nce, spectral_contrastive
from nonneg.nonnegative import NonNegative
from nonneg.training import TrainConfig, train

__all__ = [
    "Encoded",
    "Encoder",
    "EncoderSettings",
    "NonNegative",
    "TrainConfig",
    "info_nce",
    "metrics",
    "spectral_contrastive",
    "train",
]
