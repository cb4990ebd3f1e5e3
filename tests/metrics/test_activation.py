"""Expected activation and selection."""

import numpy as np
import pytest

from nonneg import metrics


def test_rectified_and_signed_ranking_differ_on_signed_features():
    Z = np.array([[1.0, -2.0, 0.1], [1.0, 2.0, 0.1], [0.1, -2.0, 0.1]])
    assert metrics.select(Z, 3, by="ea_rectified").tolist() == [0, 1, 2]
    assert metrics.select(Z, 3, by="ea_signed").tolist() == [0, 2, 1]


def test_rows_are_normalised_after_rectifying():
    found = metrics.expected_activation([[3.0, -4.0]])
    assert found.per_feature.tolist() == [1, 0]
    assert metrics.expected_activation([[3.0, -4.0]], on="signed").per_feature.tolist() == (
        pytest.approx([0.6, -0.8])
    )


def test_a_loud_sample_has_no_more_say_than_a_quiet_one():
    found = metrics.expected_activation([[100.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert found.per_feature.tolist() == pytest.approx([1 / 3, 2 / 3])


def test_equals_keep_their_order():
    assert metrics.select(np.ones((4, 6)), 4).tolist() == [0, 1, 2, 3]


def test_variance_takes_what_changes():
    Z = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]] * 5)
    assert metrics.select(Z, 2, by="variance").tolist() == [1, 2]


def test_random_draws_from_the_alive_first():
    Z = np.zeros((4, 20))
    Z[:, [3, 7, 11]] = 1
    for seed in range(5):
        chosen = metrics.select(Z, 5, by="random", random_state=seed)
        assert set(chosen[:3]) == {3, 7, 11}
        assert len(set(chosen)) == 5
    draws = {tuple(metrics.select(Z, 2, by="random", random_state=seed)) for seed in range(20)}
    assert len(draws) > 3


def test_random_is_repeatable():
    Z = np.ones((4, 20))
    first, second = (metrics.select(Z, 5, by="random", random_state=3) for _ in "ab")
    np.testing.assert_array_equal(first, second)


def test_dead_and_alive_are_counted():
    found = metrics.expected_activation([[1.0, 0.0, 2.0]])
    assert (found.n_alive, found.n_dead, found.averaged_over) == (2, 1, 3)
    assert found.higher_is_better is None
