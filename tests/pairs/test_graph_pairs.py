import numpy as np
import pytest
import torch
from scipy import sparse

from nonneg.pairs import Batch, Draws
from nonneg.pairs.relations import GraphPairs, given_pairs


def drawn(pairs, n, *, n_epochs):
    """How often each sample was paired with each other, (n, n)."""
    numbers = torch.arange(n)
    counts = np.zeros((n, n))
    for epoch in range(n_epochs):
        batch = Batch(numbers, numbers, Draws(0, epoch, numbers), numbers.__getitem__)
        np.add.at(counts, (numbers.numpy(), pairs(batch)[1].numpy()), 1)
    return counts


@pytest.mark.parametrize("format", ["csr", "coo", "csc", "lil"])
def test_partners_are_drawn_by_weight(format):
    weights = np.array([[0, 3, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [2, 0, 0, 2.0]])
    pairs = GraphPairs(sparse.csr_array(weights).asformat(format))
    counts = drawn(pairs, 4, n_epochs=2000)
    expected = np.array([[0, 0.75, 0.25, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0.5, 0, 0, 0.5]])
    np.testing.assert_allclose(counts / 2000, expected, atol=0.04)
    assert pairs.n_alone == 1


def test_weights_are_drawn_by_their_share_of_the_row_whatever_other_rows_weigh():
    weights = np.array([[0, 1e20, 0, 0], [3, 0, 1, 0], [0, 0, 0, 1e-300], [1e-20, 0, 3e-20, 0]])
    counts = drawn(GraphPairs(sparse.csr_array(weights)), 4, n_epochs=2000)
    expected = np.array([[0, 1, 0, 0], [0.75, 0, 0.25, 0], [0, 0, 0, 1], [0.25, 0, 0.75, 0]])
    np.testing.assert_allclose(counts / 2000, expected, atol=0.04)


def test_the_last_sample_may_have_no_edge():
    counts = drawn(GraphPairs(sparse.csr_array([[0, 1.0, 0], [1, 0, 0], [0, 0, 0]])), 3, n_epochs=9)
    np.testing.assert_array_equal(counts / 9, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


def test_the_graph_is_not_changed():
    graph = sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])
    graph.data[0] = 0
    before = graph.copy()
    GraphPairs(graph)
    assert graph.nnz == before.nnz
    np.testing.assert_array_equal(graph.toarray(), before.toarray())


def test_given_pairs_are_read_both_ways_and_by_frequency():
    counts = drawn(given_pairs([[0, 1], [0, 1], [0, 2]], 4), 4, n_epochs=2000)
    expected = [[0, 2 / 3, 1 / 3, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(counts / 2000, expected, atol=0.04)


def test_a_pair_of_a_sample_with_itself_counts_once():
    counts = drawn(given_pairs([[0, 0], [0, 1]], 2), 2, n_epochs=2000)
    np.testing.assert_allclose(counts / 2000, [[0.5, 0.5], [1, 0]], atol=0.04)


def test_wrong_graphs_are_refused():
    with pytest.raises(TypeError, match="must be a SciPy sparse matrix, got ndarray"):
        GraphPairs(np.eye(3))
    with pytest.raises(ValueError, match=r"square \(n, n\), got shape \(2, 3\)"):
        GraphPairs(sparse.csr_array(np.ones((2, 3))))
    with pytest.raises(ValueError, match=r"holds the weight -1\.0"):
        GraphPairs(sparse.csr_array([[0, -1.0], [1, 0]]))
    with pytest.raises(ValueError, match="holds the weight nan"):
        GraphPairs(sparse.csr_array([[0, np.nan], [1, 0]]))
    with pytest.raises(ValueError, match="has no edge"):
        GraphPairs(sparse.csr_array((3, 3)))


def test_wrong_pairs_are_refused():
    with pytest.raises(ValueError, match=r"shape \(n_pairs, 2\), got int64 of shape \(3,\)"):
        given_pairs([1, 2, 3], 4)
    with pytest.raises(ValueError, match="index_pairs holds no pairs"):
        given_pairs(np.empty((0, 2), dtype=int), 4)
    with pytest.raises(ValueError, match="got float64"):
        given_pairs([[0.0, 1.0]], 4)
    with pytest.raises(ValueError, match="names sample 4, but samples are numbered 0 to 3"):
        given_pairs([[0, 4]], 4)
    with pytest.raises(ValueError, match="names sample -1"):
        given_pairs([[0, -1]], 4)
