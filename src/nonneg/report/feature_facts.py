"""Facts about each feature: how often, how strongly, when and with which others it fires."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nonneg.data.dates import period_name, period_numbers
from nonneg.estimators.groups import ranks_in_time, rise_in_time
from nonneg.estimators.hierarchy import coactivation_tree
from nonneg.estimators.permutations import adjusted_p, permutation_p
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.figures import MIN_ACTIVE
from nonneg.metrics.inputs import FeatureLike, Features, checked_features
from nonneg.metrics.purity import class_counts
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.rows import row_lengths, unit_rows

N_BINS = 20
N_BANDS = 5
_BLOCK_ENTRIES = 1 << 22


@dataclass(frozen=True, eq=False)
class FeatureFacts:
    """Per-feature arrays over d features; strength is ``|z|`` after scaling rows to length 1.

    Args:
        n_samples: How many samples the statistics are from.
        expected: Mean strength ``(d,)``.
        n_active: Samples for which the feature is on ``(d,)``.
        highest: Largest strength ``(d,)``; bins and bands divide [0, highest].
        histogram: Active samples by strength ``(d, N_BINS)``.
        main_class: Commonest class of the strongest samples, -1 where there is none ``(d,)``.
        main_histogram: As ``histogram``, of samples of the main class only.
        purity: Its share among the ``MIN_ACTIVE`` strongest, NaN where fewer are on ``(d,)``.
        class_counts: Active samples of each class ``(n_classes, d)``; no rows without labels.
        top: Numbers of the strongest shown samples, strongest first, then -1 ``(d, n_top)``.
        top_strength: Their strength ``(d, n_top)``.
        spread: Numbers of shown samples from each band, weakest band first, then -1
            ``(d, N_BANDS, n_spread)``.
        exceptions: The strongest shown samples that are not of the main class ``(d, n_spread)``.
        signed: Whether any feature was negative.
    """

    n_samples: int
    expected: FloatArray
    n_active: IntArray
    highest: FloatArray
    histogram: IntArray
    main_class: IntArray
    main_histogram: IntArray
    purity: FloatArray
    class_counts: IntArray
    top: IntArray
    top_strength: FloatArray
    spread: IntArray
    exceptions: IntArray
    signed: bool


def feature_facts(
    Z: FeatureLike,
    *,
    shown: IntArray | None = None,
    labels: IntArray | None = None,
    n_top: int = 24,
    n_spread: int = 6,
) -> FeatureFacts:
    """The facts of every feature, from all samples; examples come from those that are shown.

    Args:
        Z: Features ``(n, d)``.
        shown: Numbers of the samples that the page holds, rising; all if left out. ``top``,
            ``spread`` and ``exceptions`` are positions in this list.
        labels: Class numbers ``(n,)``; without them there are no classes and no purity.
        n_top: Strongest samples per feature.
        n_spread: Samples per band.

    Example:
        >>> facts = feature_facts([[1, 0], [3, 4], [0, 1]], n_top=2)
        >>> facts.top.tolist(), facts.n_active.tolist()
        ([[0, 1], [2, 1]], [2, 2])
    """
    features = checked_features(Z)
    n, d = features.n_samples, features.n_features
    place = np.full(n, -1)
    place[np.arange(n) if shown is None else shown] = np.arange(n if shown is None else len(shown))
    counts = np.zeros((0, d), dtype=np.int64)
    if labels is not None:
        counts = _all_class_counts(features, labels)
    facts = FeatureFacts(
        n_samples=n,
        expected=np.zeros(d),
        n_active=np.zeros(d, dtype=np.int64),
        highest=np.zeros(d),
        histogram=np.zeros((d, N_BINS), dtype=np.int64),
        main_class=np.full(d, -1),
        main_histogram=np.zeros((d, N_BINS), dtype=np.int64),
        purity=np.full(d, np.nan),
        class_counts=counts,
        top=np.full((d, n_top), -1),
        top_strength=np.zeros((d, n_top)),
        spread=np.full((d, N_BANDS, n_spread), -1),
        exceptions=np.full((d, n_spread), -1),
        signed=features.signed,
    )
    for j, strength in _strengths(features):
        _fill(facts, j, strength, labels, place)
    return facts


def _fill(
    facts: FeatureFacts,
    j: int,
    strength: NDArray[np.floating],
    labels: IntArray | None,
    place: IntArray,
) -> None:
    """Fill the arrays for one feature, given its strength for each sample."""
    facts.expected[j] = strength.mean(dtype=np.float64)
    on = np.flatnonzero(strength > ACTIVE_THRESHOLD)
    facts.n_active[j] = len(on)
    if not len(on):
        return
    # A stable sort: of equally strong samples the earlier comes first.
    on = on[np.argsort(-strength[on], kind="stable")]
    values = strength[on]
    facts.highest[j] = values[0]
    bins = np.minimum((values / values[0] * N_BINS).astype(np.int64), N_BINS - 1)
    facts.histogram[j] = np.bincount(bins, minlength=N_BINS)
    here = place[on] >= 0  # which of them the page holds
    examples, numbers = on[here], place[on][here]
    _put(facts.top[j], numbers)
    _put(facts.top_strength[j], values[here])
    bands = bins[here] * N_BANDS // N_BINS
    for band in range(N_BANDS):
        inside = numbers[bands == band]
        _put(facts.spread[j, band], inside[_evenly(len(inside), facts.spread.shape[2])])
    if labels is None:
        return
    votes = np.bincount(labels[on[:MIN_ACTIVE]])
    main = int(votes.argmax())
    facts.main_class[j] = main
    is_main = labels[on] == main
    facts.main_histogram[j] = np.bincount(bins[is_main], minlength=N_BINS)
    _put(facts.exceptions[j], place[examples[labels[examples] != main]])
    if len(on) >= MIN_ACTIVE:
        facts.purity[j] = votes[main] / MIN_ACTIVE


def _strengths(features: Features) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Number and strength ``(n,)`` of each feature, read in blocks of columns."""
    lengths = torch.cat([row_lengths(tile) for _, tile in features.tiles()])
    lengths = lengths.where(lengths > 0, 1)
    step = max(1, _BLOCK_ENTRIES // features.n_samples)
    for start in range(0, features.n_features, step):
        stop = min(start + step, features.n_features)
        block = (features.columns(torch.arange(start, stop)) / lengths).abs_().T.contiguous()
        yield from zip(range(start, stop), block.cpu().numpy(), strict=True)


def _all_class_counts(features: Features, labels: IntArray) -> IntArray:
    """Active samples ``(n_classes, d)``, with a row also for a class number that never occurs."""
    present, renumbered = np.unique(labels, return_inverse=True)
    counts = np.zeros((int(labels.max()) + 1, features.n_features), dtype=np.int64)
    counts[present] = class_counts(features, renumbered, ACTIVE_THRESHOLD)
    return counts


def _put(into: NDArray[np.generic], values: NDArray[np.generic]) -> None:
    kept = values[: len(into)]
    into[: len(kept)] = kept


def _evenly(n: int, k: int) -> IntArray:
    """At most k of the positions 0 … n - 1, evenly spaced, both ends among them."""
    return np.unique(np.linspace(0, n - 1, min(n, k)).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class Partners:
    """The features that fire most with each feature.

    Args:
        numbers: Strongest partner first, then -1 ``(d, k)``.
        cosines: Of the columns ``(d, k)``.
    """

    numbers: IntArray
    cosines: FloatArray


def partners(cosines: NDArray[np.float32], which: IntArray, n_features: int, k: int) -> Partners:
    """The k features with the largest cosine to each, those with cosine 0 left out.

    Args:
        cosines: Between the features ``which``, ``(m, m)``.
        which: Their numbers ``(m,)``.
        n_features: Of all features, also those that are not in ``which``.
        k: Partners per feature.
    """
    numbers, found = np.full((n_features, k), -1), np.zeros((n_features, k))
    for row, feature in enumerate(which):
        others = cosines[row].copy()
        others[row] = 0
        order = np.argsort(-others, kind="stable")[:k]
        order = order[others[order] > 0]
        numbers[feature, : len(order)] = which[order]
        found[feature, : len(order)] = others[order]
    return Partners(numbers, found)


def telling_order(cosines: NDArray[np.float32]) -> IntArray:
    """An order that puts features that fire together side by side, ``(m,)``."""
    from scipy.cluster.hierarchy import leaves_list

    if len(cosines) < 3:
        return np.arange(len(cosines))
    return leaves_list(coactivation_tree(cosines)).astype(np.int64)


MAX_PERIODS = 60
_N_DATED = 20
_FALSE_DISCOVERIES = 0.05
# A tenth of those of NCL.over, so that a page stays quick.
_MOST_PERMUTATIONS = 10_000


@dataclass(frozen=True, eq=False)
class OverTime:
    """How features come and go, over d features and p periods without gaps.

    Args:
        unit: What a period is, such as ``"month"``.
        periods: What each is called.
        counts: Dated samples in each ``(p,)``.
        means: Mean strength, NaN in a period without samples ``(d, p)``.
        errors: Standard errors of the means, NaN where fewer than two samples are ``(d, p)``.
        change: How far a line fitted to the strength in the order of time rises from the first
            to the last dated sample ``(d,)``; NaN for fewer than 20 of them, or one date only.
        is_significant: Whether it changed, by the permutation test of ``NCL.over`` at a false
            discovery rate of 5 % among alive features ``(d,)``.
    """

    unit: str
    periods: list[str]
    counts: IntArray
    means: FloatArray
    errors: FloatArray
    change: FloatArray
    is_significant: NDArray[np.bool_]


def over_time(
    Z: FeatureLike, dates: NDArray[np.datetime64], *, max_periods: int = MAX_PERIODS
) -> OverTime:
    """Strength of each feature over time; samples without a date count nowhere.

    Args:
        Z: Features ``(n, d)``.
        dates: Days ``(n,)``, at least one of them known.
        max_periods: The shortest period of which there are at most so many is taken.

    Example:
        >>> dates = np.array(["2024-01-30", "2024-02-01"], dtype="datetime64[D]")
        >>> found = over_time([[1, 0], [0, 2]], dates, max_periods=2)
        >>> found.unit, found.periods, found.means.tolist()
        ('week', ['2024-W05'], [[0.5], [0.5]])
    """
    features = checked_features(Z)
    dated = np.flatnonzero(~np.isnat(dates))
    unit, number = period_numbers(dates[dated], "auto", most=max_periods)
    first = int(number.min())
    periods = [period_name(at, unit) for at in range(first, int(number.max()) + 1)]
    counts = np.bincount(number - first, minlength=len(periods))
    rows = sparse.vstack(
        [
            sparse.csr_array(_strengths_of(features, dated[start : start + features.tile_rows]))
            for start in range(0, len(dated), features.tile_rows)
        ],
        format="csr",
    )
    places = (np.arange(len(dated)), number - first)
    is_in = sparse.csc_array((np.ones(len(dated)), places), shape=(len(dated), len(periods)))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (rows.T @ is_in).toarray() / counts  # (d, p)
        spread = np.maximum((rows.power(2).T @ is_in).toarray() / counts - means**2, 0)
        errors = np.sqrt(spread / np.where(counts > 1, counts - 1, np.nan))
    change = np.full(features.n_features, np.nan)
    is_significant = np.zeros(features.n_features, dtype=bool)
    when = ranks_in_time(dates[dated].astype(np.int64))
    alive = np.flatnonzero(np.bincount(rows.indices, minlength=features.n_features))
    if np.ptp(when) and len(dated) >= _N_DATED:
        change = rise_in_time(rows, when)
        if len(alive):
            is_significant[alive] = _changed(sparse.csr_array(rows[:, alive]), when)
    return OverTime(unit, periods, counts, means, errors, change, is_significant)


def _strengths_of(features: Features, rows: IntArray) -> FloatArray:
    """Of some samples ``(m, d)``, those that are off being 0."""
    chosen = features.rows(torch.from_numpy(rows).to(features.device))
    strength: FloatArray = unit_rows(chosen).abs().double().cpu().numpy()
    return np.where(strength > ACTIVE_THRESHOLD, strength, 0)


def _changed(rows: sparse.csr_array, when: FloatArray) -> NDArray[np.bool_]:
    rng = np.random.default_rng(0)
    p = permutation_p(
        rows, when[:, None], alpha=_FALSE_DISCOVERIES, rng=rng, most=_MOST_PERMUTATIONS
    )
    is_found: NDArray[np.bool_] = adjusted_p(p)[:, 0] <= _FALSE_DISCOVERIES
    return is_found
