"""Gradients, second derivatives and the compiled form of InfoNCE, plain and in tiles."""

import pytest
import torch
from info_nce_oracles import cross_entropy, views

from nonneg import info_nce


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("settings_name", ["plain", "weights", "ignored", "positive"])
@pytest.mark.parametrize("negatives", ["both", "cross"])
def test_gradient(negatives, settings_name):
    a, b = views(4, 3, 0)
    groups = torch.tensor([2, 0, 2, 1])
    extra = {
        "plain": {},
        "weights": {"weights": torch.tensor([1.0, 0.0, 2.0, 0.5])},
        "ignored": {"groups": groups},
        "positive": {"groups": groups, "same_group": "positive"},
    }[settings_name]
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def loss(a, b, temperature):
        return info_nce(a, b, temperature=temperature, negatives=negatives, **extra)

    inputs = (a.requires_grad_(), b.requires_grad_(), temperature)
    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("negatives", ["both", "cross"])
def test_gradients_through_one_argument_at_a_time(negatives):
    a, b = views(8, 3, 0)
    temperature = torch.tensor(0.3, dtype=torch.float64)
    arguments = [a, b, temperature]
    for argument in arguments:
        argument.requires_grad_()
    together = torch.autograd.grad(
        cross_entropy(a, b, temperature=temperature, negatives=negatives), arguments
    )
    for number, expected in enumerate(together):
        given = [z.detach().requires_grad_(i == number) for i, z in enumerate(arguments)]
        info_nce(*given[:2], temperature=given[2], negatives=negatives).backward()
        torch.testing.assert_close(given[number].grad, expected)


@pytest.mark.usefixtures("form")
def test_a_graph_may_be_used_twice():
    a, b = views(20, 3, 0)
    a.requires_grad_()
    loss = info_nce(a, b, temperature=0.2)
    loss.backward(retain_graph=True)
    once = a.grad.clone()
    loss.backward()
    torch.testing.assert_close(a.grad, 2 * once)


# Torch scripts its own rules when forward mode is first used.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("negatives", ["both", "cross"])
@pytest.mark.parametrize("n_rows", [1022, 1024])
def test_tiles_have_first_derivatives_by_backward_only(negatives, n_rows):
    n = n_rows // 2 if negatives == "both" else n_rows
    a, b = views(n, 3, 0)
    direction, _ = views(n, 3, 1)

    def loss(a):
        return info_nce(a, b, temperature=0.3, negatives=negatives)

    (first,) = torch.autograd.grad(loss(a.requires_grad_()), a, create_graph=True)
    along = (first * direction).sum()
    a = a.detach()
    if n_rows < 1024:
        torch.testing.assert_close(torch.func.grad(loss)(a), first)
        torch.testing.assert_close(torch.func.jvp(loss, (a,), (direction,))[1], along)
        along.backward()
    else:
        with pytest.raises(RuntimeError, match="autograd"):
            torch.func.grad(loss)(a)
        with pytest.raises(NotImplementedError, match="no forward-mode gradient; use backward"):
            torch.func.jvp(loss, (a,), (direction,))
        with pytest.raises(RuntimeError, match="no second derivative; use a smaller batch"):
            along.backward()


# Torch scripts its own rules when forward mode is first used.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("negatives", ["both", "cross"])
def test_small_batches_have_second_derivatives_in_every_mode(negatives):
    a, b = views(4, 3, 0)

    def loss(a):
        return info_nce(a, b, temperature=0.3, negatives=negatives)

    assert torch.autograd.gradgradcheck(loss, a.clone().requires_grad_())
    # A row of zeros, which is no kink to torch, and which numbers cannot be put beside.
    a[2] = 0
    b[3] = 0
    modes = (torch.func.jacrev, torch.func.jacfwd)
    first, *others = (outer(inner(loss))(a) for outer in modes for inner in modes)
    assert first.isfinite().all()
    assert first[2].abs().max() > 0
    for other in others:
        torch.testing.assert_close(other, first)
    torch.testing.assert_close(first, first.permute(2, 3, 0, 1))


# Where a compiled function is cut in two, torch itself touches what it warns of.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("negatives", ["both", "cross"])
def test_compiled(negatives):
    a, b = views(8, 3, 0)
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def loss(a, b):
        return 2 * info_nce(a * 3, b, temperature=temperature, negatives=negatives)

    expected = torch.autograd.grad(loss(a.requires_grad_(), b), (a, temperature))
    found = torch.autograd.grad(torch.compile(loss, backend="aot_eager")(a, b), (a, temperature))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
