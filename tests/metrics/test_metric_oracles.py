"""Every metric against loops and ``math``, on small matrices that hypothesis makes nasty.

Entries are small integers, so ties, dead columns, rows of zeros, constant columns and one-class
labels occur all the time; the scale makes squares overflow or vanish in float32.
"""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nonneg import metrics

TOLERANCE = 1e-6
relaxed = settings(deadline=None, max_examples=40)


generators = st.builds(random.Random, st.integers(0, 1 << 32))


def matrices(low=-2, high=3, rows=8, columns=6):
    shapes = st.tuples(st.integers(1, rows), st.integers(1, columns))
    entries = st.integers(low, high).map(float)
    return st.builds(
        lambda Z, scale: (Z * scale).astype(np.float32),
        shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=entries)),
        st.sampled_from([1.0, 1.0, 1e30, 1e-25]),
    )


@st.composite
def labelled(draw, **kinds):
    Z = draw(matrices(**kinds))
    y = draw(hnp.arrays(np.int64, len(Z), elements=st.integers(0, draw(st.integers(0, 3)))))
    return Z, y


def unit(row):
    length = math.sqrt(math.fsum(float(z) ** 2 for z in row))
    return [float(z) / length if length else 0.0 for z in row]


def units(Z):
    return [unit(row) for row in Z]


def cosine(u, v):
    return math.fsum(a * b for a, b in zip(unit(u), unit(v), strict=True))


def is_active(z, threshold=1e-5):
    return abs(z) > threshold


def mean_or_nan(numbers):
    numbers = list(numbers)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def same(found, expected):
    return found == pytest.approx(expected, abs=TOLERANCE, rel=TOLERANCE, nan_ok=True)


@relaxed
@given(matrices())
def test_sparsity(Z):
    off = [[not is_active(z) for z in row] for row in units(Z)]
    columns = list(zip(*off, strict=True))
    alive = [column for column in columns if not all(column)]
    found = metrics.sparsity(Z)
    assert same(found.value, mean_or_nan(x for row in off for x in row))
    assert same(found.value_alive, mean_or_nan(x for column in alive for x in column))
    assert same(found.per_feature.tolist(), [mean_or_nan(column) for column in columns])
    assert (found.n_alive, found.n_dead) == (len(alive), len(columns) - len(alive))
    assert found.n_zero_rows == sum(all(row) for row in off)
    assert found.signed == bool((Z < 0).any())
    assert same(metrics.active_per_sample(Z).value, mean_or_nan(row.count(False) for row in off))


@relaxed
@given(labelled(), st.integers(1, 3))
def test_class_consistency_and_entropy(sample, min_active):
    Z, y = sample
    min_active = min(min_active, len(Z))
    purity, entropy = [], []
    for column in zip(*units(Z), strict=True):
        classes = Counter(c for z, c in zip(column, y.tolist(), strict=True) if is_active(z))
        n = sum(classes.values())
        purity.append(max(classes.values()) / n if n >= min_active else math.nan)
        shares = [count / n for count in classes.values()]
        entropy.append(-math.fsum(p * math.log(p) for p in shares) if n else math.nan)
    found = metrics.class_consistency(Z, y, min_active=min_active)
    assert same(found.per_feature.tolist(), purity)
    assert same(found.value, mean_or_nan(p for p in purity if p == p))
    assert found.averaged_over == sum(p == p for p in purity)
    found = metrics.class_entropy(Z, y)
    assert same(found.per_feature.tolist(), entropy)
    assert same(found.value, mean_or_nan(p for p in entropy if p == p))


@relaxed
@given(labelled(low=0), st.integers(1, 4))
def test_top_purity(sample, m):
    Z, y = sample
    m = min(m, len(Z))
    expected = []
    for column in zip(*units(Z), strict=True):
        strength = [(-round(z, 6), number) for number, z in enumerate(column)]
        top = [y[number] for _, number in sorted(strength)[:m]]
        n_active = sum(map(is_active, column))
        expected.append(max(Counter(top).values()) / m if n_active >= m else math.nan)
    found = metrics.top_purity(Z.astype(np.float64), y, m)
    ties_by_rounding = _has_near_ties(units(Z))
    if not ties_by_rounding:
        assert same(found.per_feature.tolist(), expected)
    assert [p == p for p in found.per_feature.tolist()] == [p == p for p in expected]


def _has_near_ties(rows):
    """Equal activations of rows of different length, which rounding may order either way."""
    columns = zip(*rows, strict=True)
    return any(0 < abs(a - b) < 1e-9 for column in columns for a in column for b in column)


