"""Measurements of features: pure functions of features and, where they are needed, labels."""

from nonneg.metrics.activity import (
    ACTIVE_THRESHOLD,
    ActivePerSample,
    ExpectedActivation,
    Sparsity,
    active_mask,
    active_per_sample,
    alive_features,
    expected_activation,
    select,
    sparsity,
)
from nonneg.metrics.consistency import (
    ClassConsistency,
    LabelLevel,
    class_consistency,
    class_entropy,
    label_level,
)
from nonneg.metrics.correlation import feature_correlation
from nonneg.metrics.dci import DCI, completeness, dci, disentanglement
from nonneg.metrics.factors import FactorGap, FactorVote, beta_vae_score, factor_vae_score, mig, sap
from nonneg.metrics.monosemanticity import Monosemanticity, monosemanticity
from nonneg.metrics.purity import TopPurity, top_purity
from nonneg.metrics.rank import EffectiveRank, effective_rank
from nonneg.metrics.results import FeatureMeasurement, Measurement
from nonneg.metrics.retrieval import (
    Retrieval,
    mean_average_precision_at_k,
    precision_and_map_at_k,
    precision_at_k,
)
from nonneg.metrics.sepin import Sepin, sepin
from nonneg.metrics.stability import FeatureMatch, match_features

__all__ = [
    "ACTIVE_THRESHOLD",
    "DCI",
    "ActivePerSample",
    "ClassConsistency",
    "EffectiveRank",
    "ExpectedActivation",
    "FactorGap",
    "FactorVote",
    "FeatureMatch",
    "FeatureMeasurement",
    "LabelLevel",
    "Measurement",
    "Monosemanticity",
    "Retrieval",
    "Sepin",
    "Sparsity",
    "TopPurity",
    "active_mask",
    "active_per_sample",
    "alive_features",
    "beta_vae_score",
    "class_consistency",
    "class_entropy",
    "completeness",
    "dci",
    "disentanglement",
    "effective_rank",
    "expected_activation",
    "factor_vae_score",
    "feature_correlation",
    "label_level",
    "match_features",
    "mean_average_precision_at_k",
    "mig",
    "monosemanticity",
    "precision_and_map_at_k",
    "precision_at_k",
    "sap",
    "select",
    "sepin",
    "sparsity",
    "top_purity",
]
