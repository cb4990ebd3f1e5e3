"""Retrieval: closed forms, ties, rows of zeros, and float32 against a float64 sort."""

import numpy as np
import pytest

from nonneg import metrics


def by_sorting(Z, y, k):
    """Precision@k, leave one out, from a full stable sort in float64."""
    unit = Z.astype(np.float64) / np.linalg.norm(Z.astype(np.float64), axis=1, keepdims=True)
    cosine = np.round(unit @ unit.T, 11)
    np.fill_diagonal(cosine, -np.inf)
    order = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
    return (y[order] == y[:, None]).mean(axis=1)


def test_separate_classes_are_found():
    y = np.arange(30) % 3
    Z = np.eye(3)[y] + 0.1 * np.random.default_rng(0).random((30, 3))
    assert metrics.precision_at_k(Z, y, k=9).value == 1
    assert metrics.mean_average_precision_at_k(Z, y, k=9).value == 1


def test_k_beyond_the_class_lowers_precision_but_not_average_precision():
    y = np.arange(30) % 3
    Z = np.eye(3)[y] + 0.1 * np.random.default_rng(0).random((30, 3))
    assert metrics.precision_at_k(Z, y, k=18).value == pytest.approx(0.5)
    assert metrics.mean_average_precision_at_k(Z, y, k=18).value == 1


def test_average_precision_rewards_an_early_hit():
    gallery = ([[1.0, 0.0], [1.0, 0.5], [1.0, 1.0], [0.0, 1.0]], [1, 0, 1, 1])
    found = metrics.mean_average_precision_at_k([[1.0, 0.0]], [0], k=3, gallery=gallery)
    assert found.value == 0.5  # its one relative comes second
    assert metrics.precision_at_k([[1.0, 0.0]], [0], k=3, gallery=gallery).value == 1 / 3


@pytest.mark.parametrize("with_gallery", [False, True])
def test_one_search_serves_both_scores(with_gallery):
    draw = np.random.default_rng(0)
    Z, y = draw.random((60, 5)), np.arange(60) % 4
    gallery = (draw.random((30, 5)), np.arange(30) % 3) if with_gallery else None
    both = metrics.precision_and_map_at_k(Z, y, 7, gallery=gallery)
    alone = [
        score(Z, y, 7, gallery=gallery)
        for score in (metrics.precision_at_k, metrics.mean_average_precision_at_k)
    ]
    for found, expected in zip(both, alone, strict=True):
        assert (found.per_sample == expected.per_sample).all()
        assert (found.k, found.n_without_match) == (expected.k, expected.n_without_match)


def test_float32_agrees_with_a_float64_sort():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=700)
    Z = (rng.random((700, 64)) + np.eye(64)[y]).astype(np.float32)
    np.testing.assert_array_equal(metrics.precision_at_k(Z, y, 10).per_sample, by_sorting(Z, y, 10))


def test_nearly_equal_cosines_are_told_apart():
    # Cosines that differ by 1e-8 are the same in float32.
    angle = np.array([1.0, 1.0 + 1e-8, 1.0 + 2e-8, 1.0 + 3e-8])
    gallery = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for winner in range(4):
        order = np.roll(np.arange(4), winner)
        found = metrics.precision_at_k([[1.0, 0.0]], [0], k=1, gallery=(gallery[order], order))
        assert found.value == 1


def test_equals_come_in_the_order_of_their_number():
    # Multiples of one row: their cosines are equal, but not in the last bit of float32.
    rng = np.random.default_rng(0)
    gallery = rng.random(11) * rng.integers(1, 1000, (40, 1))
    query = rng.random((6, 11))
    y = np.arange(40)
    for k in (1, 3, 39, 40):
        found = metrics.precision_at_k(
            query.astype(np.float32), np.arange(6), k=k, gallery=(gallery.astype(np.float64), y)
        )
        np.testing.assert_allclose(found.per_sample, (np.arange(6) < k) / k)


def test_a_sample_does_not_find_itself_even_among_copies():
    Z = np.ones((20, 3), np.float32)
    y = np.array([0] + [1] * 19)
    found = metrics.precision_at_k(Z, y, k=1)
    assert found.per_sample.tolist() == [0] * 20  # all others find number 0, which finds number 1


def test_rows_of_zeros_neither_find_nor_are_found():
    Z = np.array([[1.0, 0], [0, 0], [1, 0], [0, 0], [0, 1]])
    y = np.zeros(5, int)
    found = metrics.precision_at_k(Z, y, k=2)
    assert (found.n_zero_rows, found.n_zero_gallery) == (2, 2)
    assert found.per_sample.tolist() == [1, 0, 1, 0, 1]
    found = metrics.precision_at_k(Z, y, k=4)
    assert found.per_sample.tolist() == [0.5, 0, 0.5, 0, 0.5]
    assert metrics.precision_at_k(Z * 0, y, k=2).value == 0


def test_negative_cosines_come_after_zero():
    gallery = ([[-1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]], [0, 1, 2])
    found = metrics.mean_average_precision_at_k([[1.0, 0.0]] * 3, [0, 1, 2], k=3, gallery=gallery)
    assert found.per_sample.tolist() == pytest.approx([1 / 3, 1, 1 / 2])
    assert not found.signed


def test_queries_of_a_class_that_is_not_there_are_counted():
    found = metrics.mean_average_precision_at_k([[1.0], [1.0], [1.0]], [0, 0, 7], k=2)
    assert found.n_without_match == 1
    assert found.per_sample[2] == 0


def test_gallery_may_be_of_another_type():
    rng = np.random.default_rng(0)
    Z, gallery = rng.random((5, 4)).astype(np.float32), rng.random((9, 4))
    y, labels = np.zeros(5, int), np.arange(9) % 2
    found = metrics.precision_at_k(Z, y, 3, gallery=(gallery, labels)).value
    expected = metrics.precision_at_k(Z.astype(np.float64), y, 3, gallery=(gallery, labels)).value
    assert found == expected
