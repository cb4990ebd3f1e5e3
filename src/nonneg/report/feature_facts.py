"""Facts about each feature: how often, how strongly and with which others it fires."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.correlation import cosine_block, unit_column_blocks
from nonneg.metrics.figures import MIN_ACTIVE
from nonneg.metrics.inputs import FeatureLike, Features, checked_features
from nonneg.metrics.purity import class_counts
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.rows import row_lengths

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


def column_cosines(Z: FeatureLike, which: IntArray) -> NDArray[np.float32]:
    """Absolute cosines between the columns of some features, ``(k, k)``.

    Args:
        Z: Features ``(n, d)``.
        which: Numbers of features ``(k,)``; a dead one has cosine 0 with all, itself too.

    Example:
        >>> column_cosines([[3, 1], [4, 0]], np.array([0, 1])).round(3).tolist()
        [[1.0, 0.6000000238418579], [0.6000000238418579, 1.0]]
    """
    features = checked_features(Z)
    chosen = torch.from_numpy(which)
    cosines = np.zeros((len(which), len(which)), dtype=np.float32)
    for here, first in unit_column_blocks(features, chosen):
        for there, second in unit_column_blocks(features, chosen):
            cosines[here, there] = cosine_block(first, second).abs_().cpu().numpy()
    return cosines


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
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(cosines) < 3:
        return np.arange(len(cosines))
    distance = np.clip(1 - cosines.astype(np.float64), 0, 1)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform((distance + distance.T) / 2, checks=False), method="average")
    return leaves_list(tree).astype(np.int64)


def layout(cosines: NDArray[np.float32], *, seed: int = 0) -> FloatArray:
    """A place in the unit square for each feature, near those that it fires with, ``(m, 2)``.

    t-SNE of one minus the cosine. Fewer than five features are put on a line.
    """
    m = len(cosines)
    if m < 5:
        return np.stack([(np.arange(m) + 0.5) / max(m, 1), np.full(m, 0.5)], axis=1)
    from sklearn.manifold import TSNE

    distance = np.clip(1 - cosines, 0, 1)
    np.fill_diagonal(distance, 0)
    places = TSNE(
        metric="precomputed",
        init=_first_places(cosines, seed),
        perplexity=min(15.0, (m - 1) / 3),
        learning_rate="auto",
        max_iter=500,
        random_state=seed,
    ).fit_transform(distance)
    low, high = places.min(axis=0), places.max(axis=0)
    scaled: FloatArray = (places - low) / np.where(high > low, high - low, 1)
    return scaled


def _first_places(cosines: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """The two main directions of the cosines, small and slightly shaken, ``(m, 2)``."""
    from scipy.sparse.linalg import eigsh

    rng = np.random.default_rng(seed)
    centred = _centred(cosines)
    if np.abs(centred).max() < 1e-6:  # all fire alike, as after a collapse: no direction is main
        return (1e-4 * rng.normal(size=(len(cosines), 2))).astype(np.float32)
    _, vectors = eigsh(centred, k=2, v0=rng.normal(size=len(cosines)))
    start = vectors / np.maximum(vectors.std(axis=0), 1e-12)
    shaken: NDArray[np.float32] = (1e-4 * (start + 0.1 * rng.normal(size=start.shape))).astype(
        np.float32
    )
    return shaken


def _centred(cosines: NDArray[np.float32]) -> FloatArray:
    """Rows and columns with mean 0, symmetric."""
    symmetric = (cosines + cosines.T).astype(np.float64) / 2
    mean = symmetric.mean(axis=0)
    centred: FloatArray = symmetric - mean - mean[:, None] + mean.mean()
    return centred
