"""Known factors: the closed-form cases of the literature, and good and bad codes bracketed."""

import math

import numpy as np
import pytest

from nonneg import metrics

SIZES = (4, 5, 3)
FACTORS = np.stack(np.meshgrid(*map(np.arange, SIZES), indexing="ij"), axis=-1).reshape(-1, 3)
FACTORS = np.repeat(FACTORS, 5, axis=0)
SCORES = {
    "dci": lambda Z: metrics.dci(Z, FACTORS),
    "mig": lambda Z: metrics.mig(Z, FACTORS),
    "sap": lambda Z: metrics.sap(Z, FACTORS),
    "factor_vae": lambda Z: metrics.factor_vae_score(Z, FACTORS, n_votes=100, random_state=0),
    "beta_vae": lambda Z: metrics.beta_vae_score(Z, FACTORS, n_votes=100, random_state=0),
}
everywhere = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES.keys())


@everywhere
def test_the_factors_themselves_are_a_perfect_code(score):
    assert score(FACTORS).value == pytest.approx(1, abs=1e-9)


@everywhere
def test_order_sign_and_scale_of_the_code_do_not_matter(score):
    assert score(FACTORS[:, [2, 0, 1]] * [-1.0, 1e3, 1e30]).value == pytest.approx(1, abs=1e-9)


@everywhere
def test_a_random_code_is_poor(score):
    found = score(np.random.default_rng(0).normal(size=(len(FACTORS), 3)))
    assert found.value < 0.55


@pytest.mark.parametrize("name", ["dci", "mig", "sap", "factor_vae"])
def test_a_rotation_of_the_code_is_punished(name):
    centred = (FACTORS - FACTORS.mean(axis=0)) / FACTORS.std(axis=0)
    rotation = np.array([[2, -1, 2], [2, 2, -1], [-1, 2, 2]]) / 3
    assert SCORES[name](centred @ rotation).value < 0.8


@pytest.mark.parametrize("name", ["mig", "sap"])
def test_gaps_punish_an_overcomplete_code_and_disentanglement_does_not(name):
    twice = np.hstack([FACTORS, FACTORS])
    assert SCORES[name](twice).value == pytest.approx(0, abs=1e-9)
    assert SCORES["dci"](twice).value == pytest.approx(1)


def test_one_code_for_two_factors_in_closed_form():
    importance = np.kron(np.eye(5), np.ones((1, 2)))
    per_feature, value = metrics.disentanglement(importance)
    assert value == pytest.approx(1 - math.log(2) / math.log(10))
    np.testing.assert_allclose(per_feature, value)
    assert metrics.completeness(importance)[1] == 1


def test_two_codes_for_one_factor_in_closed_form():
    importance = np.kron(np.eye(5), np.ones((2, 1)))
    assert metrics.disentanglement(importance)[1] == 1
    assert metrics.completeness(importance)[1] == pytest.approx(1 - math.log(2) / math.log(10))


def test_identity_and_uniform_importance():
    assert metrics.disentanglement(np.eye(4))[1] == 1
    assert metrics.disentanglement(np.ones((4, 4)))[1] == pytest.approx(0, abs=1e-12)


def test_disentanglement_weighs_features_by_importance():
    importance = np.array([[3.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    per_feature, value = metrics.disentanglement(importance)
    assert per_feature.tolist() == pytest.approx([1, 0, math.nan], nan_ok=True)
    assert value == pytest.approx(3 / 4)


def test_no_importance_at_all_is_nan():
    assert math.isnan(metrics.disentanglement(np.zeros((2, 2)))[1])


def test_one_code_for_two_factors_measured():
    # One feature holds the first two factors, one the third; a constant tells nothing.
    Z = np.stack([FACTORS[:, 0] * 10 + FACTORS[:, 1], FACTORS[:, 2], FACTORS[:, 2] * 0], axis=1)
    found = metrics.dci(Z, FACTORS)
    np.testing.assert_allclose(found.importance, [[1, 1, 0], [0, 0, 1], [0, 0, 0]], atol=0.01)
    assert found.per_feature[0] == pytest.approx(1 - math.log(2) / math.log(3), abs=0.03)
    assert np.isnan(found.per_feature[2])
    assert found.completeness == pytest.approx(1, abs=0.05)
    assert found.informativeness > 0.95


def test_a_code_of_noise_is_not_informative():
    noise = np.random.default_rng(0).normal(size=(len(FACTORS), 4))
    assert metrics.dci(noise, FACTORS).informativeness < 0.5


def test_boosting_agrees_on_a_clean_code():
    found = metrics.dci(FACTORS, FACTORS, model="boosting")
    assert found.value == pytest.approx(1, abs=1e-6)
    assert found.informativeness == 1


def test_dci_is_repeatable():
    Z = np.random.default_rng(0).normal(size=(len(FACTORS), 4))
    first, second, other = (metrics.dci(Z, FACTORS, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.importance, second.importance)
    assert not np.array_equal(first.importance, other.importance)


def test_half_of_the_information_in_closed_form():
    # A factor of four equal values, of which the code tells two apart: ln 2 of ln 4.
    factor = np.repeat(np.arange(4), 10)[:, None]
    assert metrics.mig(factor // 2, factor).value == pytest.approx(0.5)


def test_bins_decide_what_mutual_information_sees():
    factor = np.arange(40)[:, None] % 4
    assert metrics.mig(factor, factor, n_bins=4).value == pytest.approx(1)
    assert metrics.mig(factor, factor, n_bins=2).value == pytest.approx(0.5)
    assert metrics.mig(factor, factor, n_bins=1).value == 0


@pytest.mark.parametrize("score", [metrics.factor_vae_score, metrics.beta_vae_score])
def test_votes_on_a_constant_code_are_nan_and_none(score):
    found = score(np.ones((len(FACTORS), 2)), FACTORS)
    assert math.isnan(found.value)
    assert found.averaged_over == 0
    assert found.null == pytest.approx(1 / 3)


def test_labels_of_factors_do_not_matter_to_information():
    renamed = np.array([7, 100, 3, 50])[FACTORS[:, :1]]
    Z = FACTORS[:, :1] + 0.3 * np.random.default_rng(0).normal(size=(len(FACTORS), 1))
    assert metrics.mig(Z, renamed).value == pytest.approx(metrics.mig(Z, FACTORS[:, :1]).value)


def test_attribute_gaps_read_factor_values_as_quantities():
    factor = np.array([[0], [1], [10]] * 4)
    assert metrics.sap(factor, factor).value == pytest.approx(1, abs=1e-12)
    ranks = np.array([[0], [1], [2]] * 4)
    correlation = np.corrcoef(ranks[:, 0], factor[:, 0])[0, 1]
    assert metrics.sap(ranks, factor).value == pytest.approx(correlation**2, abs=1e-12)
    wide = np.array([[-128], [127], [100]] * 4, np.int8)
    assert metrics.sap(wide.astype(float), wide).value == pytest.approx(1, abs=1e-12)
