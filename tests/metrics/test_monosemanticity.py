"""Monosemanticity and the intruder test: closed forms, edges and a slow oracle."""

import math

import numpy as np
import pytest

from nonneg import metrics
from nonneg.metrics.inputs import checked_features
from nonneg.metrics.monosemanticity import intruder_trials

REFERENCE = np.eye(3)[np.arange(30) % 3]


def test_a_feature_of_one_kind_scores_one_and_one_of_all_kinds_the_null():
    Z = np.hstack([REFERENCE, np.ones((30, 1))])
    found = metrics.monosemanticity(Z, REFERENCE)
    assert found.per_feature[:3].tolist() == pytest.approx([1, 1, 1])
    assert found.null == pytest.approx(9 / 29)  # 9 alike among the 29 others
    # The always-on feature has the same value for every sample once rows have length 1.
    assert found.per_feature[3] == pytest.approx(found.null)


def test_strong_samples_count_more():
    other = np.sqrt(1 - np.array([0.9, 0.9, 0.1]) ** 2)
    Z = np.stack([[0.9, 0.9, 0.1], other], axis=1)
    found = metrics.monosemanticity(Z, [[1.0, 0], [1, 0], [0, 1]])
    assert found.per_feature[0] == pytest.approx(0.81 / (0.81 + 0.09 + 0.09))


def test_opposite_samples_count_against():
    found = metrics.monosemanticity(np.ones((2, 1)), [[1.0, 0.0], [-2.0, 0.0]])
    assert found.value == pytest.approx(-1)


def test_a_feature_of_one_sample_is_not_measured():
    found = metrics.monosemanticity(np.eye(3), REFERENCE[:3])
    assert math.isnan(found.value)
    assert (found.averaged_over, found.n_alive) == (0, 3)


def test_a_faint_second_sample_loses_no_digits():
    Z = np.array([[1.0, 0.0], [2e-5, 1.0]])
    found = metrics.monosemanticity(Z.astype(np.float32), [[1.0, 0.0], [0.6, 0.8]])
    assert found.per_feature[0] == pytest.approx(0.6, abs=1e-6)


def test_length_of_the_reference_does_not_matter():
    Z = np.random.default_rng(0).random((30, 5))
    scaled = REFERENCE * np.arange(1, 31)[:, None]
    found, expected = (metrics.monosemanticity(Z, part).value for part in (scaled, REFERENCE))
    assert found == pytest.approx(expected)


def test_an_intruder_among_orthogonal_kinds_is_always_found():
    found = metrics.intruder_accuracy(REFERENCE, REFERENCE * np.arange(1, 31)[:, None], n_trials=7)
    assert found.per_feature.tolist() == [1, 1, 1]
    assert (found.chance, found.n_trials, found.standard_error) == (1 / 6, 21, 0)


def test_by_random_vectors_intruders_are_found_by_chance():
    rng = np.random.default_rng(0)
    Z = np.eye(40)[np.arange(1200) % 40]
    found = metrics.intruder_accuracy(Z, rng.normal(size=(1200, 50)), n_trials=50)
    assert abs(found.value - found.chance) < 3 * found.standard_error
    assert 0.004 < found.standard_error < 0.02


def test_where_all_are_alike_a_trial_counts_a_sixth():
    for reference in (np.ones((30, 2)), np.zeros((30, 2))):
        assert metrics.intruder_accuracy(REFERENCE, reference).value == pytest.approx(1 / 6)


def test_opposite_vectors_make_the_intruder_one_of_the_alike():
    # One of the five is opposite to all, so that it is the odd one and never the intruder.
    Z = np.zeros((10, 2))
    Z[:5, 0], Z[5:, 1] = 1, 1
    reference = np.ones((10, 1))
    reference[[0, 5]] = -1
    found = metrics.intruder_accuracy(Z, reference, n_trials=200)
    # A draw of the other's opposite one makes two odd ones, of which one is the intruder.
    assert found.value == pytest.approx(0.1, abs=0.04)


def test_trials_show_five_of_a_feature_and_one_that_it_is_off_for():
    rng = np.random.default_rng(0)
    Z = rng.random((80, 6)) * (rng.random((80, 6)) < 0.4)
    unit = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
    trials = intruder_trials(checked_features(Z), n_top=8, n_trials=30, random_state=3)
    assert sorted(trials) == list(range(6))
    strongest = [set(np.argsort(-column)[:8].tolist()) for column in unit.T]
    for feature, (shown, other) in trials.items():
        assert shown.shape == (30, 6)
        for row, source in zip(shown.tolist(), other.tolist(), strict=True):
            assert len(set(row)) == 6
            assert set(row[:5]) <= strongest[feature]
            assert row[5] in strongest[source]
            assert Z[row[5], feature] == 0
            assert source != feature
    drawn = {sample for shown, _ in trials.values() for sample in shown[:, :5].ravel().tolist()}
    assert drawn == set.union(*strongest)


def test_accuracy_is_that_of_loops_over_the_same_trials():
    rng = np.random.default_rng(1)
    Z = rng.random((60, 5)) * (rng.random((60, 5)) < 0.5)
    reference = rng.normal(size=(60, 4)) + 2 * (Z @ rng.normal(size=(5, 4)))
    found = metrics.intruder_accuracy(Z, reference, n_top=9, n_trials=11, random_state=5)
    trials = intruder_trials(checked_features(Z), n_top=9, n_trials=11, random_state=5)
    for feature, (shown, _) in trials.items():
        hits = 0
        for row in shown.tolist():
            vectors = [reference[i] / math.sqrt(sum(reference[i] ** 2)) for i in row]
            alike = [sum(float(a @ b) for b in vectors) - 1 for a in vectors]
            hits += alike.index(min(alike)) == 5
        assert found.per_feature[feature] == pytest.approx(hits / 11)
    assert 1 / 6 < found.value < 1
    spread = np.std(found.per_feature, ddof=1) / math.sqrt(5)
    assert found.standard_error == pytest.approx(spread)


def test_features_without_five_samples_or_without_an_intruder_are_not_measured():
    Z = np.zeros((20, 4))
    Z[:10, 0], Z[10:, 1], Z[:4, 2] = 1, 1, 1
    found = metrics.intruder_accuracy(Z, np.eye(20))
    assert np.isnan(found.per_feature).tolist() == [False, False, True, True]
    assert (found.averaged_over, found.n_alive, found.n_dead) == (2, 3, 1)
    alone = metrics.intruder_accuracy(np.ones((20, 2)), np.eye(20))
    assert math.isnan(alone.value)
    assert (alone.averaged_over, alone.n_trials) == (0, 0)
    assert math.isnan(alone.standard_error)


def test_a_seed_repeats_the_intruder_test():
    rng = np.random.default_rng(0)
    Z, reference = np.eye(4)[np.arange(60) % 4], rng.normal(size=(60, 3))
    first, again, other = (
        metrics.intruder_accuracy(Z, reference, random_state=seed).per_feature for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