@relaxed
@given(matrices())
def test_feature_correlation(Z):
    columns = list(zip(*Z.tolist(), strict=True))
    alive = [i for i, c in enumerate(zip(*units(Z), strict=True)) if any(map(is_active, c))]
    expected = [math.nan] * len(columns)
    if len(alive) > 1:
        for i in alive:
            others = [abs(cosine(columns[i], columns[j])) for j in alive if j != i]
            expected[i] = mean_or_nan(others)
    found = metrics.feature_correlation(Z)
    assert same(found.per_feature.tolist(), expected)
    assert same(found.value, mean_or_nan(e for e in expected if e == e))


@relaxed
@given(matrices())
def test_effective_rank(Z):
    # The eigenvalues of a small Gram matrix, not the library's decomposition.
    small = Z.astype(np.float64) / (float(np.abs(Z).max()) or 1)
    singular = np.sqrt(np.clip(np.linalg.eigvalsh(small @ small.T), 0, None))
    singular = singular[singular > 1e-6].tolist()
    shares = [s / math.fsum(singular) for s in singular]
    expected = math.exp(-math.fsum(p * math.log(p) for p in shares)) if shares else math.nan
    assert same(metrics.effective_rank(Z).value, expected)


@relaxed
@given(matrices())
def test_expected_activation(Z):
    rectified = [[max(float(z), 0.0) for z in row] for row in Z]
    for on, rows in (("rectified", rectified), ("signed", Z)):
        expected = [mean_or_nan(column) for column in zip(*units(rows), strict=True)]
        found = metrics.expected_activation(Z, on=on)
        assert same(found.per_feature.tolist(), expected)
        assert same(found.value, mean_or_nan(expected))


@relaxed
@given(labelled(), st.integers(1, 5))
def test_retrieval_leave_one_out(sample, k):
    Z, y = sample
    if len(Z) < 2:
        return
    k = min(k, len(Z) - 1)
    _assert_retrieval(Z, y, Z, y, k, alone=True)


@relaxed
@given(matrices(rows=6, columns=3), st.integers(1, 4), generators)
def test_retrieval_from_a_gallery(Z, k, rng):
    gallery = Z[[rng.randrange(len(Z)) for _ in range(5)]] * np.float32(2)
    y, y_gallery = (np.array([rng.randrange(3) for _ in part]) for part in (Z, gallery))
    _assert_retrieval(Z, y, gallery, y_gallery, min(k, len(gallery)), alone=False)


def _assert_retrieval(Z, y, gallery, y_gallery, k, *, alone):
    precision, average = [], []
    for i, query in enumerate(Z):
        order = sorted(
            (-round(cosine(query, row), 9), j)
            for j, row in enumerate(gallery)
            if any(row) and any(query) and not (alone and i == j)
        )
        hits = [bool(y_gallery[j] == y[i]) for _, j in order[:k]]
        n_relevant = sum(int(c == y[i]) for c in y_gallery) - alone
        precision.append(sum(hits) / k)
        at_hits = [sum(hits[: j + 1]) / (j + 1) for j, hit in enumerate(hits) if hit]
        average.append(math.fsum(at_hits) / max(1, min(k, n_relevant)))
    pool = None if alone else (gallery, y_gallery)
    found = metrics.precision_at_k(Z, y, k, gallery=pool)
    assert same(found.per_sample.tolist(), precision)
    assert found.n_zero_rows == sum(not any(row) for row in Z)
    assert found.n_zero_gallery == sum(not any(row) for row in gallery)
    found = metrics.mean_average_precision_at_k(Z, y, k, gallery=pool)
    assert same(found.per_sample.tolist(), average)
    assert same(found.value, mean_or_nan(average))


@relaxed
@given(matrices(columns=4), generators)
def test_monosemanticity(Z, rng):
    reference = [[rng.gauss(0, 1) for _ in range(3)] for _ in Z]
    reference[0] = [0.0, 0.0, 0.0]
    expected = []
    for column in zip(*units(Z), strict=True):
        pairs = [(i, j) for i in range(len(Z)) for j in range(len(Z)) if i != j]
        weights = [abs(column[i] * column[j]) for i, j in pairs]
        alike = [cosine(reference[i], reference[j]) for i, j in pairs]
        enough = sum(map(is_active, column)) >= 2
        weighted = math.fsum(w * s for w, s in zip(weights, alike, strict=True))
        expected.append(weighted / math.fsum(weights) if enough else math.nan)
    found = metrics.monosemanticity(Z, reference)
    assert same(found.per_feature.tolist(), expected)
    assert same(found.value, mean_or_nan(e for e in expected if e == e))


