"""What does the whole laboratory say? Every study over several seeds, as one record."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from nonneg.factorization import studies
from nonneg.factorization.checking import FloatArray
from nonneg.factorization.comparison import METHODS, Outcome, held_out_score, outcome
from nonneg.factorization.digits_study import DigitsStudy, digits_study
from nonneg.factorization.worlds import random_world

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
        example: The first seed's world, for the eye.
        rotation: One study a seed.
        anchors: One list of seeds a blur.
        widths: One list of seeds a number of features.
        starts: For each of ``START_SEEDS`` the matched cosine of one start and of the best of 3.
        digits: One study a seed.
        solvers: For each kind of overlap, one outcome a method and seed.
        held_out: For each seed the matched cosine over seen and over held-out samples.
        growth: One outcome a size and method.
    """

    seeds: tuple[int, ...]
    example: studies.ExampleStudy
    rotation: list[studies.RotationStudy]
    anchors: list[list[studies.AnchorStudy]]
    widths: list[list[studies.WidthStudy]]
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
                "degrees": studies.DEGREES.tolist(),
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
        example=done(studies.example_study(seeds[0])),
        rotation=done([studies.rotation_study(seed) for seed in seeds]),
        anchors=[done([studies.anchor_study(blur, seed) for seed in seeds]) for blur in BLURS],
        widths=[done([studies.width_study(width, seed) for seed in seeds]) for width in WIDTHS],
        starts=[studies.start_study(seed) for seed in START_SEEDS],
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
            world = random_world(N_SAMPLES, studies.N_CLASSES, rng, concentration=concentration)
            methods = METHODS if name == "overlap" else GROWN
            found[name] += [outcome(method, world, seed) for method in methods]
            progress()
    return found


def _held_out(seed: int) -> tuple[float, float]:
    world = random_world(
        N_SAMPLES, studies.N_CLASSES, np.random.default_rng(seed), concentration=OVERLAPS["overlap"]
    )
    return held_out_score(world, seed)


def _grown(n_samples: int, seed: int) -> list[Outcome]:
    world = random_world(
        n_samples, studies.N_CLASSES, np.random.default_rng(seed), concentration=OVERLAPS["overlap"]
    )
    return [outcome(method, world, seed) for method in GROWN]


def over_seeds(outcomes: Sequence[Outcome], method: str, name: str) -> FloatArray:
    """One field of every outcome of a method ``(n_seeds,)``."""
    return np.array([getattr(found, name) for found in outcomes if found.method == method])
