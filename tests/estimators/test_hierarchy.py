"""Trees of features and clusters of samples."""

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from twelve_kinds import N_KINDS, X_NEW, Y_NEW, X, Y

from nonneg import NCL
from nonneg.estimators.hierarchy import (
    Hierarchy,
    cluster_samples,
    coactivation_tree,
    column_cosines,
)


@pytest.fixture(scope="module")
def ncl():
    fitted = NCL(max_steps=60, batch_size=128, random_state=0).fit(X)
    fitted.describe(X, labels=[f"kind {y}" for y in Y])
    return fitted


def joins_by_loops(cosines):
    """Average linkage by its definition: the two groups of largest mean cosine join."""
    groups = [[i] for i in range(len(cosines))]
    heights = []
    while len(groups) > 1:
        mean = {
            (i, j): np.mean([cosines[a][b] for a in groups[i] for b in groups[j]])
            for i in range(len(groups))
            for j in range(i)
        }
        i, j = max(mean, key=mean.get)
        heights.append(1 - mean[i, j])
        groups[j] += groups.pop(i)
    return heights


class TestTree:
    def test_joins_are_those_of_the_definition(self):
        Z = np.random.default_rng(0).random((30, 9))
        cosines = column_cosines(Z, np.arange(9))
        tree = coactivation_tree(cosines)
        np.testing.assert_allclose(tree[:, 2], joins_by_loops(cosines.tolist()), atol=1e-6)

    def test_the_order_of_features_does_not_matter(self):
        Z = np.random.default_rng(1).random((40, 8))
        order = np.random.default_rng(2).permutation(8)
        heights = [
            coactivation_tree(column_cosines(given, np.arange(8)))[:, 2]
            for given in (Z, Z[:, order])
        ]
        np.testing.assert_allclose(heights[0], heights[1], atol=1e-6)

    @pytest.mark.parametrize("m", [0, 1])
    def test_of_nothing_to_join(self, m):
        assert coactivation_tree(np.ones((m, m))).shape == (0, 4)
        empty = Hierarchy(np.arange(m), np.zeros((0, 4)), ("only",) * m)
        assert empty.cut(cosine=0.5) == [[i] for i in range(m)]
        assert str(empty) == "only" * m

    def test_of_an_estimator_has_its_alive_features(self, ncl):
        tree = ncl.hierarchy(X)
        alive = np.flatnonzero((ncl.transform(X) > 0).any(axis=0))
        assert sorted(tree.features.tolist()) == alive.tolist()
        assert tree.linkage.shape == (len(alive) - 1, 4)
        assert "kind" in str(tree)

    def test_cuts_from_one_group_to_all(self, ncl):
        tree = ncl.hierarchy(X)
        m = len(tree.features)
        assert [sorted(group) for group in tree.cut(1)] == [sorted(tree.features.tolist())]
        assert len(tree.cut(m)) == m
        assert tree.cut(cosine=1.1) == tree.cut(m)
        assert tree.cut(cosine=-0.1) == tree.cut(1)

    def test_a_cut_finds_features_of_one_kind(self, ncl):
        """Each of the twelve kinds has features of its own, which fire together."""
        tree = ncl.hierarchy(X)
        kind = {f: Y[ncl.transform(X)[:, f].argmax()] for f in tree.features.tolist()}
        for group in tree.cut(N_KINDS):
            assert len({kind[f] for f in group}) == 1

    @pytest.mark.parametrize("wrong", [{}, {"k": 2, "cosine": 0.5}, {"k": 0}, {"k": True}])
    def test_what_is_refused(self, ncl, wrong):
        with pytest.raises(ValueError, match=r"give the number|k must be a whole number"):
            ncl.hierarchy(X).cut(**wrong)


class TestClusters:
    @pytest.mark.parametrize("k", [N_KINDS, None])
    def test_are_the_kinds(self, ncl, k):
        found = ncl.clusters(X, k)
        assert adjusted_rand_score(Y, found.labels) > 0.95
        assert len(found.names) == found.labels.max() + 1
        assert all("kind" in name for name in found.names)

    def test_largest_first(self, ncl):
        few = np.concatenate(
            [np.flatnonzero(kind == Y)[: 10 + 4 * kind] for kind in range(N_KINDS)]
        )
        sizes = np.bincount(ncl.clusters(X[few], N_KINDS).labels)
        assert (np.diff(sizes) <= 0).all()

    def test_others_are_assigned(self, ncl):
        found = ncl.clusters(X, N_KINDS)
        labels = found.assign(ncl.transform(X_NEW))
        assert adjusted_rand_score(Y_NEW, labels) > 0.95
        again = found.assign(sparse.csr_array(ncl.transform(X)))
        assert (again == found.labels).mean() > 0.99

    def test_a_merge_changes_little(self, ncl):
        tree = ncl.hierarchy(X)
        before = ncl.clusters(X, N_KINDS).labels
        merged = [group for group in tree.cut(N_KINDS) if len(group) > 1]
        try:
            after = ncl.merge(merged).clusters(X, N_KINDS).labels
        finally:
            ncl.restore()
        assert adjusted_rand_score(before, after) > 0.9

    def test_related_features_count_as_alike(self):
        """No sample of a kind shares a feature with another, but directions do."""
        Z = np.eye(8)
        directions = np.repeat(np.eye(2), 4, axis=0) + 0.01 * np.arange(8)[:, None]
        assert cluster_samples(Z, directions, 2).labels.tolist() == [0] * 4 + [1] * 4

    def test_the_length_of_rows_does_not_matter(self, ncl):
        Z, directions = ncl.transform(X), ncl.coverage_.directions.numpy()
        lengths = np.random.default_rng(0).uniform(0.1, 9, len(Z))[:, None]
        first, second = (cluster_samples(z, directions, 5).labels for z in (Z, Z * lengths))
        np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize("k", [0, 5, 2.5, True])
    def test_what_is_refused(self, k):
        with pytest.raises(ValueError, match="k must be a whole number from 1 to the 4 samples"):
            cluster_samples(np.eye(4), np.eye(4), k)

    def test_nothing_to_cluster(self):
        with pytest.raises(ValueError, match="at least two samples that have a feature, got 0"):
            cluster_samples(np.zeros((4, 3)), np.eye(3))

    def test_features_of_another_model(self, ncl):
        with pytest.raises(ValueError, match="Z has 3 features, the clusters were made of"):
            ncl.clusters(X, 3).assign(np.ones((2, 3)))


def test_the_closest_samples_of_a_cluster_tell_its_words():
    directions = [[1, 0], [0, 1]]
    Z = [[5, 1], [5, 0], [5, 2], [0, 3], [1, 4], [0, 0]]
    found = cluster_samples(Z, directions, 2)
    unit = [math.hypot(*row) for row in Z[:5]]
    places = [[row[0] / length, row[1] / length] for row, length in zip(Z[:5], unit, strict=True)]
    expected = []
    for group in ([0, 1, 2], [3, 4]):
        centre = [sum(places[i][axis] for i in group) for axis in (0, 1)]
        length = math.hypot(*centre)
        expected += [sum(places[i][a] * centre[a] for a in (0, 1)) / length for i in group]
    assert found.closeness.tolist() == pytest.approx([*expected, 0])
    assert found.closest(4).tolist() == [[0, 2, 1, -1], [3, 4, -1, -1]]
    texts = ["a red car", "a fast car", "the old car", "an apple pie", "a green apple", "nothing"]
    assert found.words(texts, n_words=1) == [("car",), ("apple",)]
    with pytest.raises(ValueError, match="texts has 5 entries for 6 samples"):
        found.words(texts[1:])
