"""Is a feature about a kind or about a kind of kinds? The label level at which it is purest."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.chance import RandomState
from nonneg.metrics.consistency import class_consistency
from nonneg.metrics.inputs import FeatureLike, LabelLike
from nonneg.metrics.results import FeatureMeasurement, FloatArray, IntArray, mean_of_measured


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelLevel(FeatureMeasurement):
    """The level that suits each feature; ``per_feature`` is its purity there, less chance.

    Args:
        levels: The names of the levels, as given.
        level: For each feature, the number of its level; -1 where not measured.
        n_features_at: How many features each level has.
        purity: By level, ``(n_features,)`` purity less chance, NaN where not measured.
    """

    levels: tuple[str, ...]
    level: IntArray = field(repr=False)
    n_features_at: Mapping[str, int]
    purity: Mapping[str, FloatArray] = field(repr=False)


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
    by ``(purity - chance) / (1 - chance)``: 1 for a pure feature, 0 for what permuted labels give.
    ``value`` is its mean over features, each at its best level; higher is better.

    Args:
        Z: Features ``(n_samples, n_features)``.
        levels: Name and class numbers ``(n_samples,)`` of each level, such as
            ``{"coarse": …, "fine": …}``; of equal ones the first named wins.
        min_active: Measure only features that are active for at least so many samples.
        threshold: See :func:`active_mask`.
        n_permutations: Label permutations behind chance.
        random_state: Seed or generator.

    Returns:
        Features below ``min_active``, and those that chance makes pure at every level, are NaN.

    Example:
        >>> Z = [[1, 1], [1, 0], [1, 0], [1, 0], [0, 0], [0, 0], [0, 0], [0, 1]]
        >>> fine = [0, 0, 1, 1, 2, 2, 3, 3]
        >>> found = label_level(Z, {"coarse": [0, 0, 0, 0, 1, 1, 1, 1], "fine": fine})
        >>> found.levels[found.level[0]]  # all four of a coarse class
        'coarse'
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
    purity = np.stack([_beyond_chance(one.per_feature, one.null_per_feature) for one in found])
    measured = ~np.isnan(purity).all(axis=0)
    best = np.where(np.isnan(purity), -np.inf, purity).argmax(axis=0)
    per_feature = np.where(measured, np.take_along_axis(purity, best[None], axis=0)[0], np.nan)
    level = np.where(measured, best, -1)
    value, averaged_over = mean_of_measured(per_feature)
    return LabelLevel(
        value=value,
        per_feature=per_feature,
        levels=tuple(levels),
        level=level,
        n_features_at={name: int((level == i).sum()) for i, name in enumerate(levels)},
        purity=dict(zip(levels, purity, strict=True)),
        n_alive=found[0].n_alive,
        n_dead=found[0].n_dead,
        averaged_over=averaged_over,
        averaged_unit="features",
        higher_is_better=True,
        signed=found[0].signed,
    )


def _beyond_chance(purity: FloatArray, chance: FloatArray | None) -> FloatArray:
    """Purity on a scale where chance is 0 and all of one class is 1; NaN where chance is pure."""
    if chance is None:
        raise ValueError("n_permutations is 0; levels cannot be compared without chance")
    room = 1 - chance
    possible = room > 1e-12
    return np.where(possible, (purity - chance) / np.where(possible, room, 1), np.nan)
