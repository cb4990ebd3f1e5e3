import itertools

import numpy as np
import pytest

from nonneg.factorization import (
    bayes_error,
    bayes_weights,
    features_of,
    identification_score,
    linear_error,
    posterior_features,
    projected_factor,
    random_world,
)


@pytest.mark.parametrize("seed", range(5))
def test_the_linear_classifier_on_phi_reaches_bayes_error(seed):
    rng = np.random.default_rng(seed)
    world = random_world(6, 3, rng, concentration=1.0)
    labels = rng.dirichlet(np.ones(2), size=3)
    rates = np.zeros((6, 2))
    for x, c, y in itertools.product(range(6), range(3), range(2)):
        rates[x, y] += world.prior[c] * world.likelihood[x, c] * labels[c, y]  # P(x, y)
    # Every classifier there is: one of two labels for each of six samples.
    best = min(
        1 - sum(rates[x, y] for x, y in enumerate(choice))
        for choice in itertools.product(range(2), repeat=6)
    )
    assert bayes_error(world, labels) == pytest.approx(best)
    phi = posterior_features(world)
    weights = bayes_weights(world, labels)
    assert linear_error(phi, weights, world, labels) == pytest.approx(best)
    np.testing.assert_allclose(phi @ weights, rates / rates.sum(axis=1, keepdims=True))


def test_learnt_features_reach_it_too():
    rng = np.random.default_rng(0)
    world = random_world(60, 4, rng, concentration=0.5)
    labels = rng.dirichlet(np.ones(3), size=4)
    learnt = features_of(projected_factor(world.normalized, 4, rng), world)
    partner = identification_score(learnt, posterior_features(world)).partner
    weights = np.zeros((4, 3))
    weights[partner] = bayes_weights(world, labels)
    best = bayes_error(world, labels)
    assert linear_error(learnt, weights, world, labels) == pytest.approx(best, abs=1e-6)
    shuffled = weights[np.roll(np.arange(4), 1)]
    assert linear_error(learnt, shuffled, world, labels) > best + 0.01


def test_bad_labels_are_one_sentence(overlapping):
    with pytest.raises(ValueError, match=r"^label_given_class has 2 rows for 4 classes; "):
        bayes_weights(overlapping, np.eye(2))
    with pytest.raises(ValueError, match=r"^row 0 of label_given_class sums to 2; P\(y\|c\) must"):
        bayes_weights(overlapping, np.full((4, 2), 1.0))
