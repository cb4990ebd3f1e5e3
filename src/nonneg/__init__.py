"""Non-negative contrastive learning: sparse features that a person can read."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from nonneg import metrics
from nonneg.encoder import Encoded, Encoder, EncoderSettings
from nonneg.head.nonnegative import NonNegative
from nonneg.losses import info_nce, spectral_contrastive
from nonneg.training import TrainConfig, train

if TYPE_CHECKING:
    from nonneg import report
    from nonneg.estimators import NCL, CrossNCL, GraphNCL

__version__ = version("nonneg")

__all__ = [
    "NCL",
    "CrossNCL",
    "Encoded",
    "Encoder",
    "EncoderSettings",
    "GraphNCL",
    "NonNegative",
    "TrainConfig",
    "info_nce",
    "metrics",
    "report",
    "spectral_contrastive",
    "train",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Estimators and reports, imported on use: scikit-learn and matplotlib are slow to import."""
    if name == "report":
        return import_module("nonneg.report")
    if name in ("NCL", "CrossNCL", "GraphNCL"):
        from nonneg import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'nonneg' has no attribute {name!r}")
