"""Facts of features against loops that share no code, and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nonneg.report.feature_facts import MIN_ACTIVE, N_BANDS, N_BINS, feature_facts


def sparse_features(n=120, d=7, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.random((n, d)) * (rng.random((n, d)) < 0.4)
    Z[:, 3] = 0  # dead
    return Z, rng.integers(4, size=n)


def slow_strength(Z):
    lengths = [math.sqrt(sum(v * v for v in row)) or 1 for row in Z.tolist()]
    return [[abs(v) / length for v in row] for row, length in zip(Z.tolist(), lengths, strict=True)]


@pytest.mark.parametrize("signed", [False, True])
def test_facts_agree_with_loops(signed):
    Z, labels = sparse_features()
    if signed:
        Z[::3] *= -1
    facts = feature_facts(Z, labels=labels, n_top=5)
    strength = slow_strength(Z)
    assert facts.signed is signed
    for j in range(Z.shape[1]):
        column = [row[j] for row in strength]
        on = sorted(
            (i for i in range(len(column)) if column[i] > 1e-5), key=lambda i: (-column[i], i)
        )
        assert facts.expected[j] == pytest.approx(sum(column) / len(column))
        assert facts.n_active[j] == len(on)
        assert facts.top[j].tolist() == (on[:5] + [-1] * 5)[:5]
        assert facts.histogram[j].sum() == len(on)
        for label in range(4):
            assert facts.class_counts[label, j] == sum(labels[i] == label for i in on)
        if not on:
            assert facts.main_class[j] == -1
            assert math.isnan(facts.purity[j])
            continue
        first = [int(labels[i]) for i in on[:MIN_ACTIVE]]
        commonest = max(range(4), key=lambda c: (first.count(c), -c))
        assert facts.main_class[j] == commonest
        assert facts.main_histogram[j].sum() == sum(labels[i] == commonest for i in on)
        assert facts.purity[j] == pytest.approx(first.count(commonest) / MIN_ACTIVE)
        exceptions = [i for i in on if labels[i] != commonest]
        assert [i for i in facts.exceptions[j] if i >= 0] == exceptions[:6]


def test_purity_needs_twenty_active_samples():
    Z = np.zeros((40, 2))
    Z[:19, 0] = 1
    Z[19:, 1] = 1
    facts = feature_facts(Z, labels=np.zeros(40, dtype=int))
    assert math.isnan(facts.purity[0])
    assert facts.purity[1] == 1


def test_bands_divide_the_range_of_activations():
    angles = np.arccos(np.linspace(0.01, 1, 100))
    Z = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # feature 0 is 0.01, 0.02, … 1
    facts = feature_facts(Z, n_spread=3)
    strength = Z[:, 0]
    for band in range(N_BANDS):
        low, high = band / N_BANDS, (band + 1) / N_BANDS
        numbers = facts.spread[0, band]
        assert (numbers >= 0).all()
        assert ((strength[numbers] >= low - 1e-9) & (strength[numbers] <= high + 1e-9)).all()
        assert strength[numbers[0]] > strength[numbers[1]] > strength[numbers[2]]
    assert facts.histogram[0].tolist() == pytest.approx([100 / N_BINS] * N_BINS, abs=1)


def test_examples_are_positions_among_the_shown_while_counts_are_of_all():
    Z, labels = sparse_features()
    shown = np.array([3, 50, 51, 90])
    whole, part = feature_facts(Z, labels=labels), feature_facts(Z, shown=shown, labels=labels)
    np.testing.assert_array_equal(whole.n_active, part.n_active)
    np.testing.assert_array_equal(whole.histogram, part.histogram)
    np.testing.assert_array_equal(whole.purity, part.purity)
    for j in range(Z.shape[1]):
        expected = [int(np.flatnonzero(shown == i)[0]) for i in whole.top[j] if i in shown]
        found = [i for i in part.top[j] if i >= 0]
        assert found[: len(expected)] == expected
        assert set(found) <= {0, 1, 2, 3}


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=20)
def test_length_and_order_of_rows_do_not_matter(seed):
    Z, labels = sparse_features(n=60, seed=seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(Z))
    scaled = Z * rng.uniform(0.5, 20, size=(len(Z), 1))
    one = feature_facts(Z, labels=labels)
    other = feature_facts(scaled[order], labels=labels[order])
    np.testing.assert_allclose(one.expected, other.expected, rtol=1e-6)
    np.testing.assert_array_equal(one.class_counts, other.class_counts)
    np.testing.assert_array_equal(one.histogram, other.histogram)
    # Not the numbers: samples with one active feature all have strength 1.
    np.testing.assert_allclose(one.top_strength, other.top_strength, rtol=1e-6)


def test_sparse_and_dense_give_the_same():
    Z, labels = sparse_features()
    dense, compressed = (feature_facts(part, labels=labels) for part in (Z, sparse.csr_array(Z)))
    for name in ("expected", "top", "histogram", "spread", "class_counts", "purity"):
        np.testing.assert_array_equal(getattr(dense, name), getattr(compressed, name))


def test_input_is_left_as_it_was():
    Z, labels = sparse_features()
    before = Z.copy()
    feature_facts(Z, labels=labels)
    np.testing.assert_array_equal(Z, before)


def test_without_labels_there_are_no_classes():
    facts = feature_facts([[1.0, 0.0], [0.0, 1.0]])
    assert facts.class_counts.shape == (0, 2)
    assert facts.main_class.tolist() == [-1, -1]
    assert np.isnan(facts.purity).all()
