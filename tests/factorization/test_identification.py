"""NCL finds the posteriors of the latent classes where there are anchors; CL does not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nonneg.factorization import (
    LatentWorld,
    eigen_factor,
    factorization_error,
    features_of,
    identification_score,
    nearest_known,
    posterior_features,
    projected_factor,
    random_rotation,
    random_world,
    spectral_population_loss,
)
from nonneg.paper.theory import anchor_study, width_study


@settings(deadline=None, max_examples=25)
@given(
    m=st.integers(1, 5),
    n_others=st.integers(0, 15),
    concentration=st.sampled_from([0.0, 0.3, 1.0]),
    blur=st.sampled_from([0.0, 0.4]),
    seed=st.integers(0, 10_000),
)
def test_the_posterior_features_are_an_optimum(m, n_others, concentration, blur, seed):
    rng = np.random.default_rng(seed)
    world = random_world(m + n_others, m, rng, concentration=concentration, blur=blur)
    phi = posterior_features(world)
    assert factorization_error(phi, world) == pytest.approx(0, abs=1e-12)
    lowest = -np.square(world.normalized).sum()
    assert spectral_population_loss(phi, world) == pytest.approx(lowest, abs=1e-10)
    np.testing.assert_allclose((phi * np.sqrt(world.prior)).sum(axis=1), 1)


@settings(deadline=None, max_examples=25)
@given(m=st.integers(2, 5), surplus=st.integers(0, 3), seed=st.integers(0, 10_000))
def test_order_length_and_sign_do_not_count(m, surplus, seed):
    rng = np.random.default_rng(seed)
    phi = rng.random((12, m))
    order = rng.permutation(m + surplus)
    scales = rng.uniform(0.5, 2, m + surplus) * rng.choice([-1, 1], m + surplus)
    learnt = np.hstack([phi, np.zeros((12, surplus))])[:, order] * scales
    found = identification_score(learnt, phi)
    assert found.value == pytest.approx(1)
    assert found.correlation == pytest.approx(1)
    assert (order[found.partner] == np.arange(m)).all()
    assert found.n_dead == surplus


def test_the_distance_keeps_lengths_and_forgives_order_and_sign():
    phi = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert identification_score(-phi[:, ::-1], phi).distance == pytest.approx(0)
    assert identification_score(2 * phi, phi).distance == pytest.approx(1)


def test_a_class_without_a_feature_counts_zero():
    phi = np.eye(4)
    found = identification_score(phi[:, :3], phi)
    assert found.value == 0.75
    assert found.partner.tolist() == [0, 1, 2, -1]
    assert found.correlation == pytest.approx(0.75)
    with pytest.raises(ValueError, match=r"^1 of the known features are zero for every sample; "):
        identification_score(phi, np.diag([1.0, 1, 1, 0]))


def test_nearest_known_lets_features_share_a_class():
    phi = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    learnt = np.column_stack([phi[:, 0], 3 * phi[:, 0], phi.sum(axis=1), np.zeros(3)])
    np.testing.assert_allclose(nearest_known(learnt, phi), [1, 1, np.sqrt(2 / 3)])


@pytest.mark.parametrize("concentration", [0.0, 0.5, 1.0])
def test_ncl_identifies_separable_worlds_and_cl_does_not_at_equal_loss(concentration):
    of_cl = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        world = random_world(60, 4, rng, concentration=concentration)
        phi = posterior_features(world)
        starts = [projected_factor(world.normalized, 4, rng) for _ in range(3)]
        factor = min(starts, key=lambda F: np.square(world.normalized - F @ F.T).sum())
        ncl = features_of(factor, world)
        cl = features_of(eigen_factor(world.normalized, 4), world) @ random_rotation(4, rng)
        assert identification_score(ncl, phi).value > 0.99
        of_cl.append(identification_score(cl, phi).value)
        losses = [spectral_population_loss(f, world) for f in (ncl, cl)]
        assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    # A random rotation may come near by luck, but not five times.
    assert np.mean(of_cl) < 0.85


def test_without_anchors_another_factor_is_as_good():
    found = [anchor_study(blur, seed) for seed in range(3) for blur in (0.0, 0.6)]
    with_anchors, without = found[::2], found[1::2]
    assert min(study.correlation["NCL"] for study in with_anchors) > 0.99
    assert np.mean([study.correlation["NCL"] for study in without]) < 0.9
    assert max(study.error["NCL"] for study in without) < 1e-3
    assert all(study.purity == pytest.approx(1) for study in with_anchors)


def test_fewer_features_lose_classes_and_more_repeat_them():
    few, exact, many = (width_study(d, 0) for d in (3, 5, 8))
    assert few.error > 100 * exact.error
    assert few.cosine <= 0.6
    assert exact.cosine > 0.999
    assert many.cosine > 0.99
    assert many.nearest > 0.95


def test_sparse_worlds_have_the_same_posterior_features():
    likelihood = np.array([[1, 0], [0, 0.5], [0, 0.5]])
    dense, thin = (LatentWorld([0.25, 0.75], x) for x in (likelihood, sparse.csr_array(likelihood)))
    np.testing.assert_allclose(posterior_features(dense), posterior_features(thin))
