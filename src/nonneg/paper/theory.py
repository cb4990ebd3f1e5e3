"""The theory in numbers: every study of small worlds, over several seeds."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from nonneg.data.sources import load
from nonneg.factorization.augmentation_world import augmentation_world, shifted_views
from nonneg.factorization.checking import FloatArray
from nonneg.factorization.comparison import METHODS, Outcome, held_out_score, outcome
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
from nonneg.metrics.consistency import class_consistency
from nonneg.metrics.purity import top_purity

N_STUDY_SAMPLES = 60
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
    world = random_world(N_STUDY_SAMPLES, N_CLASSES, rng, concentration=0.3)
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
    """Posterior features of a world without overlap, rotated by growing angles."""
    rng = np.random.default_rng(seed)
    world = random_world(N_STUDY_SAMPLES, N_CLASSES, rng, concentration=0)
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
    world = random_world(N_STUDY_SAMPLES, N_CLASSES, rng, concentration=0.5, blur=blur)
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
    world = random_world(N_STUDY_SAMPLES, N_CLASSES, rng, concentration=0.5)
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
    world = random_world(N_STUDY_SAMPLES, N_CLASSES, rng, concentration=0)
    phi = posterior_features(world)
    starts = [
        features_of(projected_factor(world.normalized, N_CLASSES, rng), world)
        for _ in range(n_starts)
    ]
    best = min(starts, key=lambda features: factorization_error(features, world))
    return identification_score(starts[0], phi).value, identification_score(best, phi).value


@dataclass(frozen=True)
class DigitsStudy:
    """The views of real digits, factorised with few features.

    Args:
        n_views: Distinct views.
        n_entries: Pairs of views that can occur.
        error: ``||Ā - F Fᵀ||²`` of each method.
        purity: :func:`top_purity` of each method, top 20 views, by the commonest digit of a view.
        n_measured: Features of each method with at least 20 active views.
    """

    n_views: int
    n_entries: int
    error: dict[str, float]
    purity: dict[str, float]
    n_measured: dict[str, int]


def digits_study(seed: int, *, n_features: int = 40) -> DigitsStudy:
    """CL's and NCL's optimum for the shifted views of scikit-learn's digits.

    Args:
        seed: Of the start.
        n_features: Columns; far fewer than images.
    """
    digits = load("digits", split="train")
    assert digits.labels is not None
    pixels = digits.fetch(torch.arange(len(digits)))[:, 0].numpy() / 255
    views = shifted_views(pixels)
    world = augmentation_world(views.numbers)
    labels = views.label_rates(digits.labels.numpy()).argmax(axis=1)
    rng = np.random.default_rng(seed)
    features = {
        "CL": features_of(eigen_factor(world.normalized, n_features), world),
        "NCL": features_of(projected_factor(world.normalized, n_features, rng, n_steps=150), world),
    }
    purities = {name: top_purity(f, labels, m=20) for name, f in features.items()}
    return DigitsStudy(
        n_views=world.n_samples,
        n_entries=int(world.joint.size),
        error={name: factorization_error(f, world) for name, f in features.items()},
        purity={name: float(found) for name, found in purities.items()},
        n_measured={name: found.averaged_over for name, found in purities.items()},
    )


Result = TypeVar("Result")

BLURS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
WIDTHS = (2, 3, 4, 5, 6, 7, 8, 10)
# Worlds that no setting was chosen on.
START_SEEDS = range(100, 140)
SIZES = (100, 300, 800)
N_SAMPLES = 200
# Concentration of the two kinds of worlds; see random_world.
OVERLAPS = {"no overlap": 0.0, "overlap": 0.5}
# The table that loses entries for ever is shown once.
GROWN = tuple(name for name in METHODS if name != "NCL, table, relu")


@dataclass(frozen=True, eq=False)
class Theory:
    """What all studies found.

    Args:
        seeds: Of every study except ``growth``, which has the first only.
        example: The first seed's world, for the figure.
        rotation: One study per seed.
        anchors: One list of seeds per blur.
        widths: One list of seeds per number of features.
        starts: For each of ``START_SEEDS`` the matched cosine of one start and of the best of 3.
        digits: One study per seed.
        solvers: For each kind of overlap, one outcome per method and seed.
        held_out: For each seed the matched cosine over seen and over held-out samples.
        growth: One outcome per size and method.
    """

    seeds: tuple[int, ...]
    example: ExampleStudy
    rotation: list[RotationStudy]
    anchors: list[list[AnchorStudy]]
    widths: list[list[WidthStudy]]
    starts: list[tuple[float, float]]
    digits: list[DigitsStudy]
    solvers: dict[str, list[Outcome]]
    held_out: list[tuple[float, float]]
    growth: list[Outcome]

    def record(self) -> dict[str, Any]:
        """All numbers, ready for a JSON file."""
        return {
            "seeds": list(self.seeds),
            "example": {"error": self.example.error, "cosine": self.example.cosine},
            "rotation": {
                "degrees": DEGREES.tolist(),
                "signed_loss": [study.signed_loss.tolist() for study in self.rotation],
                "rectified_loss": [study.rectified_loss.tolist() for study in self.rotation],
                "signed_consistency": [s.signed_consistency.tolist() for s in self.rotation],
                "lowest_loss": [study.lowest for study in self.rotation],
            },
            "anchors": [
                {"blur": blur, "per_seed": [asdict(study) for study in row]}
                for blur, row in zip(BLURS, self.anchors, strict=True)
            ],
            "widths": [
                {"n_features": width, "per_seed": [asdict(study) for study in row]}
                for width, row in zip(WIDTHS, self.widths, strict=True)
            ],
            "starts": [{"one": one, "best_of_3": best} for one, best in self.starts],
            "digits": [asdict(study) for study in self.digits],
            "solvers": {
                name: [asdict(found) for found in found_here]
                for name, found_here in self.solvers.items()
            },
            "held_out": [{"seen": seen, "held_out": new} for seen, new in self.held_out],
            "growth": [asdict(found) for found in self.growth],
        }


def n_parts(n_seeds: int) -> int:
    """How often :func:`theory` reports progress."""
    return 2 + 3 * n_seeds + len(BLURS) + len(WIDTHS) + len(SIZES)


def theory(seeds: Sequence[int], *, progress: Callable[[], None] = lambda: None) -> Theory:
    """Run every study.

    Args:
        seeds: At least one.
        progress: Called after each of :func:`n_parts` parts.
    """
    if not seeds:
        raise ValueError("no seeds; give at least one")

    def done(result: Result) -> Result:
        progress()
        return result

    return Theory(
        seeds=tuple(seeds),
        example=done(example_study(seeds[0])),
        rotation=done([rotation_study(seed) for seed in seeds]),
        anchors=[done([anchor_study(blur, seed) for seed in seeds]) for blur in BLURS],
        widths=[done([width_study(width, seed) for seed in seeds]) for width in WIDTHS],
        starts=[start_study(seed) for seed in START_SEEDS],
        digits=[digits_study(seed) for seed in seeds],
        solvers=_solvers(seeds, progress),
        held_out=[done(_held_out(seed)) for seed in seeds],
        growth=[found for size in SIZES for found in done(_grown(size, seeds[0]))],
    )


def _solvers(seeds: Sequence[int], progress: Callable[[], None]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for name, concentration in OVERLAPS.items():
        found[name] = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            world = random_world(N_SAMPLES, N_CLASSES, rng, concentration=concentration)
            methods = METHODS if name == "overlap" else GROWN
            found[name] += [outcome(method, world, seed) for method in methods]
            progress()
    return found


def _held_out(seed: int) -> tuple[float, float]:
    world = random_world(
        N_SAMPLES, N_CLASSES, np.random.default_rng(seed), concentration=OVERLAPS["overlap"]
    )
    return held_out_score(world, seed)


def _grown(n_samples: int, seed: int) -> list[Outcome]:
    world = random_world(
        n_samples, N_CLASSES, np.random.default_rng(seed), concentration=OVERLAPS["overlap"]
    )
    return [outcome(method, world, seed) for method in GROWN]


def over_seeds(outcomes: Sequence[Outcome], method: str, name: str) -> FloatArray:
    """One field of every outcome of a method ``(n_seeds,)``."""
    return np.array([getattr(found, name) for found in outcomes if found.method == method])
