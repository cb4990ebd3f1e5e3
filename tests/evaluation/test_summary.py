"""Headline figures: of few samples too, and then without those that need many."""

import math

import pytest
import torch

from nonneg import Encoder, EncoderSettings
from nonneg.data import ArrayData
from nonneg.evaluation import summary
from nonneg.head.projector import ProjectorSettings


class OneHot(torch.nn.Module):
    """Two columns and their negatives: two classes that are told apart at once."""

    hidden_size = 4

    def forward(self, x):
        return torch.cat([x, -x], dim=1)


def encoder():
    built = Encoder(
        EncoderSettings(projector=ProjectorSettings(hidden=(), n_features=4), nonnegative="relu"),
        (2,),
        backbone=OneHot(),
    )
    last = built.projector[-1]
    with torch.no_grad():
        last.weight.copy_(torch.eye(4))
        if last.bias is not None:
            last.bias.zero_()
    return built


def kinds(n):
    labels = torch.arange(n) % 2
    return ArrayData(inputs=torch.eye(2)[labels], labels=labels, name="kinds")


@pytest.mark.parametrize(("n_train", "n_test"), [(8, 60), (60, 15), (8, 20)])
def test_few_samples_are_measured_as_far_as_they_go(n_train, n_test):
    found = summary(encoder(), kinds(n_train), kinds(n_test))
    assert (found.sparsity, found.alive_features, found.n_features) == (0.75, 2, 4)
    assert (found.knn_accuracy, found.probe_accuracy) == (1, 1)
    if n_test > 20:
        assert (found.consistency, found.top_purity, found.n_measured) == (1, 1, 2)
        assert 0.5 < found.consistency_null < 0.8
        assert 0.5 < found.top_purity_null < 0.8
    else:
        assert found.n_measured == 0
        for name in ("consistency", "consistency_null", "top_purity", "top_purity_null"):
            assert math.isnan(getattr(found, name))
