"""Gates: open or shut, with a gradient; a penalty that moves the gates alone."""

import math

import pytest
import torch

from nonneg import Encoder, EncoderSettings
from nonneg.head.projector import Gate, GateSettings, ProjectorSettings
from nonneg.training import Classifier


def gate(prior=0.8, weight=1.0):
    torch.manual_seed(0)
    made = Gate(3, 4, GateSettings(prior=prior, weight=weight))
    torch.nn.init.normal_(made.layers[-1].weight)
    return made.double()


def test_gates_are_open_or_shut():
    hidden = torch.randn(50, 3, dtype=torch.float64)
    made = gate(prior=0.55)
    probability = made.layers(hidden).sigmoid()
    assert torch.equal(made(hidden), (probability > 0.5).double())
    assert 0.2 < float((probability > 0.5).double().mean()) < 0.8


def test_the_gradient_is_that_of_the_probability():
    hidden = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    made, direction = gate(), torch.randn(5, 4, dtype=torch.float64)
    (found,) = torch.autograd.grad((made(hidden) * direction).sum(), hidden)
    (expected,) = torch.autograd.grad((made.layers(hidden).sigmoid() * direction).sum(), hidden)
    torch.testing.assert_close(found, expected)


def test_the_penalty_is_the_divergence_from_the_prior():
    hidden = torch.randn(5, 3, dtype=torch.float64)
    made, total = gate(prior=0.7, weight=0.5), 0.0
    for row in made.layers(hidden).tolist():
        for logit in row:
            p = 1 / (1 + math.exp(-logit))
            total += p * math.log(p / 0.7) + (1 - p) * math.log((1 - p) / 0.3)
    assert float(made.penalty(hidden).detach()) == pytest.approx(0.5 * total / 5, rel=1e-10)


def test_a_new_gate_costs_nothing_and_is_open():
    made = Gate(3, 4, GateSettings(weight=1.0))
    hidden = torch.randn(5, 3)
    assert float(made.penalty(hidden).detach()) == pytest.approx(0, abs=1e-6)
    assert torch.equal(made(hidden), torch.ones(5, 4))


@pytest.mark.parametrize("prior", [0.2, 0.5])
def test_a_prior_that_shuts_every_gate_at_the_start_is_refused(prior):
    with pytest.raises(ValueError, match=rf"'prior': must be above 0.5.*, got {prior}"):
        GateSettings.read({"prior": prior})
    with pytest.raises(ValueError, match="less than 1"):
        GateSettings(prior=1.0)


def test_the_penalty_moves_the_gates_alone():
    hidden = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    made = gate()
    made.penalty(hidden).backward()
    assert hidden.grad is None
    assert made.layers[0].weight.grad.abs().sum() > 0


def encoder(**settings):
    small = ProjectorSettings(hidden=(6,), n_features=4)
    return Encoder(
        EncoderSettings(projector=small, **settings), (5,), backbone=torch.nn.Linear(5, 3)
    )


def test_a_shut_gate_makes_a_feature_zero():
    gated = encoder(gate=GateSettings(), nonnegative="softplus")
    with torch.no_grad():
        gated.gate.layers[-1].bias[1] = -5
    features = gated.encode(torch.randn(8, 5)).features
    assert bool((features[:, 1] == 0).all())
    assert bool((features[:, [0, 2, 3]] > 0).all())


def test_a_gate_is_saved_with_the_encoder(tmp_path):
    gated = encoder(gate=GateSettings(prior=0.6))
    with torch.no_grad():
        gated.gate.layers[-1].bias.copy_(torch.tensor([1.0, -1.0, 1.0, -1.0]))
    gated.save(tmp_path)
    loaded = Encoder.load(tmp_path, backbone=torch.nn.Linear(5, 3))
    x = torch.randn(8, 5)
    assert torch.equal(loaded.encode(x).features, gated.encode(x).features)
    assert loaded.settings.gate == GateSettings(prior=0.6)


def test_without_a_gate_there_is_none():
    assert encoder().gate is None


@pytest.mark.parametrize(("reads", "learns"), [("hidden", False), ("features", True)])
def test_a_classifier_on_the_backbone_leaves_the_gate_out(reads, learns):
    gated = encoder(gate=GateSettings())
    Classifier(gated, 3, reads=reads)
    assert all(p.requires_grad is learns for p in gated.gate.parameters())
