import math

import pytest
import torch
from torch import nn

from nonneg.training import LARS, OptimizerSettings
from nonneg.training.optimizers import optimizer


def slow_lars(weights, gradients, *, lr, momentum, weight_decay, eta):
    """Algorithm 1 of You et al. 2017, on lists, for one weight matrix flattened."""
    velocity = [0.0] * len(weights)
    for gradient in gradients:
        length = math.sqrt(sum(w * w for w in weights))
        slope = math.sqrt(sum(g * g for g in gradient))
        trust = min(eta * length / (slope + weight_decay * length) / lr, 1.0)
        for i, (w, g) in enumerate(zip(list(weights), gradient, strict=True)):
            velocity[i] = momentum * velocity[i] + trust * (g + weight_decay * w)
            weights[i] = w - lr * velocity[i]
    return weights


@pytest.mark.parametrize("eta", [0.02, 50.0])  # below and above the clip
def test_lars_agrees_with_lists(eta):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(3, 2, generator=generator, dtype=torch.float64)
    gradients = torch.randn(4, 3, 2, generator=generator, dtype=torch.float64)
    numbers = {"lr": 0.4, "momentum": 0.9, "weight_decay": 0.01, "eta": eta}
    expected = slow_lars(weight.flatten().tolist(), gradients.flatten(1).tolist(), **numbers)
    parameter = nn.Parameter(weight)
    lars = LARS([parameter], **numbers)
    for gradient in gradients:
        parameter.grad = gradient
        lars.step()
    assert parameter.detach().flatten().tolist() == pytest.approx(expected, rel=1e-6)


def test_lars_takes_plain_steps_for_biases():
    bias = nn.Parameter(torch.ones(3))
    lars = LARS([bias], lr=0.5, momentum=0.0, weight_decay=0.1)
    bias.grad = torch.tensor([1.0, 0.0, -1.0])
    lars.step()
    assert bias.tolist() == [0.5, 1.0, 1.5]


def test_lars_survives_zeros():
    weight = nn.Parameter(torch.zeros(2, 2))
    lars = LARS([weight], lr=0.0, weight_decay=0.1)
    weight.grad = torch.zeros(2, 2)
    lars.step()
    assert torch.equal(weight, torch.zeros(2, 2))


@pytest.mark.parametrize("name", ["adamw", "sgd", "lars"])
def test_only_matrices_are_decayed_and_only_what_learns_moves(name):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[2].requires_grad_(False)
    made = optimizer(model, OptimizerSettings(name=name, lr=0.1, weight_decay=0.3))
    decayed, plain = made.param_groups
    assert [p.shape for p in decayed["params"]] == [(4, 3)]
    assert decayed["weight_decay"] == 0.3
    assert [p.shape for p in plain["params"]] == [(4,), (4,), (4,)]
    assert plain["weight_decay"] == 0


def test_lars_lowers_a_loss():
    torch_generator = torch.Generator().manual_seed(0)
    weight = nn.Parameter(torch.randn(8, 8, generator=torch_generator))
    lars = LARS([weight], lr=0.3, eta=0.02)
    before = float(weight.detach().square().sum())
    for _ in range(50):
        lars.zero_grad()
        weight.square().sum().backward()
        lars.step()
    assert float(weight.detach().square().sum()) < 0.2 * before


def test_a_rate_beyond_all_use_is_refused():
    """A step of AdamW at 1e38 would overflow in the middle of a run."""
    with pytest.raises(ValueError, match="less than or equal to 10000"):
        OptimizerSettings(lr=1e38)
