"""Places on maps: neighbours stay neighbours, and nothing is left to chance."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nonneg.report.maps import _of_pairs, _on_grid, document_places


def planted(n=600, d=24, seed=0):
    """Sparse features: each sample has one of d features, and weakly the next one."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(d, size=n)
    Z = np.zeros((n, d))
    Z[np.arange(n), kind] = rng.uniform(0.6, 1, size=n)
    Z[np.arange(n), (kind + 1) % d] = rng.uniform(0, 0.5, size=n)
    return Z, kind


def kept_neighbours(Z, places, k=10, near=50):
    """The share of the k nearest by features that are among the nearest on the map, by loops."""
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    cosines, found = (unit @ unit.T).tolist(), 0
    for i in range(len(Z)):
        others = [j for j in range(len(Z)) if j != i]
        alike = sorted(others, key=lambda j: -cosines[i][j])[:k]
        close = sorted(others, key=lambda j: math.dist(places[i], places[j]))[:near]
        found += len(set(alike) & set(close))
    return found / (k * len(Z))


def test_neighbours_by_features_are_neighbours_on_the_map():
    Z, _ = planted(n=300)
    places = document_places(Z)
    by_chance = kept_neighbours(Z, np.random.default_rng(0).random((300, 2)))
    assert by_chance < 0.25  # 50 of 299
    assert kept_neighbours(Z, places) > 0.9


def test_neighbours_are_kept_as_well_as_by_scikit_learn():
    from sklearn.manifold import TSNE

    Z, _ = planted(n=250)
    peer = TSNE(metric="cosine", init="random", random_state=0).fit_transform(Z)
    assert kept_neighbours(Z, document_places(Z)) > kept_neighbours(Z, peer) - 0.03


def test_repulsion_on_the_grid_agrees_with_loops_over_pairs(monkeypatch):
    places = np.random.default_rng(0).normal(scale=6, size=(120, 2)).astype(np.float32)
    forces, total = np.zeros((120, 2)), 0.0
    for i, (xi, yi) in enumerate(places.tolist()):
        for j, (xj, yj) in enumerate(places.tolist()):
            if i == j:
                continue
            q = 1 / (1 + (xi - xj) ** 2 + (yi - yj) ** 2)
            total += q
            forces[i] += q * q * (xi - xj), q * q * (yi - yj)
    forces /= total
    np.testing.assert_allclose(_of_pairs(places), forces, rtol=1e-3, atol=1e-7)

    def wrong():
        """The mean error, as a share of the mean force."""
        lost = np.linalg.norm(_on_grid(places) - forces, axis=1).mean()
        return lost / np.linalg.norm(forces, axis=1).mean()

    assert wrong() < 0.2
    monkeypatch.setattr("nonneg.report.maps._MIN_CELLS_PER_UNIT", 8.0)
    assert wrong() < 0.02


def test_the_same_features_give_the_same_places_whatever_the_length_of_rows():
    Z, _ = planted(n=200)
    places = document_places(Z)
    np.testing.assert_array_equal(places, document_places(Z.copy()))
    longer = Z * 2.0 ** np.random.default_rng(0).integers(-3, 4, size=(200, 1))
    np.testing.assert_array_equal(places, document_places(longer))
    assert (document_places(Z, seed=1) != places).any()


def test_samples_start_where_their_features_are():
    """Two features and nothing between them: the start decides which lies on the left."""
    Z = np.repeat(np.eye(2), 40, axis=0)
    one = document_places(Z, start=np.array([[0.1, 0.5], [0.9, 0.5]]))
    other = document_places(Z, start=np.array([[0.9, 0.5], [0.1, 0.5]]))
    assert one[:40, 0].mean() < one[40:, 0].mean()
    assert other[:40, 0].mean() > other[40:, 0].mean()
    without = document_places(Z, start=np.full((2, 2), np.nan))
    assert np.isfinite(without).all()


def test_samples_without_a_feature_lie_at_the_edge_away_from_all_others():
    Z, _ = planted(n=120)
    Z[5] = 0
    places = document_places(Z)
    assert places[5].tolist() == [0.5, 1.0]
    assert np.delete(places, 5, axis=0)[:, 1].max() <= 0.95
    np.testing.assert_array_equal(document_places(np.zeros((3, 2))), [[0.5, 1.0]] * 3)


def test_of_very_many_features_the_strongest_count(monkeypatch):
    Z, _ = planted(n=120)
    noise = 1e-3 * np.random.default_rng(0).random((120, 30))
    monkeypatch.setattr("nonneg.report.maps._MAX_COLUMNS", 24)
    wide = sparse.csr_array(np.concatenate([noise, Z], axis=1))
    assert kept_neighbours(Z, document_places(wide)) > 0.9


@given(st.integers(1, 40), st.integers(1, 6), st.booleans(), st.integers(0, 1000))
@settings(deadline=None, max_examples=20)
def test_any_small_set_gets_places_in_the_unit_square(n, d, is_signed, seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) if is_signed else rng.random((n, d)) * (rng.random((n, d)) < 0.5)
    before = Z.copy()
    places = document_places(Z)
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
    assert ((places >= 0) & (places <= 1)).all()
    np.testing.assert_array_equal(Z, before)


@pytest.mark.parametrize("n", [1, 2, 3, 50])
def test_equal_samples_get_places_too(n):
    places = document_places(np.ones((n, 3)))
    assert np.isfinite(places).all()


@pytest.mark.slow
def test_20000_samples_take_well_under_a_minute():
    import time

    Z, kind = planted(n=20_000, d=400)
    start = time.process_time()
    places = document_places(Z)
    assert time.process_time() - start < 60
    middle = np.stack([places[kind == k].mean(axis=0) for k in range(400)])
    apart = np.linalg.norm(places - middle[kind], axis=1)
    assert np.median(apart) < 0.05
