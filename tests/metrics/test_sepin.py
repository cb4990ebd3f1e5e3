"""SEPIN: closed forms, the bound, and the fast forms against dropping one feature after another."""

import math

import numpy as np
import pytest
import torch

from nonneg import info_nce, metrics
from nonneg.metrics._dropping import plain as drop_plan


def loss(a, b, temperature, negatives):
    """InfoNCE of given rows, not normalised, in float64."""
    n = len(a)
    if negatives == "both":
        rows = np.concatenate([a, b])
        logits = rows @ rows.T / temperature
        positive = np.concatenate([np.arange(n, 2 * n), np.arange(n)])
        np.fill_diagonal(logits, -np.inf)
        parts = [(logits, positive)]
    else:
        logits = a @ b.T / temperature
        parts = [(logits, np.arange(n)), (logits.T, np.arange(n))]
    losses = [
        np.logaddexp.reduce(part, axis=1) - part[np.arange(len(part)), positive]
        for part, positive in parts
    ]
    return np.concatenate(losses).mean()


def unit(Z):
    length = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z / np.where(length > 0, length, 1)


def one_by_one(Z_a, Z_b, temperature, convention="plain", negatives="both", features=None):
    a, b = unit(np.asarray(Z_a, np.float64)), unit(np.asarray(Z_b, np.float64))
    whole = loss(a, b, temperature, negatives)
    rises = []
    for i in range(a.shape[1]) if features is None else features:
        views = [view.copy() for view in (a, b)]
        for view in views:
            view[:, i] = 0
        if convention == "renormalised":
            views = [unit(view) for view in views]
        rises.append(loss(*views, temperature, negatives) - whole)
    return np.array(rises)


