"""Measurements of features: pure functions of features and, where they are needed, labels."""

from nonneg.metrics.activation import ExpectedActivation, expected_activation, select
from nonneg.metrics.activity import (
    ACTIVE_THRESHOLD,
    ActivePerSample,
    Sparsity,
    active_mask,
    active_per_sample,
    alive_features,
    sparsity,
)
from nonneg.metrics.consistency import ClassConsistency, class_consistency, class_entropy
from nonneg.metrics.correlation import feature_correlation
from nonneg.metrics.purity import TopPurity, top_purity
from nonneg.metrics.rank import EffectiveRank, effective_rank
from nonneg.metrics.results import FeatureMeasurement, Measurement
from nonneg.metrics.retrieval import Retrieval, mean_average_precision_at_k, precision_at_k

__all__ = [
    "ACTIVE_THRESHOLD",
    "ActivePerSample",
    "ClassConsistency",
    "EffectiveRank",
    "ExpectedActivation",
    "FeatureMeasurement",
    "Measurement",
    "Retrieval",
    "Sparsity",
    "TopPurity",
    "active_mask",
    "active_per_sample",
    "alive_features",
    "class_consistency",
    "class_entropy",
    "effective_rank",
    "expected_activation",
    "feature_correlation",
    "mean_average_precision_at_k",
    "precision_at_k",
    "select",
    "sparsity",
    "top_purity",
]
