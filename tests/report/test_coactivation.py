import math

import numpy as np
import pytest

from nonneg.estimators.hierarchy import column_cosines
from nonneg.report.feature_facts import partners, telling_order
from nonneg.report.maps import feature_places


def blocks(n_groups=6, size=5, seed=0):
    """Samples whose features fire in groups; features of a group share their samples."""
    rng = np.random.default_rng(seed)
    Z = np.zeros((n_groups * 20, n_groups * size))
    for g in range(n_groups):
        Z[g * 20 : (g + 1) * 20, g * size : (g + 1) * size] = rng.random((20, size)) + 0.2
    return Z


def test_cosines_agree_with_loops():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(30, 6))
    Z[:, 2] = 0
    which = np.array([5, 2, 0])
    found = column_cosines(Z, which)
    for a, i in enumerate(which):
        for b, j in enumerate(which):
            lengths = math.sqrt(sum(Z[:, i] ** 2) * sum(Z[:, j] ** 2))
            inner = sum(x * y for x, y in zip(Z[:, i], Z[:, j], strict=True))
            assert found[a, b] == pytest.approx(abs(inner) / lengths if lengths else 0, abs=1e-6)


def test_partners_are_the_largest_and_never_the_feature_itself():
    cosines = np.array([[1, 0.2, 0.9], [0.2, 1, 0], [0.9, 0, 1]], dtype=np.float32)
    found = partners(cosines, np.array([4, 7, 1]), n_features=8, k=2)
    assert found.numbers[4].tolist() == [1, 7]
    assert found.numbers[7].tolist() == [4, -1]
    assert found.numbers[0].tolist() == [-1, -1]
    np.testing.assert_allclose(found.cosines[4], [0.9, 0.2], atol=1e-6)


def test_the_order_keeps_groups_together():
    Z = blocks()
    shuffled = np.random.default_rng(2).permutation(30)
    order = telling_order(column_cosines(Z, shuffled))
    groups = shuffled[order] // 5
    assert (np.diff(groups) != 0).sum() == 5
    assert sorted(order) == list(range(30))


def test_the_map_keeps_groups_together_and_is_the_same_each_time():
    cosines = column_cosines(blocks(), np.arange(30))
    places = feature_places(cosines)
    np.testing.assert_array_equal(places, feature_places(cosines))
    assert places.min() == 0
    assert places.max() == 1
    distance = np.linalg.norm(places[:, None] - places[None], axis=-1)
    same = np.arange(30)[:, None] // 5 == np.arange(30)[None] // 5
    assert distance[same].max() < distance[~same].min()


@pytest.mark.parametrize("m", [0, 1, 4, 5, 6])
@pytest.mark.parametrize("cosines", [np.eye, lambda m, dtype: np.ones((m, m), dtype)])
def test_few_features_and_collapsed_ones_have_places_too(m, cosines):
    places = feature_places(cosines(m, dtype=np.float32))
    assert places.shape == (m, 2)
    assert np.isfinite(places).all()
    assert len(telling_order(cosines(m, dtype=np.float32))) == m
