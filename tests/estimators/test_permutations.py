"""Permutation tests of sparse features, and what they are corrected to."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import false_discovery_control

from nonneg.estimators import permutation_p
from nonneg.estimators.permutations import adjusted_p, bootstrap_means


def exact_p(values, scores):
    """Twice the smaller tail over all orders, in whole numbers."""
    sums = [
        sum(v * s for v, s in zip(values, order, strict=True)) for order in permutations(scores)
    ]
    given = sum(v * s for v, s in zip(values, scores, strict=True))
    high = Fraction(sum(one >= given for one in sums), len(sums))
    low = Fraction(sum(one <= given for one in sums), len(sums))
    return min(1.0, float(2 * min(high, low)))


@pytest.mark.parametrize("scores", [[1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0], range(7)])
def test_p_values_are_those_of_all_orders(scores):
    features = np.array(
        [[5, 3, 2, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 4], [1, 0, 2, 0, 3, 0, 4], [0, 7, 0, 0, 0, 0, 0]]
    ).T
    p = permutation_p(
        sparse.csr_array(features.astype(float)),
        np.array(scores, float)[:, None],
        alpha=0.001,  # so that the small ones go on to the most
        rng=np.random.default_rng(0),
        most=20_000,
    )
    exact = [exact_p(column.tolist(), list(scores)) for column in features.T]
    # Each has at least 1,000 draws, of which a tail of a half has a standard error of .016.
    np.testing.assert_allclose(p[:, 0], exact, atol=2 * 4 * 0.016)
    small = np.array(exact) < 0.1
    np.testing.assert_allclose(p[small, 0], np.array(exact)[small], atol=0.03)


def test_equal_sums_count_as_equal_in_any_order_of_adding():
    """Tenths have no exact binary form: sums of the same numbers differ in the last bit."""
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6] * 20)
    rows = sparse.csr_array(values[:, None])
    scores = np.ones((120, 1))  # every order has the same sum
    p = permutation_p(rows, scores, alpha=0.05, rng=np.random.default_rng(0))
    assert p[0, 0] == 1


def test_p_values_of_no_difference_are_uniform_or_larger():
    """Zeros, heavy tails and a group of 6 in 150: no more than a share t is up to t."""
    rng = np.random.default_rng(0)
    Z = rng.lognormal(sigma=2, size=(150, 1500)) * (rng.random((150, 1500)) < 0.1)
    scores = np.zeros((150, 2))
    scores[:6, 0] = 1
    scores[:, 1] = np.linspace(-0.5, 0.5, 150)
    p = permutation_p(sparse.csr_array(Z), scores, alpha=0.05, rng=rng)
    for t in (0.01, 0.05, 0.2, 0.5):
        assert ((p <= t).mean(axis=0) <= t + 4 * np.sqrt(t * (1 - t) / 1500)).all()
    # The trend has many values, so that its p-values are not much larger either.
    assert ((p[:, 1] <= 0.2).mean()) > 0.15


def test_what_may_be_significant_gets_more_permutations():
    """One changed feature among 2,000 has to be beyond 0.05 / 2,000, after 1,000 for all."""
    rng = np.random.default_rng(0)
    Z = (rng.random((200, 2000)) < 0.1).astype(float)
    group = (np.arange(200) < 100).astype(float)[:, None]
    Z[:, 0] = group[:, 0]
    rows = sparse.csr_array(Z)
    p = permutation_p(rows, group, alpha=0.05, rng=rng)
    assert p[0, 0] <= 0.05 / 2000
    assert adjusted_p(p)[0, 0] <= 0.05
    assert (adjusted_p(p)[1:] > 0.05).all()
    few = permutation_p(rows, group, alpha=0.05, rng=rng, most=500)
    assert few.min() == 2 / 501


def test_one_comparison_per_feature_is_corrected_as_by_scipy():
    p = np.random.default_rng(0).random((40, 1)) ** 3
    p[3] = p[7]
    np.testing.assert_allclose(adjusted_p(p)[:, 0], false_discovery_control(p[:, 0]))


def chosen(p, alpha):
    """The comparisons that are significant at alpha, by the three steps of the method."""

    def step_up(values, level):
        ranked = sorted(values)
        most = [k for k in range(1, len(ranked) + 1) if ranked[k - 1] <= level * k / len(ranked)]
        return ranked[max(most) - 1] if most else -1.0

    simes = [
        min(sorted(row)[k] * len(row) / (k + 1) for k in range(len(row))) for row in p.tolist()
    ]
    limit = step_up(simes, alpha)
    n_chosen = sum(value <= limit for value in simes)
    found = np.zeros(p.shape, bool)
    for j, row in enumerate(p.tolist()):
        if simes[j] <= limit:
            found[j] = np.array(row) <= step_up(row, alpha * n_chosen / len(p))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_several_comparisons_are_corrected_in_two_steps(seed):
    p = np.random.default_rng(seed).random((12, 4)) ** (1 + seed)
    adjusted = adjusted_p(p)
    for alpha in (0.003, 0.01, 0.05, 0.2, 0.6, 0.9):
        np.testing.assert_array_equal(adjusted <= alpha, chosen(p, alpha))


def test_corrected_values_are_in_range_and_keep_the_order_of_features_and_comparisons():
    rng = np.random.default_rng(0)
    p = rng.random((30, 5))
    rows, columns = rng.permutation(30), rng.permutation(5)
    adjusted = adjusted_p(p)
    np.testing.assert_allclose(adjusted_p(p[rows][:, columns]), adjusted[rows][:, columns])
    assert (adjusted >= p).all()
    assert (adjusted <= 1).all()


def test_bootstrap_means_have_the_mean_and_the_spread_of_theory():
    on = np.arange(400) < 100
    Z = sparse.csr_array(np.stack([on * 0.8, np.full(400, 0.3)], axis=1))
    means = bootstrap_means(Z, 4000, np.random.default_rng(0))
    spread = 0.8 * np.sqrt(0.25 * 0.75 / 400)
    assert means[0].mean() == pytest.approx(0.2, abs=4 * spread / np.sqrt(4000))
    assert means[0].std() == pytest.approx(spread, rel=0.05)
    np.testing.assert_allclose(means[1], 0.3)


def test_intervals_hold_the_mean_as_often_as_they_say():
    """On for a fifth of 200 samples: 95 of 100 intervals hold the true mean, 0.2 times 0.4."""
    rng = np.random.default_rng(0)
    Z = (rng.random((200, 1000)) < 0.2) * rng.beta(2, 3, size=(200, 1000))
    means = bootstrap_means(sparse.csr_array(Z), 1000, rng)
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    assert 0.92 < ((low <= 0.08) & (high >= 0.08)).mean() < 0.98
