"""Contrastive learning as matrix factorisation, in worlds where everything is known."""

from nonneg.factorization.augmentation_world import (
    ShiftedViews,
    augmentation_world,
    shifted_views,
)
from nonneg.factorization.comparison import METHODS, Outcome, held_out_score, outcome
from nonneg.factorization.identification import (
    Identification,
    bayes_error,
    bayes_weights,
    identification_score,
    linear_error,
    nearest_known,
    posterior_features,
)
from nonneg.factorization.population import (
    factor_of,
    factorization_error,
    features_of,
    random_rotation,
    rotation_path,
    spectral_cross_batch,
    spectral_population_loss,
)
from nonneg.factorization.solvers import (
    best_table,
    eigen_factor,
    multiplicative_factor,
    observations,
    projected_factor,
    sklearn_factor,
    train_encoder,
    train_table,
)
from nonneg.factorization.worlds import (
    CrossWorld,
    LatentWorld,
    World,
    graph_world,
    latent_cross_world,
    purity,
    random_world,
)

__all__ = [
    "METHODS",
    "CrossWorld",
    "Identification",
    "LatentWorld",
    "Outcome",
    "ShiftedViews",
    "World",
    "augmentation_world",
    "bayes_error",
    "bayes_weights",
    "best_table",
    "eigen_factor",
    "factor_of",
    "factorization_error",
    "features_of",
    "graph_world",
    "held_out_score",
    "identification_score",
    "latent_cross_world",
    "linear_error",
    "multiplicative_factor",
    "nearest_known",
    "observations",
    "outcome",
    "posterior_features",
    "projected_factor",
    "purity",
    "random_rotation",
    "random_world",
    "rotation_path",
    "shifted_views",
    "sklearn_factor",
    "spectral_cross_batch",
    "spectral_population_loss",
    "train_encoder",
    "train_table",
]
