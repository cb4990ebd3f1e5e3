import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg import info_nce
from nonneg.losses import info_nce_bounds


def slow_info_nce(a, b, temperature, negatives):
    """Loops and math only: one anchor at a time, one candidate at a time."""

    def cosine(u, v):
        lengths = math.sqrt(sum(x * x for x in u)), math.sqrt(sum(x * x for x in v))
        if 0.0 in lengths:
            return 0.0
        return sum(x * y for x, y in zip(u, v, strict=True)) / (lengths[0] * lengths[1])

    def one(anchor, partner, others):
        right = cosine(anchor, partner) / temperature
        logits = [right] + [cosine(anchor, other) / temperature for other in others]
        top = max(logits)
        return top + math.log(math.fsum(math.exp(x - top) for x in logits)) - right

    n, losses = len(a), []
    for i in range(n):
        rest = [j for j in range(n) if j != i]
        for anchors, partners in ((a, b), (b, a)):
            others = [partners[j] for j in rest]
            if negatives == "both":
                others += [anchors[j] for j in rest]
            losses.append(one(anchors[i], partners[i], others))
    return math.fsum(losses) / len(losses)


def views(n, d, seed, *, signed=True, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    return (a.to(dtype), b.to(dtype)) if signed else (a.relu().to(dtype), b.relu().to(dtype))


@pytest.mark.parametrize("negatives", ["both", "cross"])
@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(2, 7),
    d=st.integers(1, 5),
    seed=st.integers(0, 10_000),
    temperature=st.floats(0.01, 10),
    signed=st.booleans(),
)
def test_agrees_with_loops(negatives, n, d, seed, temperature, signed):
    a, b = views(n, d, seed, signed=signed)
    expected = slow_info_nce(a.tolist(), b.tolist(), temperature, negatives)
    loss = float(info_nce(a, b, temperature=temperature, negatives=negatives))
    assert loss == pytest.approx(expected, rel=1e-9, abs=1e-9)
    single = info_nce(a.float(), b.float(), temperature=temperature, negatives=negatives)
    assert single.dtype == torch.float32
    assert float(single) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.01, 0.2, 10.0])
@pytest.mark.parametrize(("negatives", "others"), [("both", 6), ("cross", 3)])
def test_closed_forms(temperature, negatives, others):
    equal = torch.ones(4, 3)
    loss = float(info_nce(equal, equal, temperature=temperature, negatives=negatives))
    assert loss == pytest.approx(math.log(1 + others), rel=1e-6)
    # Partners equal, all others orthogonal: the floor of non-negative features.
    apart = torch.eye(4)
    loss = float(info_nce(apart, apart, temperature=temperature, negatives=negatives))
    floor = math.log1p(others * math.exp(-1 / temperature))
    assert loss == pytest.approx(floor, rel=1e-5, abs=1e-6)
    assert info_nce_bounds(4, temperature=temperature, negatives=negatives) == pytest.approx(
        (floor, math.log(1 + others))
    )


@pytest.mark.parametrize("temperature", [0.01, 0.2, 10.0])
def test_opposite_partners_give_the_exact_large_loss(temperature):
    # Four rows in a plane: a = ±e1, and each partner is its opposite.
    a = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    expected = slow_info_nce(a.tolist(), (-a).tolist(), temperature, "both")
    loss = info_nce(a, -a, temperature=temperature)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("negatives", ["both", "cross"])
def test_gradient(negatives):
    a, b = views(4, 3, 0)
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def loss(a, b, temperature):
        return info_nce(a, b, temperature=temperature, negatives=negatives)

    inputs = (a.requires_grad_(), b.requires_grad_(), temperature)
    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize("temperature", [0.01, 0.2, 10.0])
