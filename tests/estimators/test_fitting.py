import numpy as np
import pytest
import torch

from nonneg import NCL
from nonneg.estimators.fit import FitSettings, rate_factor, step_budget
from nonneg.estimators.ncl import _batches


@pytest.mark.parametrize(
    ("n_samples", "limits", "expected"),
    [
        (100, {}, 300),
        (15_000, {}, 300),
        (100_000, {}, 1950),
        (100_000, {"max_steps": 40}, 40),
        (100_000, {"max_epochs": 1}, 195),
        (100, {"max_epochs": 3}, 3),
        (100_000, {"max_epochs": 1, "max_steps": 1000}, 195),
    ],
)
def test_step_budget(n_samples, limits, expected):
    limits = {"max_epochs": None, "max_steps": None, **limits}
    assert step_budget(n_samples, min(512, n_samples), **limits) == expected


@pytest.mark.parametrize("n_steps", [1, 2, 7, 300])
def test_rate_rises_to_its_peak_and_falls_towards_zero(n_steps):
    factors = [rate_factor(step, n_steps) for step in range(n_steps)]
    peak = factors.index(max(factors))
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    assert min(factors) > 0
    assert max(factors) <= 1


def test_an_epoch_has_every_sample_at_most_once_and_orders_differ():
    settings = FitSettings(
        n_steps=6, batch_size=4, learning_rate=1, temperature=1, target_active=None, seed=0
    )
    hidden = torch.arange(14.0)[:, None]
    batches = list(_batches(hidden, settings, torch.Generator().manual_seed(0)))
    epochs = [torch.cat([b.indices for b in batches[i : i + 3]]).tolist() for i in (0, 3)]
    for epoch in epochs:
        assert len(set(epoch)) == 12
    assert epochs[0] != epochs[1]
    assert [b.draws.epoch for b in batches] == [0, 0, 0, 1, 1, 1]
    for batch in batches:
        assert torch.equal(batch.inputs[:, 0].long(), batch.indices)


def test_a_fit_that_diverges_says_so_at_once():
    steep = {"nonnegative": "exp", "learning_rate": 1e6, "max_steps": 50, "random_state": 0}
    X = np.random.default_rng(0).standard_normal((200, 10))
    with pytest.raises(FloatingPointError, match=r"the fit diverged: the loss is .*; lower learn"):
        NCL(n_components=16, **steep).fit(X)
