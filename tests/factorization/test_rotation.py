"""Rotations leave the signed loss alone and destroy the reading; in the nonneg they cost."""

import numpy as np
import pytest

from nonneg.factorization import (
    posterior_features,
    random_rotation,
    random_world,
    rotation_path,
    spectral_population_loss,
)
from nonneg.metrics import class_consistency
from nonneg.paper.theory import rotation_study


@pytest.mark.parametrize("concentration", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_only_permutations_survive_rectification(concentration, seed):
    rng = np.random.default_rng(seed)
    world = random_world(40, 4, rng, concentration=concentration)
    phi = posterior_features(world)
    best = spectral_population_loss(phi, world)
    rotated = phi @ random_rotation(4, rng)
    assert spectral_population_loss(rotated, world) == pytest.approx(best, abs=1e-10)
    assert spectral_population_loss(np.maximum(rotated, 0), world) > best + 0.01
    permuted = phi[:, rng.permutation(4)]
    assert spectral_population_loss(np.maximum(permuted, 0), world) == pytest.approx(best)


def test_a_rotation_destroys_class_consistency():
    rng = np.random.default_rng(0)
    world = random_world(40, 4, rng, concentration=0)
    phi = posterior_features(world)
    classes = phi.argmax(axis=1)
    assert float(class_consistency(phi, classes)) == 1
    largest_share = np.bincount(classes).max() / 40
    after = float(class_consistency(phi @ random_rotation(4, rng), classes))
    assert after == pytest.approx(largest_share)


def test_a_path_starts_at_none_and_its_largest_angle_grows_as_asked():
    path = rotation_path(5, np.random.default_rng(0), np.array([0.0, 30.0, 75.0]))
    np.testing.assert_allclose(path[0], np.eye(5), atol=1e-12)
    for rotation, degrees in zip(path, (0, 30, 75), strict=True):
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(5), atol=1e-12)
        angles = np.abs(np.rad2deg(np.angle(np.linalg.eigvals(rotation))))
        assert angles.max() == pytest.approx(degrees, abs=1e-6)
    with pytest.raises(ValueError, match=r"^1 feature cannot be rotated; give at least 2$"):
        rotation_path(1, np.random.default_rng(0), np.array([1.0]))


def test_the_study_sees_the_same():
    study = rotation_study(0)
    np.testing.assert_allclose(study.signed_loss, study.lowest)
    assert (np.diff(study.rectified_loss) > 0).all()
    assert study.signed_consistency[0] == 1
    assert study.signed_consistency[1:].max() < 0.5
