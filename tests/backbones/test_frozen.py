"""A frozen module does not change, whatever is done on top of it."""

import pytest
import torch
from torch import nn

from nonneg.backbones import Frozen, ResNet, hidden_size


def images(n=8):
    return torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def with_dropout_and_norm():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Dropout(0.5))


def test_training_a_head_leaves_every_parameter_and_buffer_bit_equal():
    module = with_dropout_and_norm()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = nn.Sequential(Frozen(module), nn.Linear(6, 3)).train()
    head = model[1].weight.clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model.train()
        model(images()).square().mean().backward()
        optimizer.step()
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not torch.equal(model[1].weight, head)


def test_the_same_training_without_it_changes_them():
    module = with_dropout_and_norm()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module.train()(images())
    assert not torch.equal(module.state_dict()["2.running_mean"], before["2.running_mean"])


def test_output_is_that_of_evaluation_mode_without_gradient():
    module = with_dropout_and_norm()
    frozen = Frozen(module).train()
    output = frozen(images().requires_grad_())
    assert not output.requires_grad
    assert torch.equal(output, module.eval()(images()))
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


def test_modes():
    parent = nn.Sequential(Frozen(with_dropout_and_norm()), nn.Dropout())
    parent.train()
    assert parent[0].training
    assert not any(part.training for part in parent[0].frozen.modules())
    parent.eval()
    assert not parent[0].training


def test_names_in_the_state_dict_have_a_prefix():
    frozen = Frozen(ResNet("resnet10", in_channels=1, width=2))
    names = list(frozen.state_dict())
    assert "frozen.layer2.0.downsample.1.running_mean" in names
    assert all(name.startswith("frozen.") for name in names)


def test_hidden_size_is_the_modules_own():
    frozen = Frozen(ResNet("resnet10", in_channels=1, width=2))
    assert frozen.hidden_size == 16
    assert hidden_size(frozen, (1, 8, 8)) == 16


def test_a_module_that_does_not_say_its_size_is_measured_instead():
    frozen = Frozen(with_dropout_and_norm())
    assert hidden_size(frozen, (1, 8, 8)) == 6
    with pytest.raises(TypeError, match="Sequential does not say its hidden_size; use nonneg"):
        _ = frozen.hidden_size
