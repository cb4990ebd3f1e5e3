import math
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from info_nce_oracles import cross_entropy, slow_info_nce, views

from nonneg import info_nce
from nonneg.losses import info_nce_bounds
from nonneg.losses.info_nce import textbook_info_nce

MODULE = import_module("nonneg.losses.info_nce")


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
    # Cosines are rounded by about 1e-7 before they are divided by the temperature.
    assert loss == pytest.approx(math.log(1 + others), rel=1e-6, abs=2e-7 / temperature)
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


@pytest.mark.usefixtures("form")
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


@pytest.mark.parametrize("same_group", ["ignored", "positive"])
@pytest.mark.parametrize("negatives", ["both", "cross"])
@settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n=st.integers(2, 7),
    seed=st.integers(0, 10_000),
    temperature=st.floats(0.01, 10),
    data=st.data(),
)
def test_groups_and_weights_agree_with_loops(
    form, negatives, same_group, n, seed, temperature, data
):
    a, b = views(n, 3, seed)
    whole = st.lists(st.integers(-3, 3), min_size=n, max_size=n).filter(lambda g: len(set(g)) > 1)
    groups = data.draw(whole)
    parts = st.lists(st.floats(0, 5), min_size=n, max_size=n).filter(lambda w: sum(w) > 0.1)
    weights = data.draw(parts)
    expected = slow_info_nce(
        a.tolist(),
        b.tolist(),
        temperature,
        negatives,
        groups=groups,
        weights=weights,
        same_group=same_group,
    )
    loss = info_nce(
        a,
        b,
        temperature=temperature,
        negatives=negatives,
        groups=torch.tensor(groups),
        weights=torch.tensor(weights, dtype=torch.float64),
        same_group=same_group,
    )
    assert float(loss) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("tiled_from", [0, 1e9])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("temperature", [0.01, 0.07, 0.2, 10.0])
@pytest.mark.parametrize("negatives", ["both", "cross"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_large_batches_equal_cross_entropy(
    monkeypatch, negatives, temperature, signed, dtype, tiled_from
):
    monkeypatch.setattr(MODULE, "TILED_FROM", tiled_from)
    # 350 pairs: several tiles of the size that is really used. Some rows are zero, opposite to
    # their partner, huge or tiny.
    a, b = views(350, 6, 0, signed=signed)
    a[3] = 0
    a[4], b[4] = 0, 0
    b[5] = -a[5]
    a[6] *= 1e15
    b[7] *= 1e-4 / b[7].norm()
    ours = [z.to(dtype).requires_grad_() for z in (a, b)]
    exact = [z.detach().double().requires_grad_() for z in ours]
    settings = {"temperature": temperature, "negatives": negatives}
    loss, expected = info_nce(*ours, **settings), cross_entropy(*exact, **settings)
    loss.backward()
    expected.backward()
    tolerance = 1e-10 if dtype == torch.float64 else 1e-6 * (1 + 1 / temperature)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=tolerance)
    for our, their in zip(ours, exact, strict=True):
        # Short rows have large gradients: each row is judged by its own size.
        size = their.grad.abs().amax(1, keepdim=True) + their.grad[:3].abs().max() * their.norm(
            dim=1, keepdim=True
        ).clamp(min=1e-6).reciprocal().clamp(max=1)
        assert ((our.grad - their.grad).abs() <= tolerance * 20 * size).all()


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("negatives", ["both", "cross"])
def test_groups_of_one_are_no_groups(negatives):
    a, b = views(9, 4, 0)
    loss = info_nce(a, b, temperature=0.2, negatives=negatives)
    settings = {"temperature": 0.2, "negatives": negatives, "groups": torch.arange(9).flip(0)}
    torch.testing.assert_close(info_nce(a, b, **settings), loss)
    torch.testing.assert_close(info_nce(a, b, **settings, same_group="positive"), loss)
    equal = info_nce(a, b, temperature=0.2, negatives=negatives, weights=torch.full((9,), 3))
    torch.testing.assert_close(equal, loss)


def test_groups_by_hand():
    # Two captions of one image, and another image. All rows are equal: each candidate counts one.
    a = b = torch.ones(3, 2)
    groups = torch.tensor([7, 7, 1])
    settings = {"temperature": 0.5, "negatives": "cross", "groups": groups}
    # Ignored: the first two choose between 2 candidates, the last between 3.
    expected = (2 * math.log(2) + math.log(3)) / 3
    assert float(info_nce(a, b, **settings)) == pytest.approx(expected)
    # Positive: all choose between 3.
    loss = info_nce(a, b, **settings, same_group="positive")
    assert float(loss) == pytest.approx(math.log(3))


def test_what_runs_without_options_is_the_textbook_form(monkeypatch):
    asked = []

    def textbook(*arguments):
        asked.append(arguments[2:])
        return textbook_info_nce(*arguments)

    monkeypatch.setattr(MODULE, "textbook_info_nce", textbook)
    a, b = views(511, 2, 0, dtype=torch.float32)
    loss = info_nce(a, b, temperature=0.2)
    assert asked == [(0.2, "both")]
    info_nce(a[:5], b[:5], temperature=0.2, weights=torch.ones(5))
    info_nce(a[:5], b[:5], temperature=0.2, groups=torch.arange(5))
    assert len(asked) == 1
    monkeypatch.setattr(MODULE, "TILED_FROM", 0)
    torch.testing.assert_close(info_nce(a, b, temperature=0.2), loss)
    assert len(asked) == 1


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("negatives", ["both", "cross"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_views_and_temperature_may_be_of_different_precision(negatives, shape):
    a, b = views(5, 3, 0)
    expected = info_nce(a, b, temperature=0.25, negatives=negatives)
    temperature = torch.full(shape, 0.25, dtype=torch.float64)
    loss = info_nce(a.float(), b, temperature=temperature, negatives=negatives)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    assert loss.shape == ()
    for half in (torch.float16, torch.bfloat16):
        loss = info_nce(a.float(), b.to(half), temperature=temperature, negatives=negatives)
        torch.testing.assert_close(loss.double(), expected, rtol=0.02, atol=0)


@pytest.mark.usefixtures("form")
def test_tiny_losses_keep_their_digits():
    # Partners equal, the rest at a right angle: the loss is about 6 exp(-50), far below 1e-7.
    apart = torch.eye(4)
    loss = info_nce(apart, apart, temperature=0.02)
    assert float(loss) == pytest.approx(6 * math.exp(-50), rel=1e-4)


def test_numpy_results_of_the_oracle_are_sane():
    # The oracle itself, checked on a case done by hand: one negative at a right angle.
    value = slow_info_nce([[1, 0], [0, 1]], [[1, 0], [0, 1]], 1.0, "cross")
    assert value == pytest.approx(np.log(1 + np.exp(-1)))
