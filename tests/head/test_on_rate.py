"""Thresholds: so many samples above them, ties, and features that are on too often."""

import pytest
import torch
from torch import nn

import nonneg.head.on_rate
from nonneg.head.on_rate import bound_on_rate, thresholds


def passing(scores):
    """A layer that gives the scores of samples which are rows of the identity."""
    last = nn.Linear(len(scores), scores.shape[1])
    with torch.no_grad():
        last.weight.copy_(scores.T)
        last.bias.zero_()
    return last, torch.eye(len(scores))


def test_so_many_scores_are_above_their_threshold():
    scores = torch.randn(200, 30, generator=torch.Generator().manual_seed(0))
    n_on = torch.randint(1, 200, (30,), generator=torch.Generator().manual_seed(1))
    assert torch.equal((scores > thresholds(scores, n_on)).sum(dim=0), n_on)


def test_of_equal_scores_at_the_edge_none_is_on():
    scores = torch.tensor([[5.0], [2.0], [2.0], [-1.0]])
    found = thresholds(scores, torch.tensor([2]))
    assert 2 < found < 2.001
    zeros = thresholds(torch.zeros(4, 1), torch.tensor([2]))
    assert 0 < zeros < 1e-6


@pytest.mark.parametrize("at_once", [7, 1024])
def test_a_feature_that_is_on_too_often_is_on_for_its_share_afterwards(at_once, monkeypatch):
    monkeypatch.setattr(nonneg.head.on_rate, "AT_ONCE", at_once)
    scores = torch.randn(500, 40, generator=torch.Generator().manual_seed(2)) - 0.8
    last, samples = passing(scores)
    n_before = (last(samples) > 0).sum(dim=0)
    assert (n_before > 100).any()
    assert (n_before < 100).any()
    bound_on_rate(last, samples, most=0.2)
    assert torch.equal((last(samples) > 0).sum(dim=0), n_before.clamp_max(100))


@pytest.mark.parametrize("at_once", [7, 1024])
def test_on_rates_end_within_their_bounds(at_once, monkeypatch):
    monkeypatch.setattr(nonneg.head.on_rate, "AT_ONCE", at_once)
    scores = torch.randn(500, 40, generator=torch.Generator().manual_seed(2)) - 1.2
    scores[:, 0] -= 10  # dead
    last, samples = passing(scores)
    before = last.bias.clone()
    n_before = (last(samples) > 0).sum(dim=0)
    assert (n_before < 50).any()
    assert (n_before > 75).any()
    bound_on_rate(last, samples, least=0.1, most=0.15)
    assert torch.equal((last(samples) > 0).sum(dim=0), n_before.clamp(50, 75))
    within = (n_before >= 50) & (n_before <= 75)
    assert within.any()
    assert torch.equal(last.bias[within], before[within])


@pytest.mark.parametrize(("least", "n_on"), [(0.004, 0), (0.5, 1), (1.0, 1)])
def test_the_least_is_for_whole_samples_and_never_for_all(least, n_on):
    last, samples = passing(torch.tensor([[-1.0], [-2.0]]))
    bound_on_rate(last, samples, least=least)
    assert int((last(samples) > 0).sum()) == n_on


def test_a_score_that_is_always_the_same_stays_off():
    last, samples = passing(torch.full((10, 1), -1.0))
    bound_on_rate(last, samples, least=0.3)
    assert int((last(samples) > 0).sum()) == 0


def test_what_is_on_for_few_enough_stays_to_the_bit():
    scores = torch.tensor([[3.0], [2.0], [-1e-9], [-1.0]])
    for rate, bias in ((0.5, 0.0), (1.0, 0.0), (0.01, -2.5)):  # the last is less than one sample
        last, samples = passing(scores)
        bound_on_rate(last, samples, most=rate)
        assert last.bias.tolist() == [bias]


@pytest.mark.parametrize(("rate", "n", "n_max"), [(0.29, 100, 29), (0.57, 100, 57), (0.299, 10, 2)])
def test_a_share_of_whole_samples_is_not_rounded_down(rate, n, n_max):
    """In floating point 0.29 · 100 is a little less than 29."""
    last, samples = passing(torch.arange(1.0, n + 1)[:, None])
    bound_on_rate(last, samples, most=rate)
    assert int((last(samples) > 0).sum()) == n_max
