"""timm models by name, against a small stand-in with timm's calls."""

import sys
import types

import pytest
import torch
from torch import nn

from nonneg.backbones import BackboneSettings, Frozen, TimmBackbone, build, portable


@pytest.fixture
def calls(monkeypatch):
    """The arguments of each ``create_model``; its models pool over pixels."""
    made = []

    def create_model(name, *, pretrained, num_classes, in_chans, width=5, pool=True):
        made.append((name, pretrained, num_classes, in_chans))
        layers = [nn.Conv2d(in_chans, width, 1), nn.BatchNorm2d(width)]
        pooling = [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if pool else []
        return nn.Sequential(*layers, *pooling)

    timm = types.ModuleType("timm")
    timm.create_model = create_model
    timm.is_model = lambda name: name.partition(".")[0] in ("resnet18", "convnext_atto")
    timm.list_models = lambda: ["convnext_atto", "resnet18"]
    monkeypatch.setitem(sys.modules, "timm", timm)
    return made


def test_without_classifier_with_the_channels_of_the_samples(calls):
    backbone = build(BackboneSettings(name="timm:resnet18.a1_in1k", pretrained=True), (2, 8, 8))
    assert calls == [("resnet18.a1_in1k", True, 0, 2)]
    assert backbone.hidden_size == 5
    assert backbone(torch.zeros(3, 2, 8, 8)).shape == (3, 5)
    assert backbone.training
    assert backbone.model[1].num_batches_tracked == 1


def test_by_hand(calls):
    assert TimmBackbone("timm:resnet18", pretrained=False).hidden_size == 5
    assert calls == [("resnet18", False, 0, 3)]


def test_rebuilt_without_weights_from_portable_settings(calls):
    settings = BackboneSettings(name="timm:resnet18", pretrained=True, config={"width": 7})
    first = build(settings, (3, 8, 8)).eval()
    kept = portable(settings, Frozen(first))
    again = build(BackboneSettings.model_validate_json(kept.model_dump_json()), (3, 8, 8)).eval()
    again.load_state_dict(first.state_dict())
    assert calls[-1] == ("resnet18", False, 0, 3)
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again(images), first(images))
    assert again.hidden_size == 7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm:resnet81", "timm has no model 'resnet81'; nearest: resnet18"),
        ("timm:zzz", r"timm has no model 'zzz'; timm.list_models\(\) gives the names"),
        ("timm:hf-hub:me/model", "names no model of timm's own list; build it with timm"),
    ],
)
def test_unknown_models_are_refused(calls, name, message):
    with pytest.raises(ValueError, match=message):
        TimmBackbone(name)
    assert calls == []


def test_a_model_that_does_not_pool_is_refused(calls):
    with pytest.raises(ValueError, match=r"into \(2, 5, 8, 8\), but a backbone has to give"):
        TimmBackbone("timm:resnet18", sample_shape=(3, 8, 8), config={"pool": False})
