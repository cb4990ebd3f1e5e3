import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.losses import _tiled as tiles
from nonneg.losses._tiled import (
    Keys,
    TiledProduct,
    fixed_log_sums,
    is_safe,
    rowwise_log_sums,
    smallest_shift,
    tiled_log_sums,
)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "CPU_TILE", (6, 5))


def whole_matrix(rows, columns, keys):
    logits = rows @ (rows if columns is None else columns).T
    if keys is not None:
        same = torch.tensor([[i == j for j in keys[1].tolist()] for i in keys[0].tolist()])
        logits = logits.masked_fill(same, -math.inf)
    return torch.logsumexp(logits, 1), torch.logsumexp(logits, 0)


def problem(n_rows, n_columns, scale, seed, *, has_keys=True, dtype=torch.float64):
    """Rows whose products reach from -scale to scale, some of them zero, and keys out of order."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [n_rows] if n_columns is None else [n_rows, n_columns]
    sides = []
    for n in sizes:
        z = torch.randn(n, 4, generator=generator, dtype=torch.float64)
        z = torch.nn.functional.normalize(z) * math.sqrt(scale)
        z[n // 2] = 0
        sides.append(z.to(dtype).requires_grad_())
    drawn = [torch.randint(6, (n,), generator=generator) for n in sizes]
    keys = Keys(drawn[0], drawn[-1]) if has_keys else None
    return sides[0], None if n_columns is None else sides[1], keys


def value_and_gradients(function, rows, columns, keys):
    of_rows, of_columns = function(rows, columns, keys)
    loss = of_rows @ torch.linspace(0, 1, len(of_rows), dtype=rows.dtype)
    if columns is not None:
        loss = loss + of_columns @ torch.linspace(1, 3, len(of_columns), dtype=rows.dtype)
    sides = [rows] if columns is None else [rows, columns]
    return (of_rows, of_columns, *torch.autograd.grad(loss, sides))


@settings(deadline=None, max_examples=60)
@given(
    n_rows=st.integers(2, 23),
    n_columns=st.none() | st.integers(2, 23),
    scale=st.sampled_from([0.1, 5.0, 100.0, 3000.0]),
    seed=st.integers(0, 1000),
    has_keys=st.booleans(),
)
def test_agrees_with_the_whole_matrix(n_rows, n_columns, scale, seed, has_keys):
    rows, columns, keys = problem(n_rows, n_columns, scale, seed, has_keys=has_keys)
    expected = value_and_gradients(whole_matrix, rows, columns, keys)
    found = value_and_gradients(tiled_log_sums, rows, columns, keys)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_columns", [None, 31])
@pytest.mark.parametrize("scale", [1.0, 20.0, 100.0, 400.0])
def test_single_precision_is_as_good_as_its_rounding(scale, n_columns):
    rows, columns, keys = problem(40, n_columns, scale, 0, dtype=torch.float32)
    found = value_and_gradients(tiled_log_sums, rows, columns, keys)
    exact = value_and_gradients(
        whole_matrix,
        rows.detach().double().requires_grad_(),
        None if columns is None else columns.detach().double().requires_grad_(),
        keys,
    )
    for ours, theirs in zip(found, exact, strict=True):
        # A logit of this size is rounded by about scale times 6e-8, and so are its exponentials.
        torch.testing.assert_close(
            ours.double(), theirs, rtol=1e-6 * (1 + scale), atol=1e-6 * (1 + scale)
        )


@pytest.mark.parametrize("scale", [2.0, 3000.0])
@pytest.mark.parametrize("n_columns", [None, 9])
def test_gradcheck(scale, n_columns):
    rows, columns, keys = problem(8, n_columns, scale, 3)
    sides = (rows,) if columns is None else (rows, columns)

    def function(rows, columns=None):
        return tiled_log_sums(rows, columns, keys)

    assert torch.autograd.gradcheck(function, sides)


@pytest.mark.parametrize("learns", ["rows", "columns"])
def test_one_side_alone_may_learn(learns):
    rows, columns, keys = problem(8, 11, 3.0, 0)
    expected = value_and_gradients(whole_matrix, rows, columns, keys)[2 if learns == "rows" else 3]
    fixed, moving = (columns, rows) if learns == "rows" else (rows, columns)
    fixed.requires_grad_(False)
    of_rows, of_columns = tiled_log_sums(rows, columns, keys)
    weights = torch.linspace(0, 1, 8), torch.linspace(1, 3, 11)
    (of_rows @ weights[0].double() + of_columns @ weights[1].double()).backward()
    torch.testing.assert_close(moving.grad, expected)
    assert fixed.grad is None


@pytest.mark.parametrize("which", [0, 1])
def test_one_of_the_results_alone_may_be_used(which):
    rows, columns, keys = problem(8, 11, 3.0, 0)
    ours = torch.autograd.grad(tiled_log_sums(rows, columns, keys)[which].sum(), [rows, columns])
    theirs = torch.autograd.grad(whole_matrix(rows, columns, keys)[which].sum(), [rows, columns])
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their)


@pytest.mark.parametrize("n_kept_tiles", [0, 1, 3])
def test_kept_tiles_change_nothing_and_may_be_used_twice(monkeypatch, n_kept_tiles):
    monkeypatch.setattr(tiles, "KEPT_BYTES", n_kept_tiles * 15 * 8)
    rows, _, keys = problem(20, None, 5.0, 0)
    expected = value_and_gradients(whole_matrix, rows, None, keys)[2]
    sums, _ = tiled_log_sums(rows, None, keys)
    weights = torch.linspace(0, 1, 20, dtype=torch.float64)
    for _ in range(2):
        (gradient,) = torch.autograd.grad(sums @ weights, rows, retain_graph=True)
        torch.testing.assert_close(gradient, expected)


def test_nothing_is_kept_without_a_gradient(monkeypatch):
    asked = []
    monkeypatch.setattr("nonneg.losses._tiled.n_kept", lambda *_, **__: asked.append(1) or 0)
    rows, _, keys = problem(20, None, 5.0, 0)
    with torch.no_grad():
        tiled_log_sums(rows, None, keys)
    tiled_log_sums(rows.detach(), None, keys)
    assert asked == []
    tiled_log_sums(rows, None, keys)
    assert asked == [1]


@pytest.mark.parametrize("n_columns", [None, 9])
def test_a_second_derivative_is_refused(n_columns):
    rows, columns, _ = problem(8, n_columns, 5.0, 0)
    factor = torch.ones((), dtype=torch.float64, requires_grad=True)
    sums, _ = tiled_log_sums(rows, columns)
    # By the rows, through which the gradient depends on them, or by what the sums are put to.
    for loss, by in (
        (sums.sum(), rows),
        (sums.square().sum(), rows),
        (factor * sums.sum(), factor),
    ):
        (gradient,) = torch.autograd.grad(loss, rows, create_graph=True)
        with pytest.raises(RuntimeError, match="no second derivative; use a smaller batch"):
            torch.autograd.grad(gradient.sum(), by, allow_unused=True)
    assert torch.autograd.grad(sums.sum(), rows)[0].grad_fn is None


@pytest.mark.parametrize("n_columns", [None, 9])
def test_a_sum_over_nothing_is_minus_infinity_and_gives_no_gradient(n_columns):
    rows, columns, _ = problem(9, n_columns, 5.0, 0)
    keys = Keys(torch.zeros(9, dtype=torch.int64), torch.zeros(9, dtype=torch.int64))
    of_rows, of_columns = tiled_log_sums(rows, columns, keys)
    assert (of_rows == -math.inf).all()
    assert (of_columns == -math.inf).all()
    of_rows.sum().backward()
    assert (rows.grad == 0).all()


def test_inputs_are_left_alone():
    rows, columns, keys = problem(9, 8, 5.0, 0)
    before = [z.clone() for z in (rows, columns, *keys)]
    value_and_gradients(tiled_log_sums, rows, columns, keys)
    for now, then in zip((rows, columns, *keys), before, strict=True):
        assert torch.equal(now, then)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_shift_prevents_overflow_and_only_that(dtype):
    room = math.log(torch.finfo(dtype).max)
    for scale in (1.0, room - 4, room + 40, 3 * room):
        rows = torch.full((30, 1), math.sqrt(scale), dtype=dtype)  # all products are the largest
        product = TiledProduct(rows, None, None)
        shift = smallest_shift(product)
        assert (shift > 0) == (scale > room - 5)
        sums, _, _ = fixed_log_sums(product, shift, keep=False)
        torch.testing.assert_close(sums, torch.full_like(sums, scale + math.log(30)))


def test_safe_means_that_the_fixed_shift_agrees_with_the_running_maximum():
    n_unsafe = 0
    for scale in (10.0, 60.0, 100.0, 150.0, 200.0, 300.0):
        for seed in range(5):
            rows, _, _ = problem(12, None, scale, seed, dtype=torch.float32)
            rows = rows.detach()
            rows[3] = -rows[3] if seed % 2 else 0
            keys = Keys(torch.arange(12), torch.arange(12))
            product = TiledProduct(rows, None, keys)
            shift = smallest_shift(product)
            sums, _, _ = fixed_log_sums(product, shift, keep=False)
            exact, _ = rowwise_log_sums(product)
            if is_safe(product, shift, sums, sums):
                torch.testing.assert_close(sums, exact)
            else:
                n_unsafe += 1
                assert float(exact.min()) < shift
    assert 0 < n_unsafe < 30


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1.2e-38), (torch.float64, 2.3e-308)])
def test_safe_leaves_room_for_what_may_have_vanished(dtype, limit):
    # Up to 30 entries below the smallest number, against a rounding error of the sum.
    product = TiledProduct(torch.zeros(30, 1, dtype=dtype), None, None)
    least = math.log(30) + math.log(limit) - math.log(torch.finfo(dtype).eps)
    for shift in (0.0, 50.0):
        enough = torch.full((30,), least + shift + 0.1, dtype=dtype)
        assert is_safe(product, shift, enough, enough)
        too_little = enough.clone()
        too_little[7] -= 0.3
        assert not is_safe(product, shift, too_little, enough)
        assert not is_safe(product, shift, enough, too_little)
        too_little[7] = math.nan
        assert not is_safe(product, shift, too_little, enough)


def test_not_a_number_stays_one():
    rows = torch.ones(9, 2)
    rows[4] = math.nan
    sums, _ = tiled_log_sums(rows)
    assert sums.isnan().all()