def info_nce(rows_a, rows_b, temperature, negatives):
    """The loss by its definition, one anchor at a time."""
    losses = []
    n = len(rows_a)
    for views in ((rows_a, rows_b), (rows_b, rows_a)):
        for i in range(n):
            anchor = views[0][i]
            candidates = list(views[1])
            if negatives == "both":
                candidates += [row for j, row in enumerate(views[0]) if j != i]
            logits = [
                math.fsum(a * c for a, c in zip(anchor, row, strict=True)) / temperature
                for row in candidates
            ]
            top = max(logits)
            total = math.fsum(math.exp(logit - top) for logit in logits)
            losses.append(top + math.log(total) - logits[i])
    return math.fsum(losses) / len(losses)


@settings(deadline=None, max_examples=50)
@given(
    matrices(rows=5, columns=4),
    generators,
    st.sampled_from([0.002, 0.05, 0.2, 1.0]),
    st.sampled_from(["plain", "renormalised"]),
    st.sampled_from(["both", "cross"]),
)
def test_sepin(Z_a, rng, temperature, convention, negatives):
    Z_b = np.array([[z * rng.choice([0, 1, 1, 2]) for z in row] for row in Z_a], np.float32)
    a, b = units(Z_a), units(Z_b)
    whole = info_nce(a, b, temperature, negatives)
    expected = []
    for i in range(Z_a.shape[1]):
        left = [[[*row[:i], 0.0, *row[i + 1 :]] for row in view] for view in (a, b)]
        if convention == "renormalised":
            left = [units(view) for view in left]
        expected.append(info_nce(*left, temperature, negatives) - whole)
    found = metrics.sepin(
        Z_a, Z_b, temperature=temperature, convention=convention, negatives=negatives, k=(1, "all")
    )
    assert same(found.info_nce, whole)
    assert same(found.per_feature.tolist(), expected)
    assert same(found.at[1], max(expected))
    assert same(found.at["all"], mean_or_nan(expected))


@relaxed
@given(matrices(low=0, rows=6, columns=3), generators)
def test_match_features(Z, rng):
    order = rng.sample(range(Z.shape[1]), Z.shape[1])
    other = Z[:, order]
    columns, others = (list(zip(*part.tolist(), strict=True)) for part in (Z, other))
    alive = [i for i, c in enumerate(zip(*units(Z), strict=True)) if any(map(is_active, c))]
    found = metrics.match_features(Z, other)
    assert found.n_alive == found.n_returned == len(alive)
    for i, partner in enumerate(found.partner.tolist()):
        if i in alive:
            assert same(cosine(columns[i], others[partner]), 1)
        else:
            assert partner == -1


@relaxed
@given(matrices(columns=4), generators, st.integers(1, 5))
def test_mutual_information_and_attribute_gaps(Z, rng, n_bins):
    if len(Z) < 2:
        return
    factor = [0, 1] + [rng.randrange(3) for _ in range(len(Z) - 2)]
    information, fit = [], []
    for column in zip(*Z.astype(np.float64).tolist(), strict=True):
        low, high = min(column), max(column)
        width = (high - low) or 1
        bins = [min(int((z - low) / width * n_bins), n_bins - 1) for z in column]
        information.append(_mutual_information(bins, factor))
        fit.append(_squared_correlation(column, factor))
    gap = sorted([0, *information])[-1] - sorted([0, *information])[-2]
    table = np.array(factor)[:, None]
    entropy = _mutual_information(factor, factor)
    assert same(metrics.mig(Z, table, n_bins=n_bins).value, gap / entropy)
    gap = sorted([0, *fit])[-1] - sorted([0, *fit])[-2]
    assert same(metrics.sap(Z, table).value, gap)


def _mutual_information(first, second):
    n = len(first)
    joint, p, q = Counter(zip(first, second, strict=True)), Counter(first), Counter(second)
    return math.fsum(c / n * math.log(c * n / (p[a] * q[b])) for (a, b), c in joint.items())


def _squared_correlation(first, second):
    n = len(first)
    a = [x - math.fsum(first) / n for x in first]
    b = [x - math.fsum(second) / n for x in second]
    size = max(map(abs, a))
    if size <= 1e-12 * max(map(abs, first), default=0) or size == 0:
        return 0.0
    a = [x / size for x in a]
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return product**2 / math.fsum(x * x for x in a) / math.fsum(y * y for y in b)
