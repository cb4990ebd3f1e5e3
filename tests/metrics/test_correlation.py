"""Correlation, effective rank and matching of features: closed forms and edges."""

import math

import numpy as np
import pytest

from nonneg import metrics


def test_features_that_never_meet_do_not_correlate():
    found = metrics.feature_correlation(np.eye(5))
    assert (found.value, found.averaged_over) == (0, 10)


def test_copies_correlate_fully_whatever_their_scale_and_sign():
    column = np.random.default_rng(0).normal(size=(30, 1))
    found = metrics.feature_correlation(column * np.array([1.0, -3.0, 1e-3]))
    assert found.value == pytest.approx(1)


def test_cosine_is_not_centred():
    assert metrics.feature_correlation(np.ones((4, 2)) + np.eye(4)[:, :2]).value > 0.8


def test_opposite_signs_do_not_cancel():
    # Columns 0 and 1 have cosine +1/2, columns 0 and 2 have -1/2.
    Z = np.array([[1, 1, -1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    found = metrics.feature_correlation(Z)
    assert found.per_feature[0] == pytest.approx(0.5)
    assert not found.signed


@pytest.mark.parametrize("n_alive", [0, 1])
def test_fewer_than_two_alive_features_have_no_correlation(n_alive):
    Z = np.zeros((3, 4))
    Z[:, :n_alive] = 1
    found = metrics.feature_correlation(Z)
    assert math.isnan(found.value)
    assert (found.averaged_over, found.n_alive) == (0, n_alive)


def test_dead_features_are_left_out():
    Z = np.random.default_rng(0).random((20, 4))
    more = np.hstack([Z[:, :2], np.zeros((20, 3)), Z[:, 2:]])
    found = metrics.feature_correlation(more)
    assert found.value == pytest.approx(metrics.feature_correlation(Z).value)
    assert np.isnan(found.per_feature).tolist() == [False, False, True, True, True, False, False]


@pytest.mark.parametrize("n", [3, 50, 9000])
def test_effective_rank_of_equal_directions_is_their_number(n):
    Z = np.zeros((n, 5))
    Z[np.arange(n) % 3 == 0, 0] = 1
    Z[np.arange(n) % 3 == 1, 1] = 1
    Z[np.arange(n) % 3 == 2, 4] = 1
    if n % 3 == 0:
        assert metrics.effective_rank(Z).value == pytest.approx(3)
    found = metrics.effective_rank(Z)
    np.testing.assert_allclose(found.singular_values[3:], 0, atol=1e-9)


def test_effective_rank_is_the_exponential_of_the_entropy():
    found = metrics.effective_rank(np.diag([3.0, 1.0]))
    assert found.value == pytest.approx(math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25)))
    assert found.singular_values.tolist() == pytest.approx([3, 1])


def test_effective_rank_of_one_direction_is_one():
    rng = np.random.default_rng(0)
    Z = rng.random((5000, 1)) * rng.random(8)
    assert metrics.effective_rank(Z).value == pytest.approx(1, abs=1e-6)


def test_effective_rank_of_nothing_is_nan():
    found = metrics.effective_rank(np.zeros((4, 3)))
    assert math.isnan(found.value)
    assert found.averaged_over == 0


@pytest.mark.parametrize("faintest", [1.0, 1e-3, 1e-9])
@pytest.mark.parametrize("n", [4, 200, 9000])
def test_effective_rank_agrees_with_a_full_decomposition(n, faintest):
    rng = np.random.default_rng(0)
    Z = rng.random((n, 6)) * np.geomspace(1, faintest, 6)
    Z[:, 4] = 0
    singular = np.linalg.svd(Z, compute_uv=False)
    share = singular[singular > 0] / singular.sum()
    found = metrics.effective_rank(Z)
    np.testing.assert_allclose(found.singular_values, singular, rtol=1e-5, atol=1e-12)
    assert found.value == pytest.approx(math.exp(-(share * np.log(share)).sum()), abs=1e-8)


@pytest.mark.parametrize("noise", [0.0, 3e-8, 1e-6])
def test_effective_rank_of_near_copies_is_exact(noise):
    # Their singular values drown in the rounding of ZᵀZ.
    rng = np.random.default_rng(0)
    Z = np.hstack([rng.random((300, 5))] * 20)
    Z += noise * rng.random(Z.shape)
    singular = np.linalg.svd(Z, compute_uv=False)
    share = singular[singular > 0] / singular.sum()
    expected = math.exp(-(share * np.log(share)).sum())
    assert metrics.effective_rank(Z).value == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("shape", [(900, 600), (600, 900)])
def test_effective_rank_of_many_directions_is_exact_to_five_digits(shape):
    """Most of them are hardly used, which the square of the matrix shows less exactly."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(shape[0], 50)) @ rng.normal(size=(50, shape[1]))
    Z += 1e-6 * rng.normal(size=shape)
    share = np.linalg.svd(Z, compute_uv=False)
    share /= share.sum()
    expected = np.exp(-(share * np.log(share)).sum())
    assert metrics.effective_rank(Z).value == pytest.approx(expected, rel=1e-5)


def test_a_permutation_is_found_again():
    Z = np.random.default_rng(0).random((50, 12)) ** 4
    order = np.random.default_rng(1).permutation(12)
    found = metrics.match_features(Z, Z[:, order] * 3)
    np.testing.assert_array_equal(order[found.partner], np.arange(12))
    assert found.value == pytest.approx(1)
    assert (found.n_returned, found.return_rate) == (12, 1)


def test_the_sum_of_cosines_counts_not_the_best_single_pair():
    # Feature 0 is like both, feature 1 like the first only: the best total gives it away.
    Z_1 = np.array([[1, 1], [1, 0], [0, 0]])
    Z_2 = np.array([[1, 1], [0, 1], [0, 1]])
    found = metrics.match_features(Z_1, Z_2)
    assert found.partner.tolist() == [1, 0]


def test_threshold_decides_what_returns():
    Z_1, Z_2 = np.eye(3), np.eye(3)
    Z_2[1, 2] = 1  # column 2 now has cosine 1/√2 with its partner
    assert metrics.match_features(Z_1, Z_2, threshold=0.7).n_returned == 3
    assert metrics.match_features(Z_1, Z_2, threshold=0.72).n_returned == 2
    assert metrics.match_features(Z_1, Z_2).n_returned == 2


def test_runs_of_different_width_leave_some_without_partner():
    Z = np.random.default_rng(0).random((30, 5)) ** 4
    found = metrics.match_features(np.hstack([Z, np.zeros((30, 1))]), Z[:, [3, 1]])
    assert found.partner.tolist() == [-1, 1, -1, 0, -1, -1]
    assert (found.n_alive, found.n_dead, found.n_alive_second) == (5, 1, 2)
    assert (found.averaged_over, found.return_rate) == (2, 0.4)


def test_sign_of_a_signed_feature_is_arbitrary():
    Z = np.random.default_rng(0).normal(size=(30, 4))
    found = metrics.match_features(Z, -Z)
    assert found.value == pytest.approx(1)
    assert found.signed


def test_nothing_alive_has_no_partner():
    found = metrics.match_features(np.zeros((3, 2)), np.eye(3))
    assert math.isnan(found.value)
    assert found.partner.tolist() == [-1, -1]
