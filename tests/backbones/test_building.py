"""From settings to networks, and the sentence for samples that a network cannot read."""

import pytest
import torch

from nonneg.backbones import (
    MLP,
    BackboneSettings,
    Flatten,
    Frozen,
    ResNet,
    build,
    hidden_size,
    portable,
)


@pytest.mark.parametrize(
    ("settings", "shape", "kind", "width"),
    [
        ({"name": "resnet10", "width": 4}, (1, 8, 8), ResNet, 32),
        ({"name": "resnet50", "width": 2, "norm": "group"}, (3, 16, 16), ResNet, 64),
        ({"name": "resnet10", "width": 4, "stages": 2}, (1, 8, 8), ResNet, 8),
        ({"name": "resnet18", "width": 2, "stem": "large"}, (4, 32, 32), ResNet, 16),
        ({"name": "mlp", "hidden": (7, 5), "norm": "layer"}, (3, 4, 4), MLP, 5),
        ({"name": "mlp"}, (10,), MLP, 512),
        ({"name": "identity"}, (3, 4), Flatten, 12),
    ],
)
def test_built(settings, shape, kind, width):
    backbone = build(BackboneSettings(**settings), shape)
    assert isinstance(backbone, kind)
    assert backbone(torch.zeros(3, *shape)).shape == (3, width)
    assert backbone.hidden_size == hidden_size(backbone, shape) == width


def test_settings_reach_the_network():
    backbone = build(
        BackboneSettings(name="resnet10", width=16, stem="authors", norm="group"), (2, 8, 8)
    )
    assert backbone.conv1.weight.shape == (16, 2, 3, 3)
    assert backbone.conv1.padding == (2, 2)
    assert not list(backbone.buffers())
    mlp = build(BackboneSettings(name="mlp", norm="none", hidden=(4, 4)), (6,))
    assert [tuple(p.shape) for p in mlp.parameters()] == [(4, 6), (4,), (4, 4), (4,)]


@pytest.mark.parametrize("shape", [(64,), (8, 8), (2, 3, 8, 8)])
@pytest.mark.parametrize("name", ["resnet18", "timm:resnet18"])
def test_image_networks_refuse_what_is_no_image(name, shape):
    with pytest.raises(ValueError, match=r"needs images \(c, h, w\), got samples of shape .*'mlp'"):
        build(BackboneSettings(name=name), shape)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 8)])
def test_empty_samples_are_refused(shape):
    with pytest.raises(ValueError, match="samples with something in them, got shape"):
        build(BackboneSettings(name="identity"), shape)


def test_own_networks_are_portable_as_they_are():
    settings = BackboneSettings(name="resnet10", width=2)
    backbone = build(settings, (1, 8, 8))
    assert portable(settings, backbone) is settings
    assert portable(settings, Frozen(backbone)) is settings
