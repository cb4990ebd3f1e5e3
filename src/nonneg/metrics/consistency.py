"""Class consistency: whether a feature stands for one class, and at which level of classes."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_tiles
from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_count,
    checked_features,
    checked_labels,
)
from nonneg.metrics.purity import chance_purity, class_counts, consecutive_classes, run_starts
from nonneg.metrics.results import (
    BoolArray,
    FeatureMeasurement,
    FloatArray,
    IntArray,
    RandomState,
    mean_of_measured,
)

_BLOCK_ENTRIES = 1 << 22


def consistency_interval(
    features: Features,
    classes: IntArray,
    measured: BoolArray,
    *,
    value: float,
    threshold: float,
    n_bootstrap: int,
    confidence: float,
    random_state: RandomState,
) -> tuple[float, float]:
    """The interval that class consistency is expected in, for other samples of the same size.

    Samples are drawn with replacement. The share of the *commonest* class is biased upwards in
    small samples, and more so in a resample, so the quantiles are taken of the deviation from the
    resamples' mean and put around ``value``: the interval tells the spread, not the bias, which
    the permuted-label null shows.
    """
    checked_count(n_bootstrap, name="n_bootstrap")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must lie between 0 and 1")
    rng = np.random.default_rng(random_state)
    block = max(1, _BLOCK_ENTRIES // max(features.n_features, features.n_samples))
    sizes = [min(block, n_bootstrap - start) for start in range(0, n_bootstrap, block)]
    resampled = np.concatenate(
        [_resampled(features, classes, measured, threshold, size, rng) for size in sizes]
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled - resampled.mean(), [tail, 1 - tail])
    return value + float(low), value + float(high)


def _resampled(
    features: Features,
    classes: IntArray,
    measured: BoolArray,
    threshold: float,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Class consistency of ``size`` resamples: one matrix product per class for all of them."""
    n = features.n_samples
    drawn = np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(size)])
    weights = torch.from_numpy(drawn).to(features.device, features.dtype)  # (size, n), class order
    here, largest, total = (weights.new_zeros(size, features.n_features) for _ in range(3))
    current = 0
    order = np.argsort(classes, kind="stable")
    ordered = classes[order]
    for place, on in active_tiles(features, threshold, order):
        bounds = [*(place.start + run_starts(ordered[place])), place.stop]
        active = torch.from_numpy(on[:, : features.n_features]).to(weights)
        for start, stop in itertools.pairwise(bounds):
            if ordered[start] != current:
                torch.maximum(largest, here, out=largest)
                here.zero_()
                current = ordered[start]
            run = slice(start - place.start, stop - place.start)
            counts = weights[:, start:stop] @ active[run]
            here += counts
            total += counts
    torch.maximum(largest, here, out=largest)
    keep = torch.from_numpy(measured).to(features.device) & (total > 0)
    share = (largest / total.clamp(min=1)).where(keep, 0).double()
    return (share.sum(dim=1) / keep.sum(dim=1).clamp(min=1)).cpu().numpy()


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassConsistency(FeatureMeasurement):
    """How pure the features are, beside the level of chance.

    Args:
        n_active: For how many samples each feature is active, ``(n_features,)``.
        null: The same mean under permuted labels; None unless asked for.
        null_per_feature: ``(n_features,)``, NaN where not measured; None unless asked for.
        null_deviation: Its standard deviation over permutations, likewise.
        interval: Bootstrap interval of ``value`` over samples; None unless asked for.
    """

    n_active: IntArray = field(repr=False)
    null: float | None = None
    null_per_feature: FloatArray | None = field(default=None, repr=False)
    null_deviation: FloatArray | None = field(default=None, repr=False)
    interval: tuple[float, float] | None = None


