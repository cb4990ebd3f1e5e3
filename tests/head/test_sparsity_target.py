import pytest
import torch
from torch import nn

from nonneg import metrics
from nonneg.head.nonnegative import NonNegative
from nonneg.head.on_rate import raise_bias, row_threshold


@pytest.mark.parametrize("target", [25, 28.5])
def test_biases_rise_to_meet_the_target(target):
    generator = torch.Generator().manual_seed(0)
    layer, inputs = nn.Linear(5, 30), torch.randn(400, 5, generator=generator)
    raise_bias(layer, layer(inputs).detach(), target)
    assert float((layer(inputs) > 0).sum(dim=1).float().mean()) == pytest.approx(target, abs=0.01)


def test_biases_never_fall_and_may_go_a_share_of_the_way():
    layer, scores = nn.Linear(1, 4), torch.tensor([[4.0, 3.0, -1.0, -2.0]])
    before = layer.bias.clone()
    assert raise_bias(layer, scores, 1) == 0
    assert torch.equal(layer.bias, before)
    assert raise_bias(layer, scores, 3, share=0.1) == pytest.approx(0.15)
    torch.testing.assert_close(layer.bias, before + 0.15)


@pytest.mark.parametrize("target", [1.5, 6])
def test_the_threshold_keeps_the_target_whatever_the_length_of_rows(target):
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(500, 20, generator=generator) * torch.rand(500, 1, generator=generator)
    kept = NonNegative(threshold=row_threshold(features, target))(features)
    assert metrics.active_per_sample(kept).value == pytest.approx(target, abs=0.01)
    assert torch.equal(kept[kept > 0], features[kept > 0])
    unit = features / features.norm(dim=1, keepdim=True)
    assert unit[kept > 0].min() >= unit[kept == 0].max()


def test_few_active_features_need_no_threshold():
    assert row_threshold(torch.eye(6), 3) == 0
