"""Class consistency, its null and its interval; top purity; label levels: closed forms."""

import math
from collections import Counter

import numpy as np
import pytest

from nonneg import metrics


def planted(n=600, n_classes=10, seed=0):
    """Ten pure features, ten that fire at random, one that is always on, one that never is."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    random = (rng.random((n, 10)) < 0.1).astype(float)
    return np.hstack([np.eye(n_classes)[y], random, np.ones((n, 1)), np.zeros((n, 1))]), y


def test_one_hot_features_are_pure():
    y = np.arange(20) % 4
    assert metrics.class_consistency(np.eye(4)[y], y).value == 1
    assert metrics.class_entropy(np.eye(4)[y], y).value == 0


def test_a_dense_representation_scores_the_largest_class_whatever_it_has_learnt():
    y = np.array([0] * 6 + [1] * 3 + [2])
    Z = np.random.default_rng(0).normal(size=(10, 5))
    found = metrics.class_consistency(Z, y, n_permutations=5)
    assert found.value == pytest.approx(0.6)
    assert found.null == pytest.approx(0.6)
    assert found.signed


def test_one_class_is_pure_by_chance_too():
    found = metrics.class_consistency(np.eye(3), np.zeros(3, int), n_permutations=2)
    assert (found.value, found.null) == (1, 1)


def test_nothing_alive_gives_nan_and_says_over_how_many():
    found = metrics.class_consistency(
        np.zeros((4, 3)), [0, 1, 0, 1], n_permutations=2, n_bootstrap=2
    )
    assert math.isnan(found.value)
    assert (found.averaged_over, found.n_alive, found.n_dead) == (0, 0, 3)


def test_min_active_restricts_the_mean_but_not_the_count_of_alive_features():
    Z = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    found = metrics.class_consistency(Z, [0, 0, 1, 1], min_active=2)
    assert found.averaged_over == 1
    assert found.value == pytest.approx(2 / 3)
    assert found.n_alive == 3
    assert found.n_active.tolist() == [1, 3, 1]


def test_threshold_is_relative_to_the_row():
    Z = [[3.0, 4.0], [30.0, 0.0]]
    assert metrics.active_mask(Z, threshold=0.7).tolist() == [[False, True], [True, False]]
    assert metrics.class_consistency(Z, [0, 1], threshold=0.7).value == 1
    assert metrics.class_consistency(Z, [0, 1], threshold=0.5).per_feature.tolist() == [0.5, 1]


def test_null_is_what_permuting_the_labels_gives():
    Z, y = planted()
    rng = np.random.default_rng(1)
    on = Z != 0
    by_hand = []
    for _ in range(200):
        permuted = rng.permutation(y)
        shares = [
            max(Counter(permuted[column].tolist()).values()) / column.sum()
            for column in on.T
            if column.any()
        ]
        by_hand.append(np.mean(shares))
    found = metrics.class_consistency(Z, y, n_permutations=400, random_state=0)
    assert found.null == pytest.approx(np.mean(by_hand), abs=3e-3)
    assert found.null < 0.25 < found.value
    assert np.isnan(found.null_per_feature).tolist() == np.isnan(found.per_feature).tolist()


def test_null_and_interval_are_opt_in_and_repeatable():
    Z, y = planted(100)
    found = metrics.class_consistency(Z, y)
    assert found.null is None
    assert found.interval is None
    settings = {"n_permutations": 3, "n_bootstrap": 3}
    first, second = (metrics.class_consistency(Z, y, random_state=7, **settings) for _ in "ab")
    other = metrics.class_consistency(Z, y, random_state=8, **settings)
    assert (first.null, first.interval) == (second.null, second.interval)
    assert first.null != other.null
    assert first.interval != other.interval


def test_interval_has_the_width_of_a_binomial_share():
    # One feature, always on: its consistency is the share of class 0, whose spread is known.
    n, share = 2000, 0.7
    y = (np.arange(n) >= share * n).astype(int)
    found = metrics.class_consistency(
        np.ones((n, 1)), y, n_bootstrap=2000, confidence=0.9, random_state=0
    )
    low, high = found.interval
    width = 1.645 * math.sqrt(share * (1 - share) / n)
    assert found.value == pytest.approx(share)
    assert share - low == pytest.approx(width, rel=0.08)
    assert high - share == pytest.approx(width, rel=0.08)


def test_interval_agrees_with_resampling_by_hand():
    Z, y = planted(80)
    rng = np.random.default_rng(0)
    values = []
    for _ in range(150):
        rows = rng.integers(80, size=80)
        values.append(metrics.class_consistency(Z[rows], y[rows]).value)
    found = metrics.class_consistency(Z, y, n_bootstrap=300, random_state=1)
    low, high = np.quantile(np.array(values) - np.mean(values), [0.025, 0.975]) + found.value
    assert found.interval == pytest.approx((low, high), abs=0.015)


def test_many_classes_in_any_order_are_counted_right():
    rng = np.random.default_rng(0)
    Z = rng.random((500, 6)) * (rng.random((500, 6)) < 0.3)
    y = rng.integers(200, size=500)
    expected = [max(Counter(y[column != 0].tolist()).values()) for column in Z.T]
    found = metrics.class_consistency(Z, y)
    np.testing.assert_allclose(found.per_feature * found.n_active, expected)


def test_top_purity_leaves_out_features_with_fewer_active_samples():
    # Sorted by class, the ties at zero of a rare feature would all look alike.
    y = np.array([0] * 50 + [1] * 50)
    Z = np.zeros((100, 2))
    Z[[3, 60, 70], 0] = 1
    Z[:30, 1] = np.arange(30, 0, -1)
    found = metrics.top_purity(Z, y, m=20)
    assert found.averaged_over == 1
    assert np.isnan(found.per_feature[0])
    assert found.per_feature[1] == 1
    assert (found.n_alive, found.m) == (2, 20)


def test_top_purity_takes_the_strongest_and_the_earlier_of_equals():
    strength = np.array([0.1, 0.9, 0.5, 0.5, 0.5, 0.8])
    Z = np.stack([strength, np.sqrt(1 - strength**2)], axis=1)
    y = [5, 0, 0, 1, 1, 1]
    assert metrics.top_purity(Z, y, m=2).per_feature[0] == 0.5
    assert metrics.top_purity(Z, y, m=3).per_feature[0] == pytest.approx(2 / 3)  # 0, 1, 0
    assert metrics.top_purity(Z, y, m=4).per_feature[0] == 0.5
    assert metrics.top_purity(Z, y, m=6).per_feature[0] == 0.5


def test_top_purity_of_equal_strength_goes_by_number():
    Z = np.ones((50, 1))
    y = np.arange(50) // 10
    assert metrics.top_purity(Z, y, m=10).value == 1
    assert metrics.top_purity(Z[::-1], y[::-1].copy(), m=20).value == 0.5


def test_top_purity_compares_sparse_and_dense_by_the_same_number_of_samples():
    Z, y = planted()
    dense = np.random.default_rng(0).random(Z.shape)
    settings = {"m": 20, "n_permutations": 300, "random_state": 0}
    sparse_found = metrics.top_purity(Z[:, :10], y, **settings)
    dense_found = metrics.top_purity(dense, y, **settings)
    assert sparse_found.value == 1
    assert sparse_found.null == dense_found.null
    assert dense_found.value == pytest.approx(dense_found.null, abs=0.03)


def test_top_purity_null_is_the_expected_largest_count():
    # Two of a class of 2 and a class of 2: alike in 2 of 6 draws, so (2/6)·1 + (4/6)·½ = 2/3.
    found = metrics.top_purity(
        np.ones((4, 1)), [0, 0, 1, 1], m=2, n_permutations=4000, random_state=0
    )
    assert found.null == pytest.approx(2 / 3, abs=0.01)


def test_top_purity_without_a_feature_that_is_on_often_enough_is_nan():
    found = metrics.top_purity(np.eye(5), np.arange(5), m=2)
    assert math.isnan(found.value)
    assert found.averaged_over == 0


def test_label_level_tells_a_kind_from_a_kind_of_kinds():
    fine = np.repeat(np.arange(20), 30)
    coarse = fine // 5
    Z = np.hstack([np.eye(20)[fine], np.eye(4)[coarse], np.zeros((600, 1))])
    for levels in ({"coarse": coarse, "fine": fine}, {"fine": fine, "coarse": coarse}):
        found = metrics.label_level(Z, levels, random_state=0)
        names = [found.levels[i] if i >= 0 else None for i in found.level]
        assert names == ["fine"] * 20 + ["coarse"] * 4 + [None]
        assert found.n_features_at == {"fine": 20, "coarse": 4}
        assert (found.value, found.averaged_over) == (1, 24)


def test_label_level_sees_through_the_higher_purity_of_merged_classes():
    # Mostly fine class 0, the rest from everywhere: merging raises purity, but not beyond chance.
    rng = np.random.default_rng(0)
    fine = rng.integers(20, size=4000)
    coarse = fine // 5
    on = np.where(fine == 0, rng.random(4000) < 0.9, rng.random(4000) < 0.03)
    Z = on[:, None].astype(float)
    found = metrics.label_level(Z, {"coarse": coarse, "fine": fine}, random_state=0)
    by_level = [metrics.class_consistency(Z, y).value for y in (coarse, fine)]
    assert by_level[0] > by_level[1]
    assert found.levels[found.level[0]] == "fine"
    assert found.per_feature[0] == by_level[1]


def test_label_level_leaves_out_what_chance_decides():
    Z = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [1, 0, 1]])
    found = metrics.label_level(Z, {"all": [0, 0, 0, 0], "fine": [0, 0, 1, 1]}, random_state=0)
    assert found.level.tolist() == [-1, -1, 1]
    assert np.isnan(found.surprise["all"]).all()


def test_label_level_cannot_do_without_chance():
    with pytest.raises(ValueError, match="without chance"):
        metrics.label_level(np.eye(4), {"fine": [0, 0, 1, 1]}, n_permutations=0)
