"""Weights that keep angles: closed forms, the nearest of all, and on-rates that stay."""

import math

import pytest
import torch
from torch import nn

import nonneg.head.tight_frame
from nonneg.head.tight_frame import make_tight_frame, nearest_frame


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer(n_features=30, width=6, seed=0):
    last = nn.Linear(width, n_features)
    with torch.no_grad():
        # Long in one direction, as a loss that pulls views together makes it.
        last.weight.copy_(drawn(n_features, width, seed=seed) * torch.tensor([9.0] + [1.0] * 5))
        last.bias.copy_(drawn(n_features, seed=seed + 1) - 1)
    return last


def test_a_frame_keeps_every_angle_and_the_length_altogether():
    weight = layer().weight.detach()
    frame = nearest_frame(weight)
    x, y = drawn(2, 6, seed=3)
    cosine = nn.functional.cosine_similarity
    torch.testing.assert_close(cosine(frame @ x, frame @ y, dim=0), cosine(x, y, dim=0))
    assert abs(cosine(weight @ x, weight @ y, dim=0) - cosine(x, y, dim=0)) > 0.1
    torch.testing.assert_close(frame.norm(), weight.norm())


def test_of_two_columns_the_frame_is_known():
    """Columns (a, 0, …) and (0, b, …) get the root of the mean square of a and b."""
    frame = nearest_frame(torch.tensor([[5.0, 0.0], [0.0, 0.5], [0.0, 0.0]]))
    length = math.sqrt((25 + 0.25) / 2)
    assert frame.flatten().tolist() == pytest.approx([length, 0, 0, length, 0, 0])


def test_no_other_frame_is_nearer():
    weight = layer().weight.detach()
    best = nearest_frame(weight)
    for seed in range(20):
        turn = torch.matrix_exp(0.05 * (drawn(6, 6, seed=seed) - drawn(6, 6, seed=seed).T))
        assert (best - weight).norm() < (best @ turn - weight).norm()


def test_what_is_a_frame_already_stays_and_columns_may_turn():
    weight = layer().weight.detach()
    frame = nearest_frame(weight)
    torch.testing.assert_close(nearest_frame(frame), frame)
    turn = torch.linalg.qr(drawn(6, 6)).Q
    torch.testing.assert_close(nearest_frame(weight @ turn), frame @ turn)


def test_a_direction_that_is_not_seen_stays_unseen():
    """Whatever rounding says of it: the same run would end in another way."""
    weight = drawn(30, 6)
    weight[:, 2] = 1e-9 * drawn(30, seed=1)
    frame = nearest_frame(weight)
    assert frame[:, 2].abs().max() < 1e-7
    seen = frame[:, [0, 1, 3, 4, 5]]
    gram = seen.T @ seen
    torch.testing.assert_close(gram, gram[0, 0] * torch.eye(5), atol=1e-4, rtol=1e-4)
    assert nearest_frame(torch.zeros(4, 3)).abs().max() == 0


def test_with_fewer_features_than_columns_rows_become_orthogonal():
    frame = nearest_frame(drawn(3, 8))
    gram = frame @ frame.T
    torch.testing.assert_close(gram, gram[0, 0] * torch.eye(3))


@pytest.mark.parametrize("at_once", [7, 1024])
def test_features_are_on_as_often_as_before_also_never_and_always(at_once, monkeypatch):
    monkeypatch.setattr(nonneg.head.tight_frame, "AT_ONCE", at_once)
    last, inputs = layer(), drawn(400, 6, seed=5)
    with torch.no_grad():
        last.bias[0], last.bias[1] = -1e3, 1e3
    before = (last(inputs) > 0).sum(dim=0)
    dead, others = last.weight[0].clone(), last.weight[1:].clone()
    make_tight_frame(last, inputs)
    assert torch.equal((last(inputs) > 0).sum(dim=0), before)
    # Nor are they on the edge of the opposite: other samples are like these.
    fresh = (last(drawn(4000, 6, seed=6)) > 0).sum(dim=0)
    assert fresh[:2].tolist() == [0, 4000]
    assert before[:2].tolist() == [0, 400]
    assert torch.equal(last.weight[0], dead)
    assert last.bias[0] == -1e3
    assert not (last.weight[1:] == others).any()
    gram = last.weight[1:].T @ last.weight[1:]
    torch.testing.assert_close(gram, gram[0, 0] * torch.eye(6), atol=1e-4, rtol=1e-4)


def test_if_all_features_are_dead_nothing_changes():
    last = layer()
    with torch.no_grad():
        last.bias.fill_(-1e3)
    weight = last.weight.clone()
    make_tight_frame(last, drawn(400, 6, seed=5))
    assert torch.equal(last.weight, weight)


def test_where_samples_are_equal_features_are_on_for_no_more_than_before():
    """Half of them are all zero, and lie on the edge of many features."""
    last, inputs = layer(), drawn(400, 6, seed=5)
    inputs[200:] = 0
    before = (last(inputs) > 0).sum(dim=0)
    make_tight_frame(last, inputs)
    assert ((last(inputs) > 0).sum(dim=0) <= before).all()


def test_many_features_see_what_few_would():
    """Lengths that differ by a thousand are no rounding, however many rows there are."""
    weight = drawn(16384, 4) * torch.tensor([1e3, 1.0, 1.0, 1.0])
    gram = nearest_frame(weight).T @ nearest_frame(weight)
    torch.testing.assert_close(gram / gram[0, 0], torch.eye(4), atol=1e-4, rtol=1e-4)


def test_signed_scores_keep_their_bias():
    last = layer()
    bias = last.bias.clone()
    make_tight_frame(last, None)
    assert torch.equal(last.bias, bias)
    gram = last.weight.T @ last.weight
    torch.testing.assert_close(gram, gram[0, 0] * torch.eye(6), atol=1e-4, rtol=1e-4)


def test_weights_that_are_no_numbers_are_left_for_the_run_to_report():
    last = layer()
    with torch.no_grad():
        last.weight[0, 0] = math.nan
    make_tight_frame(last, drawn(10, 6))
    assert last.weight.isnan().sum() == 1


def test_one_sample_is_too_few_for_on_rates():
    last = layer()
    weight = last.weight.clone()
    with pytest.raises(ValueError, match="at least two samples, got 1"):
        make_tight_frame(last, drawn(1, 6))
    assert torch.equal(last.weight, weight)
