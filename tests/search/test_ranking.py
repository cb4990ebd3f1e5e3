"""Weights of rare features and fused rankings: closed forms, and what they do to a search."""

import math

import numpy as np
import pytest
from scipy import sparse

from nonneg.search import SparseIndex, fused, idf_weights

RNG = np.random.default_rng(0)
ROWS = RNG.random((60, 8), dtype=np.float32) * (RNG.random((60, 8)) < 0.3)
QUERIES = RNG.random((5, 8), dtype=np.float32)


def test_weights_are_logarithms_of_rates():
    Z = np.tril(np.ones((4, 5)))[:, :5]
    Z[:, 4] = 0  # no sample has it: as if one had
    expected = [math.log(4 / n) for n in (4, 3, 2, 1, 1)]
    np.testing.assert_allclose(idf_weights(Z, power=1), expected)
    np.testing.assert_allclose(idf_weights(Z), np.sqrt(expected))
    assert idf_weights(sparse.csr_array(Z), power=0).tolist() == [1] * 5


def test_a_weighted_index_is_an_index_of_weighted_features(tmp_path):
    weights = idf_weights(ROWS)
    index = SparseIndex.of(ROWS[:40], weights=weights).add(ROWS[40:])
    expected = SparseIndex.of(ROWS * weights).search(QUERIES * weights, 10)
    index.save(tmp_path / "index")
    for made in (index, SparseIndex.load(tmp_path / "index")):
        hits = made.search(QUERIES, 10)
        np.testing.assert_allclose(hits.cosines, expected.cosines, atol=1e-6)
        told = made.explain(QUERIES[0], int(hits.ids[0, 0]))
        assert told.cosine == pytest.approx(hits.cosines[0, 0], abs=1e-6)


@pytest.mark.parametrize("weights", [[1.0], [-1.0] * 8, [np.nan] * 8])
def test_weights_that_fit_nothing(weights):
    with pytest.raises(ValueError, match="give each a factor from 0 on"):
        SparseIndex.of(ROWS, weights=weights)


def test_a_ranking_fused_with_itself_is_itself():
    ids = RNG.permuted(np.tile(np.arange(30), (4, 1)), axis=1)
    found = fused(ids, ids, k=30, weight=0.3)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.scores, np.tile(1 / (60 + np.arange(1, 31)), (4, 1)))


def test_scores_are_sums_of_reciprocal_ranks():
    first, second = RNG.permutation(20)[None, :8], RNG.permutation(20)[None, :12]
    found = fused(first, second, k=20, weight=0.25)
    for name, score in zip(found.ids[0].tolist(), found.scores[0].tolist(), strict=True):
        parts = [
            share / (60 + ranking[0].tolist().index(name) + 1)
            for ranking, share in ((first, 0.25), (second, 0.75))
            if name in ranking
        ]
        assert score == pytest.approx(sum(parts))
    assert (np.diff(found.scores[0]) <= 0).all()


def test_what_was_not_found_is_left_out():
    found = fused([[3, -1]], [[-1, -1]], k=3)
    assert found.ids.tolist() == [[3, -1, -1]]
    assert fused([["a", ""]], [["long", "a"]], k=3).ids.tolist() == [["a", "long", ""]]
    assert fused([[3, 4]], [[5, 6]], k=2, weight=0).ids.tolist() == [[5, 6]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([[1]], [[1], [2]]), "give ids of the same queries"),
        (([[1]], [["a"]]), "give ids of one kind"),
        (([[1]], [[1]], 3, 2), "weight is 2; give a number from 0 to 1"),
    ],
)
def test_refusals(arguments, sentence):
    first, second, *rest = arguments
    given = {"weight": rest[1]} if len(rest) > 1 else {}
    with pytest.raises(ValueError, match=sentence):
        fused(first, second, **given)
