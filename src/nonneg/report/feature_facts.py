"""Facts about each feature: how often, how strongly, when and with which others it fires."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg.estimators.hierarchy import coactivation_tree
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


@dataclass(frozen=True, eq=False)
class OverTime:
    """How features come and go, over d features and p periods without gaps.

    Args:
        unit: What a period is, such as ``"month"``.
        periods: What each is called.
        counts: Dated samples in each ``(p,)``.
        means: Mean strength, NaN in a period without samples ``(d, p)``.
        errors: Standard errors of the means, NaN where fewer than two samples are ``(d, p)``.
        change: How much the strength changes from the first to the last date, by least squares
            over all dated samples ``(d,)``; NaN for fewer than 20 of them, or one date only.
        change_error: Its standard error, which holds for unequal variances too ``(d,)``.
        is_sure: Whether the change is significant, at a false discovery rate of 5 % among alive
            features (Benjamini and Hochberg 1995) ``(d,)``.
    """

    unit: str
    periods: list[str]
    counts: IntArray
    means: FloatArray
    errors: FloatArray
    change: FloatArray
    change_error: FloatArray
    is_sure: NDArray[np.bool_]


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
        ('week', ['week of 2024-01-29'], [[0.5], [0.5]])
    """
    features = checked_features(Z)
    dated = np.flatnonzero(~np.isnat(dates))
    unit, number, periods = _periods(dates[dated], max_periods)
    day = dates[dated].astype(np.int64)
    span = int(np.ptp(day))
    t = (day - day.mean()) / max(span, 1)
    counts = np.bincount(number, minlength=len(periods))
    sums = np.zeros((len(periods) + 3, features.n_features))
    squares = np.zeros((len(periods) + 1, features.n_features))
    for start in range(0, len(dated), features.tile_rows):
        here = slice(start, start + features.tile_rows)
        rows = torch.from_numpy(dated[here]).to(features.device)
        strength = unit_rows(features.rows(rows)).abs().double().cpu().numpy()
        in_period = np.zeros((len(periods), len(strength)))
        in_period[number[here], np.arange(len(strength))] = 1
        powers = np.stack([t[here], t[here] ** 2, t[here] ** 3])
        sums += np.concatenate([in_period, powers]) @ strength
        squares += np.concatenate([in_period, powers[1:2]]) @ strength**2
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums[:-3] / counts[:, None]
        spread = np.maximum(squares[:-1] / counts[:, None] - means**2, 0)
        errors = np.sqrt(spread / np.where(counts > 1, counts - 1, np.nan)[:, None])
    change, change_error = np.full((2, features.n_features), np.nan)
    if span and len(dated) >= _N_DATED:
        change, change_error = _trend(sums, squares[-1], t)
    alive = sums[:-3].sum(axis=0) > 0
    is_sure = _discovered(change, change_error, alive)
    return OverTime(unit, periods, counts, means.T, errors.T, change, change_error, is_sure)


def _periods(days: NDArray[np.datetime64], most: int) -> tuple[str, IntArray, list[str]]:
    """The name of a unit, the period of each day from 0 on, and what the periods are called."""
    month = days.astype("datetime64[M]").astype(np.int64)
    numbers: dict[str, IntArray] = {
        "day": days.astype(np.int64),
        "week": (days.astype(np.int64) + 3) // 7,  # from Monday on; day 0 was a Thursday
        "month": month,
        "quarter": month // 3,
        "year": month // 12,
        "decade": (month // 12 + 1970) // 10,
        "century": (month // 12 + 1970) // 100,
    }
    unit = next((u for u, n in numbers.items() if np.ptp(n) < most), "century")
    number = numbers[unit]
    first = int(number.min())
    called = [_called(unit, at) for at in range(first, int(number.max()) + 1)]
    return unit, number - first, called


def _called(unit: str, number: int) -> str:
    if unit in ("day", "week"):
        day = np.datetime64(number if unit == "day" else 7 * number - 3, "D")
        return str(day) if unit == "day" else f"week of {day}"
    if unit == "month":
        return str(np.datetime64(number, "M"))
    if unit == "quarter":
        return f"{1970 + number // 4} Q{number % 4 + 1}"
    return str({"year": 1970 + number, "decade": 10 * number, "century": 100 * number}[unit]) + (
        "" if unit == "year" else "s"
    )


def _trend(
    sums: FloatArray, late_squares: FloatArray, t: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The slope of strength against time by least squares, and its robust standard error."""
    n = len(t)
    mean = sums[:-3].sum(axis=0) / n
    by_t, by_t2, by_t3 = sums[-3:]
    t2, t3, t4 = ((t**power).sum() for power in (2, 3, 4))
    slope = by_t / t2
    # The sum of t² (strength - mean - slope t)², written out (White 1980).
    left = (
        late_squares
        + mean**2 * t2
        + slope**2 * t4
        - 2 * mean * by_t2
        - 2 * slope * by_t3
        + 2 * mean * slope * t3
    )
    return slope, np.sqrt(np.maximum(left, 0) * n / (n - 2)) / t2


def _discovered(
    change: FloatArray, error: FloatArray, alive: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    from scipy.stats import norm

    sure = np.zeros(len(change), dtype=bool)
    known = np.flatnonzero(alive & np.isfinite(change))
    if not len(known):
        return sure
    # Below rounding an error is 0, and a change is none.
    size = np.abs(change[known])
    ratio = np.where(size > 1e-9, size / np.maximum(error[known], 1e-12), 0)
    p = 2 * norm.sf(ratio)
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= _FALSE_DISCOVERIES * np.arange(1, len(p) + 1) / len(p))
    sure[known[order[: passed[-1] + 1 if len(passed) else 0]]] = True
    return sure
