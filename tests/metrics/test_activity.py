"""Activity: the words that every metric uses."""

import math

import numpy as np
import pytest

from nonneg import metrics


def test_default_threshold_is_the_papers():
    assert metrics.ACTIVE_THRESHOLD == 1e-5
    Z = [[1.0, 0.9e-5, 1.1e-5]]
    assert metrics.active_mask(Z).tolist() == [[True, False, True]]


def test_threshold_is_strict_and_relative_to_the_row():
    assert metrics.active_mask([[0.6, 0.8]], threshold=0.6 + 1e-12).tolist() == [[False, True]]
    assert metrics.active_mask([[6e20, 8e20]], threshold=0.7).tolist() == [[False, True]]


@pytest.mark.parametrize("scale", [1e-38, 1e-25, 1e25, 1e37])
def test_entries_of_any_size(scale):
    Z = (np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0]]) * scale).astype(np.float32)
    assert metrics.active_mask(Z, threshold=0.7).tolist() == [[False, True, False], [False] * 3]
    assert metrics.expected_activation(Z).per_feature.tolist() == pytest.approx(
        [0.3, 0.4, 0], abs=1e-6
    )


def test_rows_of_very_different_size_do_not_disturb_each_other():
    Z = np.array([[3e30, 4e30], [3.0, 4.0], [3e-30, 4e-30]], np.float32)
    assert metrics.expected_activation(Z).per_feature.tolist() == pytest.approx([0.6, 0.8])


def test_dead_features_raise_sparsity_but_not_that_of_the_alive():
    Z = np.random.default_rng(0).random((50, 4)) * (np.random.default_rng(1).random((50, 4)) < 0.5)
    more = np.hstack([Z, np.zeros((50, 12))])
    before, after = metrics.sparsity(Z), metrics.sparsity(more)
    assert after.value > before.value + 0.2
    assert after.value_alive == pytest.approx(before.value_alive)
    assert (after.n_alive, after.n_dead) == (4, 12)


def test_all_dead():
    found = metrics.sparsity(np.zeros((3, 2)))
    assert found.value == 1
    assert math.isnan(found.value_alive)
    assert (found.n_alive, found.n_zero_rows) == (0, 3)


def test_dense_features_are_not_sparse():
    assert metrics.sparsity(np.random.default_rng(0).normal(size=(20, 8))).value == 0


def test_active_per_sample_and_alive_features():
    Z = [[1, 0, 2], [0, 0, 0], [0, 0, -1]]
    found = metrics.active_per_sample(Z)
    assert found.per_sample.tolist() == [2, 0, 1]
    assert found.value == 1
    assert metrics.alive_features(Z).tolist() == [True, False, True]