def views(kind, n=60, d=40, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "dense":
        Z = rng.random((n, d))
    elif kind == "sparse":
        Z = rng.random((n, d)) * (rng.random((n, d)) < 0.1)
    elif kind == "signed":
        Z = rng.normal(size=(n, d))
    elif kind == "one_hot":
        Z = np.eye(d)[rng.integers(d // 4, size=n)]
    else:  # dense, and every feature rules some rows
        Z = 0.02 * rng.random((n, d)) + np.eye(d)[np.arange(n) % d]
    noise = 0.1 * rng.random((n, d)) * (Z != 0)
    return Z, Z + noise


KINDS = ["dense", "sparse", "signed", "one_hot", "ruled"]


@pytest.mark.parametrize("negatives", ["both", "cross"])
@pytest.mark.parametrize("convention", ["plain", "renormalised"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.001, 0.03, 0.2, 5.0])
def test_all_at_once_agrees_with_one_by_one(kind, convention, negatives, temperature):
    Z_a, Z_b = views(kind, n=24, d=16)
    found = metrics.sepin(
        Z_a, Z_b, temperature=temperature, convention=convention, negatives=negatives
    )
    expected = one_by_one(Z_a, Z_b, temperature, convention, negatives)
    np.testing.assert_allclose(found.per_feature, expected, atol=1e-9)
    assert found.info_nce == pytest.approx(loss(unit(Z_a), unit(Z_b), temperature, negatives))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.01, 0.05, 0.2])
def test_float32_agrees_with_one_by_one(kind, temperature, monkeypatch):
    monkeypatch.setitem(metrics.sepin.__globals__, "_SMALL", 0)
    Z_a, Z_b = (Z.astype(np.float32) for Z in views(kind, n=200, d=60))
    found = metrics.sepin(Z_a, Z_b, temperature=temperature)
    expected = one_by_one(Z_a, Z_b, temperature, features=range(0, 60, 4))
    np.testing.assert_allclose(found.per_feature[::4], expected, atol=1e-6)


@pytest.mark.parametrize("negatives", ["both", "cross"])
def test_the_whole_loss_is_the_one_that_is_trained(negatives):
    Z_a, Z_b = views("sparse")
    found = metrics.sepin(Z_a, Z_b, temperature=0.3, negatives=negatives)
    trained = info_nce(torch.tensor(Z_a), torch.tensor(Z_b), temperature=0.3, negatives=negatives)
    assert found.info_nce == pytest.approx(trained.item(), abs=1e-9)


def test_equal_rows_lose_nothing():
    found = metrics.sepin(np.ones((8, 4)), np.ones((8, 4)), temperature=0.2)
    assert found.info_nce == pytest.approx(math.log(15))
    np.testing.assert_allclose(found.per_feature, 0, atol=1e-12)


def test_one_pair_has_nothing_to_tell_apart():
    found = metrics.sepin([[1.0, 2.0]], [[3.0, 1.0]], temperature=0.2, negatives="cross")
    assert found.info_nce == 0
    np.testing.assert_allclose(found.per_feature, 0, atol=1e-12)


def test_one_hot_classes_in_closed_form():
    # n pairs, each with a feature of its own: 2n - 2 negatives at cosine 0, one positive at 1.
    n, temperature = 6, 0.5
    found = metrics.sepin(np.eye(n), np.eye(n), temperature=temperature)
    whole = math.log(math.exp(1 / temperature) + 2 * n - 2) - 1 / temperature
    assert found.info_nce == pytest.approx(whole)
    np.testing.assert_allclose(found.per_feature, (math.log(2 * n - 1) - whole) / n)


def test_means_of_the_largest():
    Z_a, Z_b = views("sparse", d=12)
    found = metrics.sepin(Z_a, Z_b, temperature=0.2, k=(1, 5, "all"))
    ordered = sorted(found.per_feature, reverse=True)
    assert list(found.at) == [1, 5, "all"]
    assert found.at[1] == ordered[0]
    assert found.at[5] == pytest.approx(np.mean(ordered[:5]))
    assert found.at["all"] == pytest.approx(found.value)


def test_suggested_sizes_stop_at_the_number_of_features():
    Z_a, Z_b = views("dense", d=12)
    assert list(metrics.sepin(Z_a, Z_b, temperature=0.2).at) == [1, 10, "all"]


def test_dead_features_tell_nothing_and_are_counted():
    Z_a, Z_b = (np.hstack([Z, np.zeros((60, 3))]) for Z in views("sparse", d=12))
    found = metrics.sepin(Z_a, Z_b, temperature=0.2)
    assert found.per_feature[-3:].tolist() == [0, 0, 0]
    assert (found.n_alive, found.n_dead, found.averaged_over) == (12, 3, 15)


def test_conventions_differ_where_a_row_keeps_little():
    Z_a, Z_b = views("ruled", n=20, d=10)
    plain, anew = (
        metrics.sepin(Z_a, Z_b, temperature=0.2, convention=key)
        for key in ("plain", "renormalised")
    )
    assert plain.info_nce == pytest.approx(anew.info_nce)
    assert plain.value > 1.5 * anew.value


def test_every_way_of_summing_is_taken():
    """Single pairs alone, series alone, both, and strong entries that leave the series."""
    plans = {
        kind: drop_plan.cheapest_plan(*(torch.tensor(unit(Z)) for Z in views(kind, 600, 40)), 0.2)
        for kind in KINDS
    }
    assert (plans["one_hot"].orders == 0).all()
    assert (plans["sparse"].orders == 0).any()
    assert (plans["dense"].orders > 2).all()
    assert not plans["dense"].alone.any()
    ruled = (torch.tensor(unit(Z), dtype=torch.float32) for Z in views("ruled", n=200, d=60))
    plan = drop_plan.cheapest_plan(*ruled, 0.05)
    assert plan.alone.any()
    assert (plan.orders[plan.alone] > 0).all()


@pytest.mark.parametrize("tolerance", [1e-8, 1e-12])
def test_series_keeps_to_its_bound(tolerance):
    for order, limit in enumerate(drop_plan.series_limits(tolerance)):
        for x in (limit, -limit):
            series = math.fsum((-x) ** p / math.factorial(p) for p in range(order + 1))
            assert abs(math.exp(-x) - series) <= tolerance * 1.001 + 1e-15
            assert abs(math.exp(-10 * x) - 1) > tolerance
