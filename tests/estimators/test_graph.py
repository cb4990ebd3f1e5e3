"""What the estimator of graphs promises: it finds planted communities, and says what is wrong."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from nonneg.estimators import GraphNCL
from nonneg.factorization import factorization_error, graph_world, identification_score

N_NODES, N_COMMUNITIES = 600, 20


def planted(seed, *, n_nodes=N_NODES, n_communities=N_COMMUNITIES, degree=30):
    """A random graph of communities, half of the nodes in two; edges and memberships."""
    rng = np.random.default_rng(seed)
    nodes = np.arange(n_nodes)
    first = nodes % n_communities
    second = (first + rng.integers(1, n_communities, size=n_nodes)) % n_communities
    members = np.zeros((n_nodes, n_communities))
    members[nodes, first] = 1
    twice = rng.permutation(n_nodes)[: n_nodes // 2]
    members[twice, second[twice]] = 1
    members /= members.sum(axis=1, keepdims=True)
    expected = members @ members.T
    expected *= degree / expected.sum(axis=1).mean()
    edges = np.triu(rng.random((n_nodes, n_nodes)) < expected, 1)
    return sparse.csr_array((edges | edges.T).astype(float)), members


A, MEMBERS = planted(0)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("start", ["eigenvectors", "sampling"])
def test_planted_communities_are_found(start, seed):
    graph, members = planted(seed)
    settings = {"n_components": N_COMMUNITIES, "random_state": seed}
    before = GraphNCL(**settings, start="random", max_steps=0).fit(graph)
    after = GraphNCL(**settings, start=start).fit(graph)
    assert identification_score(before.embedding_, members).value < 0.3
    found = identification_score(after.embedding_, members)
    assert found.value > 0.9
    if start == "eigenvectors":  # drawn edges may leave two communities in one feature
        assert found.per_feature.min() > 0.9
    assert after.loss_ < before.loss_


def test_features_are_float32_non_negative_with_zeros():
    features = GraphNCL(N_COMMUNITIES, random_state=0).fit_transform(A)
    assert features.dtype == np.float32
    assert features.shape == (N_NODES, N_COMMUNITIES)
    assert features.min() == 0
    assert (features == 0).mean() > 0.5


def test_the_loss_is_that_of_the_factorisation():
    fitted = GraphNCL(8, random_state=0).fit(A)
    world = graph_world(A)
    square = np.square(world.normalized.data).sum()
    assert factorization_error(fitted.embedding_, world) == pytest.approx(
        fitted.loss_ + square, rel=1e-5
    )


def test_exact_steps_lower_the_loss_until_they_stop():
    losses = [
        GraphNCL(8, start="random", max_steps=n, tolerance=0, random_state=0).fit(A).loss_
        for n in (0, 1, 5, 50)
    ]
    assert losses == sorted(losses, reverse=True)
    stopped = GraphNCL(8, start="random", tolerance=0.1, random_state=0).fit(A)
    assert 0 < stopped.n_iter_ < 50


def test_separate_cliques_are_the_features():
    """Three cliques with loops: Ā is their three blocks, and F the root of each."""
    sizes = (2, 3, 5)
    blocks = sparse.block_diag([np.ones((size, size)) for size in sizes])
    features = GraphNCL(3, tolerance=1e-9, random_state=0).fit_transform(blocks)
    whole = sum(size**2 for size in sizes)
    order = features.argmax(axis=1)[[0, 2, 5]]
    expected = np.zeros((10, 3))
    for number, (size, start) in enumerate(zip(sizes, (0, 2, 5), strict=True)):
        # P(c|x) is 1 and P(c) is the share of the clique's edges.
        expected[start : start + size, number] = np.sqrt(whole / size**2)
    np.testing.assert_allclose(features[:, order], expected, rtol=1e-4, atol=1e-4)


def test_order_of_nodes_and_scale_of_weights_do_not_count():
    order = np.random.default_rng(5).permutation(N_NODES)
    settings = {"n_components": N_COMMUNITIES, "tolerance": 1e-6, "random_state": 0}
    features = GraphNCL(**settings).fit_transform(A)
    moved = GraphNCL(**settings).fit_transform(7 * A[order][:, order])
    assert identification_score(moved, features[order]).value > 0.9999


def test_weights_count():
    """A heavy edge joins its nodes more than light ones do."""
    heavy = np.array([[0, 9, 1, 0], [9, 0, 0, 1], [1, 0, 0, 9], [0, 1, 9, 0]], dtype=float)
    features = GraphNCL(2, random_state=0).fit_transform(heavy)
    assert features[0].argmax() == features[1].argmax() != features[2].argmax()


def test_every_kind_of_input_gives_the_same_and_is_left_alone():
    expected = GraphNCL(6, random_state=0).fit_transform(A)
    dense = A.toarray()
    for same in (dense, dense.astype(np.float32), sparse.coo_array(A), sparse.csc_matrix(A)):
        np.testing.assert_allclose(
            GraphNCL(6, random_state=0).fit_transform(same), expected, rtol=1e-5, atol=1e-5
        )
    np.testing.assert_array_equal(dense, A.toarray())


def test_nodes_without_edges_have_zeros_and_are_counted():
    wide = sparse.block_diag([A, sparse.csr_array((3, 3))], format="csr")
    with pytest.warns(UserWarning, match="3 of 603 nodes have no edge: their features are zero"):
        fitted = GraphNCL(6, random_state=0).fit(wide)
    assert fitted.n_isolated_ == 3
    assert (fitted.embedding_[-3:] == 0).all()
    np.testing.assert_array_equal(
        fitted.embedding_[:-3], GraphNCL(6, random_state=0).fit_transform(A)
    )


def test_a_seed_gives_the_same_and_estimators_can_be_copied():
    one = GraphNCL(6, start="sampling", max_steps=3, random_state=4).fit(A)
    two = clone(one).fit(A)
    np.testing.assert_array_equal(one.embedding_, two.embedding_)
    assert pickle.loads(pickle.dumps(one)).loss_ == one.loss_
    assert one.get_params()["start"] == "sampling"
    assert one.n_features_in_ == N_NODES


@pytest.mark.filterwarnings("ignore:.* nodes have no edge:UserWarning")
def test_needs_no_table_of_all_pairs():
    """Twenty thousand nodes: all pairs would take 3.2 GB."""
    rng = np.random.default_rng(0)
    community = rng.integers(20, size=100_000)
    ends = tuple(20 * rng.integers(1000, size=(2, 100_000)) + community)
    half = sparse.coo_array((np.ones(100_000), ends), shape=(20_000, 20_000)).tocsr()
    tracemalloc.start()
    fitted = GraphNCL(20, max_steps=3, random_state=0).fit(half + half.T)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    members = np.eye(20)[np.arange(20_000) % 20]
    assert identification_score(fitted.embedding_, members).value > 0.99


@pytest.mark.parametrize(
    ("n_nodes", "expected"), [(2, 1), (21, 10), (99, 49), (100, 50), (120, 50)]
)
def test_small_graphs_have_fewer_features_as_it_comes(n_nodes, expected):
    """A community has two nodes or more; those without edges are in none."""
    ring = sparse.csr_array(np.eye(n_nodes) + np.roll(np.eye(n_nodes), 1, axis=0))
    graph = sparse.block_diag([ring + ring.T, sparse.csr_array((3, 3))])
    with pytest.warns(UserWarning, match="3 of .* nodes have no edge"):
        features = GraphNCL(max_steps=2, random_state=0).fit_transform(graph)
    assert features.shape == (n_nodes + 3, expected)


def test_a_data_frame_names_the_nodes():
    pandas = pytest.importorskip("pandas")
    names = [f"node {i}" for i in range(N_NODES)]
    frame = pandas.DataFrame(A.toarray(), index=names, columns=names)
    fitted = GraphNCL(6, random_state=0).fit(frame)
    assert list(fitted.feature_names_in_) == names
    expected = GraphNCL(6, random_state=0).fit_transform(A.toarray())
    np.testing.assert_array_equal(fitted.embedding_, expected)


def changed(i, j, value):
    other = A.toarray()
    other[i, j] = value
    return other


@pytest.mark.parametrize(
    ("settings", "graph", "message"),
    [
        ({}, A[:9], r"A must be square \(n, n\), got shape \(9, 600\)"),
        ({}, np.ones(3), r"A must be square \(n, n\), got shape \(3,\)"),
        ({}, changed(0, 1, -2.0), "A holds the weight -2.0; weights are finite numbers from 0 on"),
        ({}, changed(0, 1, np.nan), "A holds NaN or infinity; weights are finite numbers"),
        ({}, changed(0, 1, 5.0), r"A is not symmetric \(largest difference [45]\)"),
        ({}, np.zeros((4, 4)), "A has no edge among its 4 nodes"),
        ({"n_components": 4}, np.ones((4, 4)), "n_components=4 must be below the 4 nodes"),
        ({"n_components": "many"}, A, "setting 'n_components': .*'auto'.*got 'many'"),
        ({"n_components": "auto"}, [[1.0]], "1 sample.* minimum of 2 is required by GraphNCL"),
        (
            {"n_components": "auto"},
            np.diag([1.0, 0, 0]),
            "n_components=1 must be below the 1 nodes",
        ),
        ({}, np.ones((4, 4)) * 1j, "Complex data not supported"),
        ({"start": "zero"}, A, "setting 'start'.*got 'zero'"),
        ({"max_steps": -1}, A, "setting 'max_steps'.*got -1"),
    ],
)
def test_errors_say_what_is_wrong(settings, graph, message):
    with pytest.raises(ValueError, match=message):
        GraphNCL(**{"n_components": 3, **settings}).fit(graph)