@pytest.mark.parametrize("negatives", ["both", "cross"])
def test_all_zero_rows_have_a_finite_loss_and_a_bounded_gradient(temperature, negatives):
    a, b = views(5, 4, 1, signed=False, dtype=torch.float32)
    a[2] = 0
    b[3] = 0
    a.requires_grad_()
    b.requires_grad_()
    loss = info_nce(a, b, temperature=temperature, negatives=negatives)
    loss.backward()
    expected = slow_info_nce(a.tolist(), b.tolist(), temperature, negatives)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert a.grad.abs().max() < 10 / temperature
    assert b.grad.abs().max() < 10 / temperature
    assert a.grad[2].abs().max() > 0  # it can still learn where to point


def test_only_zeros_sit_at_the_ceiling():
    zeros = torch.zeros(4, 3, requires_grad=True)
    loss = info_nce(zeros, zeros, temperature=0.2)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(math.log(7), rel=1e-6)
    assert torch.isfinite(zeros.grad).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype):
    a, b = views(6, 4, 2, dtype=dtype)
    loss = info_nce(a, b, temperature=0.01)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, info_nce(a.float(), b.float(), temperature=0.01))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(info_nce(a, b, temperature=0.01), loss)


def test_invariants():
    a, b = views(8, 5, 3)
    loss = info_nce(a, b, temperature=0.2)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    columns = torch.randperm(5, generator=torch.Generator().manual_seed(0))
    lengths = torch.rand(8, 1, dtype=torch.float64) * 100 + 1e-3
    rotation, _ = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))
    for other in (
        info_nce(b, a, temperature=0.2),
        info_nce(a[order], b[order], temperature=0.2),
        info_nce(a[:, columns], b[:, columns], temperature=0.2),
        info_nce(a * lengths, b / lengths, temperature=0.2),
        # Any rotation is as good: why ordinary features cannot be read.
        info_nce(a @ rotation, b @ rotation, temperature=0.2),
    ):
        torch.testing.assert_close(other, loss)


def test_inputs_are_left_alone():
    a, b = views(3, 2, 0)
    before = a.clone(), b.clone()
    info_nce(a, b, temperature=0.2)
    assert torch.equal(a, before[0])
    assert torch.equal(b, before[1])


def test_agrees_with_pytorch_metric_learning():
    rival = pytest.importorskip(
        "pytorch_metric_learning.losses", reason="pytorch-metric-learning is not installed"
    )
    a, b = views(16, 8, 5, dtype=torch.float32)
    numbers = torch.arange(16).repeat(2)
    expected = rival.NTXentLoss(temperature=0.2)(torch.cat([a, b]), numbers)
    torch.testing.assert_close(info_nce(a, b, temperature=0.2), expected)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: info_nce(torch.ones(1, 4), torch.ones(1, 4), temperature=0.2),
            "a batch of 1 pairs has no negatives; give the loss at least 2 pairs",
        ),
        (
            lambda: info_nce(torch.ones(2, 4), torch.ones(3, 4), temperature=0.2),
            r"z_a and z_b must have the same shape, got \(2, 4\) and \(3, 4\)",
        ),
        (
            lambda: info_nce(torch.ones(2), torch.ones(2), temperature=0.2),
            r"z_a must be \(n_samples, n_features\), got shape \(2,\)",
        ),
        (
            lambda: info_nce(torch.ones(2, 2), torch.ones(2, 2), temperature=0.2, negatives="all"),
            "unknown negatives 'all'; known: both, cross",
        ),
        *(
            (
                lambda t=t: info_nce(torch.ones(2, 2), torch.ones(2, 2), temperature=t),
                f"temperature must be a finite number above 0, got {t:g}",
            )
            for t in (0.0, -1.0, math.nan, math.inf)
        ),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        call()


def test_integers_are_refused():
    whole = torch.ones(2, 2, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"^z_a must be floating point, got torch\.int64$"):
        info_nce(whole, whole, temperature=0.2)


def test_numpy_results_of_the_oracle_are_sane():
    # The oracle itself, checked on a case done by hand: one negative at a right angle.
    value = slow_info_nce([[1, 0], [0, 1]], [[1, 0], [0, 1]], 1.0, "cross")
    assert value == pytest.approx(np.log(1 + np.exp(-1)))
