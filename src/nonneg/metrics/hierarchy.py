"""Is a feature about a kind or about a kind of kinds? The label level at which it is purest."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.chance import RandomState
from nonneg.metrics.consistency import ClassConsistency, class_consistency
from nonneg.metrics.inputs import FeatureLike, LabelLike
from nonneg.metrics.results import FeatureMeasurement, FloatArray, IntArray, mean_of_measured


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelLevel(FeatureMeasurement):
    """The level that suits each feature; ``per_feature`` is its class consistency there.

    Args:
        levels: The names of the levels, as given.
        level: For each feature, the number of its level; -1 where not measured.
        n_features_at: How many features each level has.
        surprise: By level, how many standard deviations a feature's consistency lies above chance,
            ``(n_features,)``, NaN where not measured.
    """

    levels: tuple[str, ...]
    level: IntArray = field(repr=False)
    n_features_at: Mapping[str, int]
    surprise: Mapping[str, FloatArray] = field(repr=False)


def label_level(
    Z: FeatureLike,
    levels: Mapping[str, LabelLike],
    *,
    min_active: int = 2,
    threshold: float = ACTIVE_THRESHOLD,
    n_permutations: int = 200,
    random_state: RandomState = None,
) -> LabelLevel:
    """At which level of a hierarchy of labels each feature is purest, beyond chance.

    The share of the commonest class can only rise when classes are merged, so levels are compared
    by how many standard deviations of the permuted-label null it lies above its mean: a feature of
    one fine class belongs to the fine level, one of all fine classes of a coarse class to the
    coarse level. ``value`` is the mean consistency, each feature at its level; higher is better.

    Args:
        Z: Features ``(n_samples, n_features)``.
        levels: Name and class numbers ``(n_samples,)`` of each level, such as
            ``{"coarse": …, "fine": …}``.
        min_active: Measure only features that are active for at least so many samples.
        threshold: See :func:`active_mask`.
        n_permutations: Label permutations behind chance.
        random_state: Seed or generator.

    Returns:
        Features below ``min_active``, and those whose consistency cannot differ from chance (on
        for one sample, or for all), are NaN.

    Example:
        >>> fine = np.arange(40) // 10  # four classes of ten, in two kinds
        >>> Z = np.stack([fine == 0, fine < 2], axis=1).astype(float)
        >>> found = label_level(Z, {"coarse": fine // 2, "fine": fine}, random_state=0)
        >>> found.n_features_at
        {'coarse': 1, 'fine': 1}
    """
    if not levels:
        raise ValueError("levels is empty; name at least one level, such as {'fine': y}")
    rng = np.random.default_rng(random_state)
    found = [
        class_consistency(
            Z,
            labels,
            min_active=min_active,
            threshold=threshold,
            n_permutations=n_permutations,
            random_state=rng,
        )
        for labels in levels.values()
    ]
    surprise = np.stack([_surprise(one) for one in found])
    measured = ~np.isnan(surprise).all(axis=0)
    best = np.where(np.isnan(surprise), -np.inf, surprise).argmax(axis=0)
    consistency = np.stack([one.per_feature for one in found])
    chosen = np.take_along_axis(consistency, best[None], axis=0)[0]
    per_feature = np.where(measured, chosen, np.nan)
    level = np.where(measured, best, -1)
    value, averaged_over = mean_of_measured(per_feature)
    return LabelLevel(
        value=value,
        per_feature=per_feature,
        levels=tuple(levels),
        level=level,
        n_features_at={name: int((level == i).sum()) for i, name in enumerate(levels)},
        surprise=dict(zip(levels, surprise, strict=True)),
        n_alive=found[0].n_alive,
        n_dead=found[0].n_dead,
        averaged_over=averaged_over,
        averaged_unit="features",
        higher_is_better=True,
        signed=found[0].signed,
    )


def _surprise(found: ClassConsistency) -> FloatArray:
    """Consistency in standard deviations above chance; NaN where chance has no spread."""
    if found.null_per_feature is None or found.null_deviation is None:
        raise ValueError("n_permutations is 0; levels cannot be compared without chance")
    spreads = found.null_deviation > 1e-12
    deviation = np.where(spreads, found.null_deviation, 1)
    return np.where(spreads, (found.per_feature - found.null_per_feature) / deviation, np.nan)
