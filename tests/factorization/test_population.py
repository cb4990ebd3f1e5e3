"""The loss is a matrix factorisation, exactly; batches estimate it without bias."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nonneg.factorization import (
    CrossWorld,
    World,
    augmentation_world,
    factor_of,
    factorization_error,
    features_of,
    graph_world,
    random_world,
    spectral_cross_batch,
    spectral_population_loss,
)
from nonneg.losses import spectral_contrastive


def random_joint(rng, n_a, n_b, symmetric):
    joint = rng.random((n_a, n_b)) * (rng.random((n_a, n_b)) < 0.7) + 1e-3
    if symmetric:
        joint = joint + joint.T
    return joint / joint.sum()


def slow_loss(f, g, joint):
    """The definition: loops over all pairs and all negatives."""
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    total = 0.0
    for x in range(len(f)):
        for y in range(len(g)):
            product = sum(a * b for a, b in zip(f[x], g[y], strict=True))
            total += -2 * joint[x, y] * product + rows[x] * columns[y] * product**2
    return total


def slow_error(f, g, joint):
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    error, norm = 0.0, 0.0
    for x in range(len(f)):
        for y in range(len(g)):
            normalized = joint[x, y] / (rows[x] * columns[y]) ** 0.5
            product = sum(a * b for a, b in zip(f[x], g[y], strict=True))
            error += (normalized - (rows[x] * columns[y]) ** 0.5 * product) ** 2
            norm += normalized**2
    return error, norm


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 6), d=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_equivalence(n, d, seed):
    rng = np.random.default_rng(seed)
    joint, f = random_joint(rng, n, n, symmetric=True), rng.standard_normal((n, d))
    loss = spectral_population_loss(f, joint)
    error, norm = slow_error(f, f, joint)
    assert loss == pytest.approx(slow_loss(f, f, joint), abs=1e-10)
    assert loss == pytest.approx(error - norm, abs=1e-10)
    assert factorization_error(f, joint) == pytest.approx(error, abs=1e-10)
    assert spectral_population_loss(f, sparse.csr_array(joint)) == pytest.approx(loss, abs=1e-10)
    assert factorization_error(f, sparse.csr_array(joint)) == pytest.approx(error, abs=1e-10)


@settings(deadline=None, max_examples=30)
@given(n_a=st.integers(1, 6), n_b=st.integers(1, 6), seed=st.integers(0, 10_000))
def test_equivalence_for_two_modalities(n_a, n_b, seed):
    rng = np.random.default_rng(seed)
    joint = random_joint(rng, n_a, n_b, symmetric=False)
    f, g = rng.standard_normal((n_a, 3)), rng.standard_normal((n_b, 3))
    loss = spectral_population_loss(f, joint, g)
    error, norm = slow_error(f, g, joint)
    assert loss == pytest.approx(slow_loss(f, g, joint), abs=1e-10)
    assert loss == pytest.approx(error - norm, abs=1e-10)
    assert factorization_error(f, CrossWorld(joint), g) == pytest.approx(error, abs=1e-10)


@pytest.mark.parametrize("kind", ["latent", "graph", "augmentation"])
def test_equivalence_in_every_kind_of_world(kind):
    rng = np.random.default_rng(0)
    world = {
        "latent": lambda: random_world(20, 3, rng),
        "graph": lambda: graph_world(np.ones((20, 20)) - np.eye(20)),
        "augmentation": lambda: augmentation_world(
            rng.permutation(np.arange(60) % 20).reshape(20, 3)
        ),
    }[kind]()
    f = rng.standard_normal((20, 4))
    normalized = world.normalized
    squares = normalized if isinstance(normalized, np.ndarray) else normalized.toarray()
    F = factor_of(f, world)
    explicit = np.square(squares - F @ F.T).sum() - np.square(squares).sum()
    assert spectral_population_loss(f, world) == pytest.approx(explicit, abs=1e-10)
    np.testing.assert_allclose(features_of(F, world), f)


def mean_and_error(draw, n=4000):
    values = np.array([draw() for _ in range(n)])
    return values.mean(), values.std() / np.sqrt(n)


@pytest.mark.parametrize("modalities", [1, 2])
def test_the_batch_loss_is_unbiased(overlapping, modalities):
    rng = np.random.default_rng(0)
    f = torch.from_numpy(rng.standard_normal((30, 3)))
    g = torch.from_numpy(rng.standard_normal((30, 3)))

    def one_modality():
        first, second = world.draw_pairs(4, rng)
        return float(spectral_contrastive(f[first], f[second]))

    def two_modalities():
        first, second = world.draw_pairs(4, rng)
        return float(spectral_cross_batch(f[first], g[second]))

    if modalities == 1:
        world, draw = overlapping, one_modality
        expected = spectral_population_loss(f, world)
    else:
        world, draw = CrossWorld(overlapping.joint[:, ::-1]), two_modalities
        expected = spectral_population_loss(f, world, g)
    mean, error = mean_and_error(draw)
    assert error < 0.1 * abs(expected)
    assert abs(mean - expected) < 4 * error


def test_the_cross_batch_agrees_with_loops():
    a, b = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    attraction = sum(float(a[i] @ b[i]) for i in range(5)) / 5
    repulsion = [float(a[i] @ b[j]) ** 2 for i in range(5) for j in range(5) if i != j]
    expected = -2 * attraction + sum(repulsion) / len(repulsion)
    assert float(spectral_cross_batch(a, b)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda: spectral_population_loss(np.ones(2), np.eye(2) / 2), ValueError, r"^f has shape"),
        (
            lambda: spectral_population_loss(np.ones((3, 1)), np.eye(2) / 2),
            ValueError,
            r"^f has shape \(3, 1\); this world needs \(2, n_features\)$",
        ),
        (
            lambda: spectral_population_loss(np.full((2, 1), np.nan), np.eye(2) / 2),
            ValueError,
            r"^f has NaN or infinite entries$",
        ),
        (
            lambda: spectral_population_loss(np.ones((2, 1)), np.eye(2) / 2, np.ones((2, 2))),
            ValueError,
            r"^f has 1 features and g has 2; give both the same$",
        ),
        (
            lambda: spectral_population_loss(np.ones((2, 1)), CrossWorld(np.eye(2) / 2)),
            TypeError,
            r"^this world has two kinds of samples; ",
        ),
        (
            lambda: spectral_cross_batch(torch.ones(1, 2), torch.ones(1, 2)),
            ValueError,
            r"^z_a and z_b must be \(n, d\) with the same n of at least 2, got ",
        ),
    ],
)
def test_wrong_arguments_are_one_sentence(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call()


def test_a_world_may_be_given_as_its_joint(overlapping):
    f = np.random.default_rng(0).random((30, 2))
    expected = spectral_population_loss(f, overlapping)
    assert spectral_population_loss(f, World(overlapping.joint)) == pytest.approx(expected)
