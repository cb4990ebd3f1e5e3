"""Non-negative contrastive learning: sparse features that a person can read.

Names are imported on use, so that asking for help or for one part does not load all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nonneg import data, evaluation, metrics, pairs, report, runs, texts
    from nonneg.encoder import Encoded, Encoder, EncoderSettings
    from nonneg.estimators.cross import CrossNCL
    from nonneg.estimators.graph import GraphNCL
    from nonneg.estimators.ncl import NCL
    from nonneg.head.nonnegative import NonNegative
    from nonneg.losses import info_nce, spectral_contrastive
    from nonneg.search.sparse_index import SparseIndex
    from nonneg.training.contrastive import train
    from nonneg.training.settings import TrainConfig

__version__: str

# The module that defines each public name; None for a package.
_PLACES = {
    "NCL": "nonneg.estimators.ncl",
    "CrossNCL": "nonneg.estimators.cross",
    "Encoded": "nonneg.encoder",
    "Encoder": "nonneg.encoder",
    "EncoderSettings": "nonneg.encoder",
    "GraphNCL": "nonneg.estimators.graph",
    "NonNegative": "nonneg.head.nonnegative",
    "SparseIndex": "nonneg.search.sparse_index",
    "TrainConfig": "nonneg.training.settings",
    "data": None,
    "evaluation": None,
    "info_nce": "nonneg.losses",
    "metrics": None,
    "pairs": None,
    "report": None,
    "runs": None,
    "spectral_contrastive": "nonneg.losses",
    "texts": None,
    "train": "nonneg.training.contrastive",
}

__all__ = [
    "NCL",
    "CrossNCL",
    "Encoded",
    "Encoder",
    "EncoderSettings",
    "GraphNCL",
    "NonNegative",
    "SparseIndex",
    "TrainConfig",
    "data",
    "evaluation",
    "info_nce",
    "metrics",
    "pairs",
    "report",
    "runs",
    "spectral_contrastive",
    "texts",
    "train",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """A public name, imported the first time it is asked for."""
    if name == "__version__":
        from importlib.metadata import version  # its imports take longer than all else here

        return version("nonneg")
    if name not in _PLACES:
        raise AttributeError(f"module 'nonneg' has no attribute {name!r}")
    place = _PLACES[name]
    value = (
        import_module(f"nonneg.{name}") if place is None else getattr(import_module(place), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
