"""Which features matter most? Expected activation, and the choice of k features by it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.chance import RandomState
from nonneg.metrics.checks import checked_choice, checked_count
from nonneg.metrics.features import Features
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FeatureMeasurement, FloatArray, IntArray
from nonneg.metrics.rows import unit_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpectedActivation(FeatureMeasurement):
    """The mean activation of each feature; ``on`` says whether negative entries were cut to 0."""

    on: str


def expected_activation(Z: FeatureLike, *, on: str = "rectified") -> ExpectedActivation:
    """The mean over samples of the row-normalised feature (EA), for each feature.

    In [0, 1] on rectified features, [-1, 1] on signed ones; ``value`` is the mean over features.
    Compute it on the *training* set: a ranking made on the test set leaks.

    Args:
        Z: Features ``(n_samples, n_features)``.
        on: ``"rectified"`` cuts negative entries to 0 before rows are scaled to length 1;
            ``"signed"`` takes them as they are. The same for non-negative features.

    Returns:
        Rows of zeros count as samples that activate nothing.

    Example:
        >>> expected_activation([[2, 0], [0, 0], [3, -4], [0, 5]]).per_feature
        array([0.5 , 0.25])
        >>> expected_activation([[2, 0], [0, 0], [3, -4], [0, 5]], on="signed").per_feature
        array([0.4 , 0.05])
    """
    checked_choice(on, ("rectified", "signed"), "on")
    features = checked_features(Z)
    mean, _ = _moments(features, rectify=on == "rectified")
    n_active, _ = active_counts(features, ACTIVE_THRESHOLD)
    n_alive = int((n_active > 0).sum())
    return ExpectedActivation(
        value=float(mean.mean()),
        per_feature=mean,
        on=on,
        n_alive=n_alive,
        n_dead=features.n_features - n_alive,
        averaged_over=features.n_features,
        averaged_unit="features",
        higher_is_better=None,
        signed=False,
    )


def select(
    Z: FeatureLike, k: int, *, by: str = "ea_rectified", random_state: RandomState = None
) -> IntArray:
    """The numbers of k features, best first, ``(k,)``; equals are ordered by their number.

    Args:
        Z: Features of the *training* set ``(n_samples, n_features)``.
        k: How many to keep.
        by: ``"ea_rectified"`` or ``"ea_signed"`` (see :func:`expected_activation`), ``"variance"``
            of the row-normalised feature, or ``"random"``, which draws from the alive features
            first and touches dead ones only when k exceeds their number.
        random_state: Seed or generator of ``"random"``.

    Example:
        >>> select([[1, 5, 0], [0, 3, 0]], 2)
        array([1, 0])
    """
    checked_choice(by, tuple(_RANKINGS), "by")
    features = checked_features(Z)
    checked_count(k, name="k", limit=features.n_features, limited_by="the number of features")
    rank = _RANKINGS[by](features, random_state)
    return np.argsort(-rank, kind="stable")[:k]


def _moments(features: Features, *, rectify: bool) -> tuple[FloatArray, FloatArray]:
    """Mean and variance over samples of each row-normalised feature."""
    total, squares = (
        torch.zeros(features.n_features, dtype=torch.float64, device=features.device)
        for _ in range(2)
    )
    for _, tile in features.tiles():
        unit = unit_rows(_rectified(tile) if rectify else tile)
        total += unit.sum(dim=0)
        squares += unit.square_().sum(dim=0)
    mean = total / features.n_samples
    variance = (squares / features.n_samples - mean.square()).clamp(min=0)
    return mean.cpu().numpy(), variance.cpu().numpy()


def _rectified(rows: Tensor) -> Tensor:
    return rows.clamp(min=0)


def _random_rank(features: Features, random_state: RandomState) -> FloatArray:
    n_active, _ = active_counts(features, ACTIVE_THRESHOLD)
    return np.random.default_rng(random_state).random(features.n_features) + (n_active > 0)


_RANKINGS: dict[str, Callable[[Features, RandomState], FloatArray]] = {
    "ea_rectified": lambda features, _: _moments(features, rectify=True)[0],
    "ea_signed": lambda features, _: _moments(features, rectify=False)[0],
    "variance": lambda features, _: _moments(features, rectify=False)[1],
    "random": _random_rank,
}
