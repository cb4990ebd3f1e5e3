"""Rows of length one: of any size, with the gradient of the same rows in float64."""

import pytest
import torch

from nonneg import info_nce
from nonneg.losses.rows import at_least_float32, check_two_views, unit_rows


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_hand(z):
    """Unit rows in float64, whose squares have room for everything that float32 holds."""
    z = z.double()
    return z / z.square().sum(dim=1, keepdim=True).sqrt()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e14, 1e16, 1e19, 1e20, 1e30, 1e37])
def test_value_and_gradient_of_large_rows_are_those_of_float64(size):
    z, direction = drawn(6, 5).float() * size, drawn(6, 5, seed=1)
    z[3] /= size  # one of ordinary size among them
    z.requires_grad_()
    found = unit_rows(z)
    expected = by_hand(z)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    (gradient,) = torch.autograd.grad((found * direction.float()).sum(), z)
    (right,) = torch.autograd.grad((expected * direction).sum(), z)
    # Gradients are as small as rows are long.
    lengths = z.detach().double().square().sum(dim=1, keepdim=True).sqrt()
    torch.testing.assert_close(gradient * lengths, right * lengths, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1.0, 1e16, 1e160])
def test_the_gradient_is_that_of_the_value(size):
    z = drawn(3, 4).requires_grad_()
    torch.testing.assert_close(unit_rows(z * size), by_hand(z))
    assert torch.autograd.gradcheck(lambda z: unit_rows(z * size, length=0.5), z)


def test_the_length_that_is_asked_for_may_learn():
    length = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    z = drawn(3, 4) * 1e160
    torch.testing.assert_close(unit_rows(z, length=length).norm(dim=1), 2 * torch.ones(3).double())
    assert torch.autograd.gradcheck(lambda length: unit_rows(z, length=length), length)


def test_the_largest_numbers_of_all_have_a_direction():
    highest = torch.finfo(torch.float32).max
    found = unit_rows(torch.tensor([[highest, -highest, highest, highest], [0.0, 0.0, 3.0, 4.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.5, -0.5, 0.5, 0.5], [0.0, 0.0, 0.6, 0.8]]))


def test_a_row_of_zeros_stays_one_and_keeps_a_bounded_gradient():
    z = torch.zeros(2, 3)
    z[1] = 1e25
    z.requires_grad_()
    found = unit_rows(z)
    assert found[0].tolist() == [0, 0, 0]
    (gradient,) = torch.autograd.grad(found[0].sum(), z)
    assert gradient[0].tolist() == [1, 1, 1]


def test_what_is_not_finite_is_not_hidden():
    found = unit_rows(torch.tensor([[torch.inf, 1.0], [torch.nan, 1.0]]))
    assert found.isnan().any(dim=1).all()


def test_the_loss_of_exponentiated_scores_can_still_learn():
    """Features of e^50 and more: the loss and its gradient by the scores are those of float64."""
    scores = (drawn(2, 4, 3) + 50).float()
    found, expected = [], []
    for kind, dtype in ((found, torch.float32), (expected, torch.float64)):
        a, b = (part.clone().requires_grad_() for part in scores.to(dtype))
        loss = info_nce(a.exp(), b.exp(), temperature=0.2)
        kind += [loss.detach().double(), *(g.double() for g in torch.autograd.grad(loss, (a, b)))]
    for ours, right in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-4, atol=1e-5)
    assert all(gradient.abs().max() > 1e-2 for gradient in expected[1:])


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_half_precision_becomes_float32_and_the_rest_stays(given, made):
    z = torch.ones(2, 2, dtype=given)
    assert at_least_float32(z).dtype == made
    assert (at_least_float32(z) is z) == (given == made)


def test_views_without_features_are_refused():
    nothing = torch.zeros(4, 0)
    with pytest.raises(ValueError, match=r"z_a must be \(n_samples, n_features\), got .*\(4, 0\)"):
        check_two_views(nothing, nothing)
