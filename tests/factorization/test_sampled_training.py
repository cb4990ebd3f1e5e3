"""NCL from drawn pairs alone: poor before training, the posteriors after it."""

import numpy as np
import pytest
import torch

from nonneg.factorization import (
    best_table,
    eigen_factor,
    features_of,
    identification_score,
    observations,
    posterior_features,
    random_world,
    spectral_population_loss,
    train_encoder,
    train_table,
)
from nonneg.factorization import solvers as sampling
from nonneg.factorization.solvers import warm_then_cosine


@pytest.mark.parametrize("concentration", [0.0, 0.5])
def test_a_table_finds_the_posteriors(concentration):
    world = random_world(40, 4, np.random.default_rng(0), concentration=concentration)
    phi = posterior_features(world)
    before = train_table(world, 4, np.random.default_rng(1), n_steps=1)
    after = train_table(world, 4, np.random.default_rng(1))
    assert after.min() >= 0
    assert identification_score(before, phi).value < 0.9
    assert identification_score(after, phi).value > 0.99


def test_the_loss_tells_which_start_found_all_classes(monkeypatch):
    world = random_world(60, 4, np.random.default_rng(0), concentration=0)
    phi = posterior_features(world)
    merged = np.column_stack([phi[:, 0] + phi[:, 1], phi[:, 2:], np.zeros(60)]) * 0.8
    starts = iter([merged, phi, merged])
    monkeypatch.setattr(sampling, "train_table", lambda *_: next(starts))
    assert best_table(world, 4, np.random.default_rng(0)) is phi
    with pytest.raises(ValueError, match=r"^n_starts is 0; give at least 1$"):
        best_table(world, 4, np.random.default_rng(0), n_starts=0)


def test_a_signed_table_reaches_the_loss_of_the_eigenvectors_and_no_posteriors(overlapping):
    learnt = train_table(overlapping, 4, np.random.default_rng(0), nonnegative="identity")
    optimum = features_of(eigen_factor(overlapping.normalized, 4), overlapping)
    best = spectral_population_loss(optimum, overlapping)
    assert spectral_population_loss(learnt, overlapping) == pytest.approx(best, abs=0.02)
    assert identification_score(learnt, posterior_features(overlapping)).value < 0.9


def test_entries_of_a_rectified_table_do_not_come_back(overlapping):
    lost = train_table(overlapping, 4, np.random.default_rng(0), nonnegative="relu")
    kept = train_table(overlapping, 4, np.random.default_rng(0))
    losses = [spectral_population_loss(f, overlapping) for f in (lost, kept)]
    assert losses[0] > losses[1] + 0.005
    assert (lost == 0).mean() > (kept == 0).mean()


def test_a_table_that_diverges_says_so(overlapping):
    for nonnegative in ("project", "identity"):
        rng = np.random.default_rng(0)
        with pytest.raises(FloatingPointError, match=r"^training diverged at learning_rate 50: "):
            train_table(overlapping, 4, rng, nonnegative=nonnegative, learning_rate=50, n_steps=50)


def test_an_encoder_finds_the_posteriors_and_leaves_the_global_generator_alone():
    world = random_world(60, 4, np.random.default_rng(0))
    inputs = observations(world, 12, np.random.default_rng(1))
    assert inputs.shape == (60, 12)
    assert np.abs(inputs).max() <= 1
    state = torch.get_rng_state()
    encoder = train_encoder(world, inputs, 4, np.random.default_rng(2))
    assert torch.equal(state, torch.get_rng_state())
    assert not encoder.training
    assert encoder.is_nonnegative
    features = encoder.encode(inputs.astype(np.float32)).features.numpy()
    phi = posterior_features(world)
    assert identification_score(features, phi).value > 0.98
    start = train_encoder(world, inputs, 4, np.random.default_rng(2), n_steps=1)
    before = start.encode(inputs.astype(np.float32)).features.numpy()
    assert identification_score(before, phi).value < 0.9
    assert (before > 0).mean() > 0.8


def test_the_rate_rises_to_half_way_and_falls_to_zero():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = warm_then_cosine(optimizer, 10)
    rates = []
    for _ in range(10):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert np.argmax(rates) in (3, 4)
    assert rates[0] == pytest.approx(0.2)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0)
