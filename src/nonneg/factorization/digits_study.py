"""What does a real set look like as a matrix? The views of digits, factorised by CL and by NCL."""

from dataclasses import dataclass

import numpy as np
import torch

from nonneg.data import load
from nonneg.factorization.augmentation_world import augmentation_world, shifted_views
from nonneg.factorization.population import factorization_error, features_of
from nonneg.factorization.solvers import eigen_factor, projected_factor
from nonneg.metrics import top_purity


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