def class_consistency(
    Z: FeatureLike,
    y: LabelLike,
    *,
    min_active: int = 1,
    threshold: float = ACTIVE_THRESHOLD,
    n_permutations: int = 0,
    n_bootstrap: int = 0,
    confidence: float = 0.95,
    random_state: RandomState = None,
) -> ClassConsistency:
    """The share of the commonest class among a feature's active samples, mean over features.

    In (0, 1], higher is better. A dense representation has every feature on for every sample and
    so scores the largest class share, whatever it has learnt; a feature that is on for one sample
    scores 1. Read the value against its null, or use :func:`top_purity`.

    Args:
        Z: Features ``(n_samples, n_features)``.
        y: Class numbers ``(n_samples,)``.
        min_active: Measure only features that are active for at least so many samples.
        threshold: See :func:`active_mask`.
        n_permutations: Label permutations behind ``null``; 0 leaves it out.
        n_bootstrap: Resamples of the samples behind ``interval``; 0 leaves it out.
        confidence: Of the interval.
        random_state: Seed or generator of both.

    Returns:
        Dead features, and those below ``min_active``, are NaN in ``per_feature`` and not averaged;
        if that leaves none, ``value`` is NaN.

    Example:
        >>> Z = [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0]]
        >>> found = class_consistency(Z, [0, 0, 1, 0])  # feature 0 is pure, feature 1 is 2 of 3
        >>> round(found.value, 4), found.n_dead
        (0.8333, 1)
    """
    features = checked_features(Z)
    classes = consecutive_classes(checked_labels(y, features.n_samples))
    checked_count(
        min_active, name="min_active", limit=features.n_samples, limited_by="the number of samples"
    )
    counts = class_counts(features, classes, threshold)
    n_active = counts.sum(axis=0)
    measured = n_active >= min_active
    per_feature = np.full(features.n_features, np.nan)
    per_feature[measured] = counts.max(axis=0)[measured] / n_active[measured]
    value, averaged_over = mean_of_measured(per_feature)

    null, null_per_feature, null_deviation, interval = None, None, None, None
    rng = np.random.default_rng(random_state)
    if n_permutations:
        expected, deviation = chance_purity(classes, n_permutations, rng)
        null_per_feature = np.where(measured, expected[n_active], np.nan)
        null_deviation = np.where(measured, deviation[n_active], np.nan)
        null, _ = mean_of_measured(null_per_feature)
    if n_bootstrap:
        interval = consistency_interval(
            features,
            classes,
            measured,
            value=value,
            threshold=threshold,
            n_bootstrap=n_bootstrap,
            confidence=confidence,
            random_state=rng,
        )
    n_alive = int((n_active > 0).sum())
    return ClassConsistency(
        value=value,
        per_feature=per_feature,
        n_active=n_active,
        n_alive=n_alive,
        n_dead=features.n_features - n_alive,
        null=null,
        null_per_feature=null_per_feature,
        null_deviation=null_deviation,
        interval=interval,
        averaged_over=averaged_over,
        averaged_unit="features",
        higher_is_better=True,
        signed=features.signed,
    )


def class_entropy(
    Z: FeatureLike, y: LabelLike, *, threshold: float = ACTIVE_THRESHOLD
) -> FeatureMeasurement:
    """The entropy (nats) of the classes of a feature's active samples, mean over alive features.

    In [0, ln n_classes], lower is better: 0 for a feature of one class.

    Args:
        Z: Features ``(n_samples, n_features)``.
        y: Class numbers ``(n_samples,)``.
        threshold: See :func:`active_mask`.

    Returns:
        Dead features are NaN in ``per_feature`` and not averaged.

    Example:
        >>> found = class_entropy([[1, 1], [1, 0]], [0, 1])  # ln 2 and 0
        >>> round(2 * found.value, 4)  # ln 2
        0.6931
    """
    features = checked_features(Z)
    classes = consecutive_classes(checked_labels(y, features.n_samples))
    counts = class_counts(features, classes, threshold)
    n_active = counts.sum(axis=0)
    alive = n_active > 0
    share = counts[:, alive] / n_active[alive]
    per_feature = np.full(features.n_features, np.nan)
    per_feature[alive] = (share * np.log(1 / np.where(share > 0, share, 1))).sum(axis=0)
    value, averaged_over = mean_of_measured(per_feature)
    return FeatureMeasurement(
        value=value,
        per_feature=per_feature,
        n_alive=int(alive.sum()),
        n_dead=int((~alive).sum()),
        averaged_over=averaged_over,
        averaged_unit="features",
        higher_is_better=False,
        signed=features.signed,
    )


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
