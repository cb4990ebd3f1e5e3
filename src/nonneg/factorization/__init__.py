"""The laboratory: worlds where everything is known, and what contrastive learning finds there."""

from nonneg.factorization.augmentation_world import (
    ShiftedViews,
    augmentation_world,
    shifted_views,
)
from nonneg.factorization.bayes import bayes_error, bayes_weights, linear_error
from nonneg.factorization.comparison import METHODS, Outcome, held_out_score, outcome
from nonneg.factorization.encoding import observations, train_encoder
from nonneg.factorization.identification import (
    Identification,
    identification_score,
    nearest_known,
    posterior_features,
)
from nonneg.factorization.latent_world import LatentWorld, latent_cross_world
from nonneg.factorization.population import (
    factor_of,
    factorization_error,
    features_of,
    spectral_cross_batch,
    spectral_population_loss,
)
from nonneg.factorization.random_worlds import purity, random_world
from nonneg.factorization.rotation import random_rotation, rotation_path
from nonneg.factorization.sampling import best_table, train_table
from nonneg.factorization.symmetric_nmf import (
    eigen_factor,
    multiplicative_factor,
    projected_factor,
    sklearn_factor,
)
from nonneg.factorization.worlds import CrossWorld, World, graph_world

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
