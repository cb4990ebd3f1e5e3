"""Rows of length one: of any size, with the gradient of the same rows in float64."""

import numpy as np
import pytest
import torch

from nonneg import info_nce
from nonneg.rows import array_row_lengths, at_least_float32, row_lengths, unit_rows


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_hand(z):
    """Unit rows in float64, whose squares have room for everything that float32 holds."""
    z = z.double()
    return z / z.square().sum(dim=1, keepdim=True).sqrt()


@pytest.mark.parametrize("shortest", [0.0, 1e-6])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e14, 1e16, 1e19, 1e20, 1e30, 1e37])
def test_value_and_gradient_of_large_rows_are_those_of_float64(size, shortest):
    z, direction = drawn(6, 5).float() * size, drawn(6, 5, seed=1)
    z[3] /= size  # one of ordinary size among them
    z.requires_grad_()
    found = unit_rows(z, shortest=shortest)
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


@pytest.mark.parametrize("shortest", [0.0, 1e-6])
def test_a_row_of_zeros_stays_one_and_keeps_a_bounded_gradient(shortest):
    z = torch.zeros(2, 3)
    z[1] = 1e25
    z.requires_grad_()
    found = unit_rows(z, shortest=shortest)
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tiny_rows_have_a_direction_unless_they_count_as_zero(dtype):
    smallest = torch.finfo(dtype).tiny
    z = torch.tensor([[3.0, 0.0, 4.0]], dtype=dtype) * smallest
    right = torch.tensor([[0.6, 0.0, 0.8]], dtype=dtype)
    torch.testing.assert_close(unit_rows(z), right)
    torch.testing.assert_close(row_lengths(z), torch.tensor([[5 * smallest]], dtype=dtype))
    for length in (4e-6, 6e-6, 1e-20, smallest):
        z = right * length
        expected = 2 * (right if length > 5e-6 else z)
        torch.testing.assert_close(unit_rows(z, length=2.0, shortest=5e-6), expected)


def test_a_length_bounds_the_gradient():
    z = (drawn(30, 4) * torch.logspace(-12, 0, 30).double()[:, None]).requires_grad_()
    direction = drawn(30, 4, seed=1)
    bounds = {1e-3: 1e4, 1e-6: 1e7}
    for shortest, bound in bounds.items():
        loss = (unit_rows(z, shortest=shortest) * direction).sum()
        assert torch.autograd.grad(loss, z)[0].abs().max() < bound
    loss = (unit_rows(z) * direction).sum()
    assert torch.autograd.grad(loss, z)[0].abs().max() > 1e9


# Torch scripts its own rules when forward mode is first used.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_a_row_of_zeros_has_second_derivatives_in_every_mode():
    z, direction = drawn(3, 2), drawn(3, 2, seed=1)
    z[1] = 0

    def function(z):
        return (unit_rows(z, shortest=1e-6) * direction).exp().sum()

    expected = torch.zeros(3, 2, 3, 2, dtype=torch.float64)
    step = 1e-4
    for i in range(3):
        for j in range(2):
            moved = torch.zeros_like(z)
            moved[i, j] = step * (1e-3 if i == 1 else 1)  # a row of zeros stays below the limit
            difference = torch.func.grad(function)(z + moved) - torch.func.grad(function)(z - moved)
            expected[:, :, i, j] = difference / (2 * moved[i, j])
    for inner in (torch.func.jacrev, torch.func.jacfwd):
        for outer in (torch.func.jacrev, torch.func.jacfwd):
            torch.testing.assert_close(outer(inner(function))(z), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lengths_of_tensors_and_arrays_are_those_of_float64(dtype):
    largest = 1e38 if dtype == torch.float32 else 1e300
    sizes = torch.tensor([1 / largest, 1e-20, 1.0, 1e20, largest / 10, 0.0], dtype=torch.float64)
    z = drawn(6, 4)
    rows = (z * sizes[:, None]).to(dtype)
    expected = (z.norm(dim=1) * sizes)[:, None].to(dtype)
    torch.testing.assert_close(row_lengths(rows), expected, rtol=1e-6, atol=0)
    array = array_row_lengths(rows.numpy())
    np.testing.assert_allclose(array, expected.numpy(), rtol=1e-6)
    assert array.dtype == rows.numpy().dtype


def test_nothing_stands_in_the_way_of_a_compiler():
    z = drawn(3, 4)
    whole = torch.compile(lambda z: unit_rows(z, length=2.0), backend="eager", fullgraph=True)
    assert torch.equal(whole(z), unit_rows(z, length=2.0))
