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
from nonneg.metrics.coherence import (
    WordCoherence,
    npmi_coherence,
    topic_diversity,
    word_embedding_coherence,
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
from nonneg.metrics.monosemanticity import (
    IntruderAccuracy,
    Monosemanticity,
    intruder_accuracy,
    monosemanticity,
)
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
from nonneg.metrics.stability import (
    ClusterAgreement,
    FeatureMatch,
    cluster_agreement,
    match_features,
)

__all__ = [
    "ACTIVE_THRESHOLD",
    "DCI",
    "ActivePerSample",
    "ClassConsistency",
    "ClusterAgreement",
    "EffectiveRank",
    "ExpectedActivation",
    "FactorGap",
    "FactorVote",
    "FeatureMatch",
    "FeatureMeasurement",
    "IntruderAccuracy",
    "LabelLevel",
    "Measurement",
    "Monosemanticity",
    "Retrieval",
    "Sepin",
    "Sparsity",
    "TopPurity",
    "WordCoherence",
    "active_mask",
    "active_per_sample",
    "alive_features",
    "beta_vae_score",
    "class_consistency",
    "class_entropy",
    "cluster_agreement",
    "completeness",
    "dci",
    "disentanglement",
    "effective_rank",
    "expected_activation",
    "factor_vae_score",
    "feature_correlation",
    "intruder_accuracy",
    "label_level",
    "match_features",
    "mean_average_precision_at_k",
    "mig",
    "monosemanticity",
    "npmi_coherence",
    "precision_and_map_at_k",
    "precision_at_k",
    "sap",
    "select",
    "sepin",
    "sparsity",
    "top_purity",
    "topic_diversity",
    "word_embedding_coherence",
]
