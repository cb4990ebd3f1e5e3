"""What is minimised: each loss in its plain form, one a file."""

from nonneg.losses.distributed import gathered
from nonneg.losses.info_nce import info_nce, info_nce_bounds
from nonneg.losses.spectral import spectral_contrastive

__all__ = ["gathered", "info_nce", "info_nce_bounds", "spectral_contrastive"]
