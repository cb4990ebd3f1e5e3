"""What does the theory look like in numbers? One small experiment a function, one seed a call."""

from dataclasses import dataclass

import numpy as np

from nonneg.factorization.checking import FloatArray
from nonneg.factorization.identification import (
    identification_score,
    nearest_known,
    posterior_features,
)
from nonneg.factorization.population import (
    factorization_error,
    features_of,
    rotation_path,
    spectral_population_loss,
)
from nonneg.factorization.solvers import eigen_factor, projected_factor
from nonneg.factorization.worlds import purity, random_world
from nonneg.metrics import class_consistency

N_SAMPLES = 60
N_CLASSES = 5
DEGREES = np.arange(0.0, 91.0, 10.0)


@dataclass(frozen=True, eq=False)
class ExampleStudy:
    """One overlapping world with anchors, samples sorted by their likeliest class.

    Args:
        normalized: Ā ``(n, n)``.
        phi: The posterior features ``(n, m)``.
        features: CL's and NCL's optimum ``(n, m)``, columns in the order of their classes.
        error: ``||Ā - F Fᵀ||²`` of each.
        cosine: Matched cosine of each with φ.
    """

    normalized: FloatArray
    phi: FloatArray
    features: dict[str, FloatArray]
    error: dict[str, float]
    cosine: dict[str, float]


def example_study(seed: int) -> ExampleStudy:
    """CL's and NCL's optimum beside the posterior features that both should reproduce."""
    rng = np.random.default_rng(seed)
    world = random_world(N_SAMPLES, N_CLASSES, rng, concentration=0.3)
    phi = posterior_features(world)
    normalized = np.asarray(world.normalized)
    order = np.lexsort((-phi.max(axis=1), phi.argmax(axis=1)))
    features = {
        "CL": features_of(eigen_factor(normalized, N_CLASSES), world),
        "NCL": features_of(projected_factor(normalized, N_CLASSES, rng), world),
    }
    scores = {name: identification_score(f, phi) for name, f in features.items()}
    return ExampleStudy(
        normalized=normalized[np.ix_(order, order)],
        phi=phi[order],
        features={name: f[np.ix_(order, scores[name].partner)] for name, f in features.items()},
        error={name: factorization_error(f, world) for name, f in features.items()},
        cosine={name: score.value for name, score in scores.items()},
    )


@dataclass(frozen=True, eq=False)
class RotationStudy:
    """Losses and readability of rotated features, each ``(len(DEGREES),)``.

    Args:
        signed_loss: Of the rotated posterior features.
        rectified_loss: Of the same with negative entries set to zero.
        signed_consistency: Class consistency of the rotated features.
        lowest: The loss that no features can beat, ``-||Ā||²``.
    """

    signed_loss: FloatArray
    rectified_loss: FloatArray
    signed_consistency: FloatArray
    lowest: float


def rotation_study(seed: int) -> RotationStudy:
    """Posterior features of a world without overlap, turned further and further."""
    rng = np.random.default_rng(seed)
    world = random_world(N_SAMPLES, N_CLASSES, rng, concentration=0)
    phi = posterior_features(world)
    classes = phi.argmax(axis=1)
    rotated = [phi @ rotation for rotation in rotation_path(N_CLASSES, rng, DEGREES)]
    return RotationStudy(
        signed_loss=np.array([spectral_population_loss(f, world) for f in rotated]),
        rectified_loss=np.array(
            [spectral_population_loss(np.maximum(f, 0), world) for f in rotated]
        ),
        signed_consistency=np.array([float(class_consistency(f, classes)) for f in rotated]),
        lowest=-float(np.square(np.asarray(world.normalized)).sum()),
    )


@dataclass(frozen=True)
class AnchorStudy:
    """What is identified in a world with given anchors.

    Args:
        purity: :func:`purity` of the world; 1 with anchors.
        cosine: Matched cosine of each method with the posterior features.
        correlation: The correlation of the same pairs.
        error: ``||Ā - F Fᵀ||²`` of each method.
    """

    purity: float
    cosine: dict[str, float]
    correlation: dict[str, float]
    error: dict[str, float]


def anchor_study(blur: float, seed: int) -> AnchorStudy:
    """NCL's and CL's optimum, and random features, in an overlapping world that is blurred.

    Args:
        blur: See :func:`random_world`; 0 leaves every class its anchor.
        seed: Of the world and of the start.
    """
    rng = np.random.default_rng(seed)
    world = random_world(N_SAMPLES, N_CLASSES, rng, concentration=0.5, blur=blur)
    phi = posterior_features(world)
    normalized = world.normalized
    features = {
        "NCL": features_of(projected_factor(normalized, N_CLASSES, rng), world),
        "CL": features_of(eigen_factor(normalized, N_CLASSES), world),
        "random": rng.random(phi.shape),
    }
    scores = {name: identification_score(f, phi) for name, f in features.items()}
    return AnchorStudy(
        purity=purity(world),
        cosine={name: score.value for name, score in scores.items()},
        correlation={name: score.correlation for name, score in scores.items()},
        error={name: factorization_error(f, world) for name, f in features.items()},
    )


@dataclass(frozen=True)
class WidthStudy:
    """What is identified with a given number of features.

    Args:
        cosine: Matched cosine over the classes; a class without a feature counts 0.
        nearest: Mean over features of the cosine with the nearest class.
        error: ``||Ā - F Fᵀ||²``.
        n_alive: Features that are on for at least one sample.
    """

    cosine: float
    nearest: float
    error: float
    n_alive: int


def width_study(n_features: int, seed: int) -> WidthStudy:
    """NCL's optimum in an overlapping world with anchors, for any number of features."""
    rng = np.random.default_rng(seed)
    world = random_world(N_SAMPLES, N_CLASSES, rng, concentration=0.5)
    phi = posterior_features(world)
    features = features_of(projected_factor(world.normalized, n_features, rng), world)
    score = identification_score(features, phi)
    return WidthStudy(
        cosine=score.value,
        nearest=float(nearest_known(features, phi).mean()),
        error=factorization_error(features, world),
        n_alive=score.n_alive,
    )


def start_study(seed: int, *, n_starts: int = 3) -> tuple[float, float]:
    """What NCL's optimum costs to find in a world without overlap: one start, and several.

    Args:
        seed: Of the world and the starts.
        n_starts: Of which the one with the lowest error is taken.

    Returns:
        The matched cosine of the first start and of the best one.
    """
    rng = np.random.default_rng(seed)
    world = random_world(N_SAMPLES, N_CLASSES, rng, concentration=0)
    phi = posterior_features(world)
    starts = [
        features_of(projected_factor(world.normalized, N_CLASSES, rng), world)
        for _ in range(n_starts)
    ]
    best = min(starts, key=lambda features: factorization_error(features, world))
    return identification_score(starts[0], phi).value, identification_score(best, phi).value
