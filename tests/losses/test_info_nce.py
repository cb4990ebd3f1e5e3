import math
from importlib import import_module

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nonneg import info_nce
from nonneg.losses import _tiled as tiles
from nonneg.losses import info_nce_bounds
from nonneg.losses.info_nce import textbook_info_nce
from nonneg.rows import unit_rows

MODULE = import_module("nonneg.losses.info_nce")


def slow_cosine(u, v):
    lengths = math.sqrt(sum(x * x for x in u)), math.sqrt(sum(x * x for x in v))
    if 0.0 in lengths:
        return 0.0
    return sum(x * y for x, y in zip(u, v, strict=True)) / (lengths[0] * lengths[1])


def slow_info_nce(a, b, temperature, negatives, *, groups=None, weights=None, same_group="ignored"):
    """Loops and math only: one anchor at a time, one candidate at a time."""
    n = len(a)
    groups, weights = groups or list(range(n)), weights or [1.0] * n

    def log_ratio(anchor, target, others):
        right = slow_cosine(anchor, target) / temperature
        logits = [right] + [slow_cosine(anchor, other) / temperature for other in others]
        top = max(logits)
        return top + math.log(math.fsum(math.exp(x - top) for x in logits)) - right

    def one(i, anchors, partners):
        candidates = [(j, partners[j]) for j in range(n)]
        if negatives == "both":
            candidates += [(j, anchors[j]) for j in range(n) if j != i]
        if same_group == "ignored":
            others = [row for j, row in candidates if groups[j] != groups[i]]
            return log_ratio(anchors[i], partners[i], others)
        terms = []
        for number, (j, row) in enumerate(candidates):
            if groups[j] == groups[i]:
                others = [other for k, (_, other) in enumerate(candidates) if k != number]
                terms.append(log_ratio(anchors[i], row, others))
        return math.fsum(terms) / len(terms)

    losses = [weights[i] * (one(i, a, b) + one(i, b, a)) / 2 for i in range(n)]
    return math.fsum(losses) / math.fsum(weights)


def cross_entropy(a, b, *, temperature, negatives):
    """Torch's own cross entropy on the whole matrix."""
    n = len(a)
    a, b = unit_rows(a, shortest=1e-6), unit_rows(b, shortest=1e-6)
    if negatives == "cross":
        logits, partner = (a @ b.T) / temperature, torch.arange(n)
        return (F.cross_entropy(logits, partner) + F.cross_entropy(logits.T, partner)) / 2
    z = torch.cat([a, b])
    logits = (z @ z.T) / temperature
    logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool), -math.inf)
    return F.cross_entropy(logits, torch.arange(2 * n).roll(n))


@pytest.fixture(params=["plain", "tiled"])
def form(request, monkeypatch):
    """Both ways to compute the sums, whatever the size of the batch."""
    is_tiled = request.param == "tiled"
    monkeypatch.setattr(MODULE, "TILED_FROM", 0 if is_tiled else 1e9)
    monkeypatch.setattr(tiles, "CPU_TILE", (6, 5))
    return request.param


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


def test_numpy_results_of_the_oracle_are_sane():
    # The oracle itself, checked on a case done by hand: one negative at a right angle.
    value = slow_info_nce([[1, 0], [0, 1]], [[1, 0], [0, 1]], 1.0, "cross")
    assert value == pytest.approx(np.log(1 + np.exp(-1)))
