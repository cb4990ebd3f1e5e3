"""Each world gives P, its marginals and Ā exactly; bad ones are refused with one sentence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nonneg.factorization import (
    CrossWorld,
    LatentWorld,
    World,
    graph_world,
    latent_cross_world,
    purity,
    random_world,
)


@settings(deadline=None, max_examples=25)
@given(n=st.integers(1, 7), m=st.integers(1, 4), seed=st.integers(0, 10_000))
def test_the_joint_of_a_latent_world_agrees_with_loops(n, m, seed):
    rng = np.random.default_rng(seed)
    prior, likelihood = rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(n), size=m).T
    world = LatentWorld(prior, likelihood)
    for x in range(n):
        marginal = sum(prior[c] * likelihood[x, c] for c in range(m))
        assert world.marginal[x] == pytest.approx(marginal)
        for other in range(n):
            joint = sum(prior[c] * likelihood[x, c] * likelihood[other, c] for c in range(m))
            assert world.joint[x, other] == pytest.approx(joint)
        for c in range(m):
            assert world.posterior[x, c] == pytest.approx(prior[c] * likelihood[x, c] / marginal)
    assert World(world.joint).marginal == pytest.approx(world.marginal)


def test_dense_and_sparse_worlds_are_the_same(overlapping):
    likelihood = np.where(overlapping.likelihood > 0.02, overlapping.likelihood, 0)
    likelihood /= likelihood.sum(axis=0)
    keep = likelihood.sum(axis=1) > 0
    dense = LatentWorld(overlapping.prior, likelihood[keep])
    thin = LatentWorld(overlapping.prior, sparse.coo_array(likelihood[keep]))
    for name in ("joint", "normalized", "posterior"):
        assert sparse.issparse(getattr(thin, name))
        np.testing.assert_allclose(getattr(thin, name).toarray(), getattr(dense, name), atol=1e-14)
    np.testing.assert_allclose(thin.marginal, dense.marginal)
    assert purity(thin) == pytest.approx(purity(dense))
    pairs = [world.draw_pairs(50, np.random.default_rng(0)) for world in (thin, dense)]
    np.testing.assert_array_equal(*pairs)


def test_the_normalized_joint_has_the_root_of_the_marginal_as_eigenvector(overlapping):
    root = np.sqrt(overlapping.marginal)
    np.testing.assert_allclose(overlapping.normalized @ root, root)
    assert np.linalg.eigvalsh(overlapping.normalized).max() == pytest.approx(1)


def test_a_graph_gives_the_normalised_adjacency_matrix():
    adjacency = np.array([[0, 2, 1], [2, 0, 0], [1, 0, 0]])
    expected = [
        [0, 2 / np.sqrt(3 * 2), 1 / np.sqrt(3)],
        [2 / np.sqrt(3 * 2), 0, 0],
        [1 / np.sqrt(3), 0, 0],
    ]
    np.testing.assert_allclose(graph_world(adjacency).normalized, expected)
    thin = graph_world(sparse.csr_array(adjacency))
    np.testing.assert_allclose(thin.normalized.toarray(), expected)


def test_two_modalities():
    world = latent_cross_world([0.5, 0.5], np.eye(2), [[1, 0.5], [0, 0.5]])
    np.testing.assert_allclose(world.joint, [[0.5, 0], [0.25, 0.25]])
    np.testing.assert_allclose(world.marginals[1], [0.75, 0.25])
    np.testing.assert_allclose(world.normalized[0, 0], 0.5 / np.sqrt(0.5 * 0.75))


@pytest.mark.parametrize("kind", ["latent", "joint", "sparse", "cross"])
def test_pairs_are_drawn_as_often_as_the_joint_says(overlapping, kind):
    world = {
        "latent": lambda: overlapping,
        "joint": lambda: World(overlapping.joint),
        "sparse": lambda: World(sparse.csr_array(overlapping.joint)),
        "cross": lambda: CrossWorld(overlapping.joint[:, ::-1]),
    }[kind]()
    n = 200_000
    first, second = world.draw_pairs(n, np.random.default_rng(1))
    counts = np.zeros(world.joint.shape)
    np.add.at(counts, (first, second), 1)
    expected = np.asarray(world.joint.toarray() if kind == "sparse" else world.joint)
    deviation = np.sqrt(expected * (1 - expected) / n)
    assert (np.abs(counts / n - expected) <= 5 * deviation + 1e-12).all()


def test_a_world_of_some_samples_keeps_ratios_within_a_class(overlapping):
    kept = np.array([0, 1, 2, 3, 10, 20])
    part = overlapping.among(kept)
    np.testing.assert_allclose(part.likelihood.sum(axis=0), 1)
    ratio = part.likelihood / overlapping.likelihood[kept].clip(1e-300)
    on = overlapping.likelihood[kept] > 0
    for c in range(4):
        assert np.ptp(ratio[on[:, c], c]) < 1e-9
    with pytest.raises(ValueError, match=r"^class 1 makes none of the chosen samples; "):
        overlapping.among([0])


def test_random_worlds_have_the_anchors_and_overlap_they_promise():
    rng = np.random.default_rng(3)
    assert purity(random_world(40, 5, rng, concentration=1.0)) == pytest.approx(1)
    hard = random_world(40, 5, rng, concentration=0)
    assert ((hard.posterior > 0).sum(axis=1) == 1).all()
    soft = [purity(random_world(40, 5, rng, blur=blur)) for blur in (0.0, 0.3, 0.6)]
    assert soft[0] > soft[1] > soft[2]
    flat = random_world(40, 5, rng, blur=1.0)
    np.testing.assert_allclose(flat.likelihood, flat.likelihood[:, :1] * np.ones(5))


GOOD = np.full((2, 2), 0.25)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: World(2 * GOOD), r"^P sums to 2; probabilities must sum to 1$"),
        (lambda: World([[0.5, 0.25], [0.1, 0.15]]), r"^P is not symmetric \(largest difference 0"),
        (lambda: World([[1.5, -0.25], [-0.25, 0]]), r"^P has negative entries \(min -0.25\); "),
        (lambda: World([[1.0, 0], [0, 0]]), r"^the sample of row 1 of P has probability zero; "),
        (lambda: CrossWorld([[0.5, 0], [0.5, 0]]), r"^the sample of column 1 of P has prob"),
        (lambda: World([[0.5, 0.5]]), r"^P has shape \(1, 2\); pairs of the same samples need"),
        (lambda: World([[np.nan, 0], [0, 1]]), r"^P has NaN or infinite entries; "),
        (lambda: World([0.5, 0.5]), r"^P must be a table of rows and columns, got shape \(2,\)"),
        (lambda: World(sparse.csr_array([[0.9, 0.1], [0.0, 0.0]])), r"^P is not symmetric"),
        (lambda: LatentWorld([0.5, 0.6], np.eye(2)), r"^prior sums to 1.1; prob"),
        (lambda: LatentWorld([1.0, 0.0], np.eye(2)), r"^prior has the entry \[0\.\]; each class"),
        (lambda: LatentWorld([[1.0]], [[1.0]]), r"^prior must be a list of probabilities, got"),
        (lambda: LatentWorld([1.0], [[0.5], [0.4]]), r"^column 0 of likelihood sums to 0.9; "),
        (lambda: LatentWorld([1.0], [[1.0], [0]]), r"^sample 1 has probability zero under every"),
        (lambda: LatentWorld([1.0], np.eye(2)), r"^likelihood has 2 columns for 1 classes; "),
        (lambda: LatentWorld([1.0], [[1.5], [-0.5]]), r"^likelihood has negative entries"),
        (lambda: graph_world([[0, 1, 0], [1, 0, 0], [0, 0, 0]]), r"^node 2 has no edge; leave"),
        (lambda: graph_world([[0, 1], [2, 0]]), r"^adjacency is not symmetric"),
        (lambda: graph_world([[1, 2]]), r"^adjacency has shape \(1, 2\); a graph needs"),
        (lambda: random_world(3, 4, np.random.default_rng(0)), r"^4 classes cannot each have"),
        (lambda: random_world(4, 2, np.random.default_rng(0), blur=2), r"^blur is 2; it is a s"),
        (lambda: random_world(4, 2, np.random.default_rng(0), concentration=-1), r"^concentr"),
    ],
)
def test_bad_worlds_are_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_world_does_not_change_with_the_array_it_came_from():
    table = np.full((2, 2), 0.25)
    world = World(table)
    table[0, 0] = 9
    assert world.joint.sum() == 1
