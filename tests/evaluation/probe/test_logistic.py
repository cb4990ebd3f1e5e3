import math

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from nonneg.evaluation.probe.logistic import LogisticFit, logistic_fit
from nonneg.evaluation.probe.matrix import DenseRows, SparseRows, fewer_columns


def blobs(n, d, n_classes, seed=0, spread=1.5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(n_classes, d, generator=generator, dtype=torch.float64)
    y = torch.randint(n_classes, (n,), generator=generator)
    x = centres[y] + spread * torch.randn(n, d, generator=generator, dtype=torch.float64)
    return (x - x.mean(0)).to(dtype), y


def fitted(rows, y, *, penalty, tolerance=1e-6, start=None, gram=None, dtype=torch.float64):
    if start is None:
        c = int(y.max()) + 1
        start = LogisticFit(torch.zeros(c, rows.shape[1], dtype=dtype), torch.zeros(c, dtype=dtype))
    gram = rows.gram() if gram is None else gram
    return logistic_fit(rows, y, start, penalty=penalty, gram=gram, tolerance=tolerance)


def slow_gradient(x, y, weight, bias, penalty):
    """The gradient of mean cross entropy + penalty / 2 · |weight|², by loops."""
    n, d, c = len(x), len(x[0]), len(bias)
    of_weight = [[penalty * weight[k][j] for j in range(d)] for k in range(c)]
    of_bias = [0.0] * c
    for row, label in zip(x, y, strict=True):
        logits = [bias[k] + sum(weight[k][j] * row[j] for j in range(d)) for k in range(c)]
        exps = [math.exp(value - max(logits)) for value in logits]
        for k in range(c):
            residual = (exps[k] / sum(exps) - (k == label)) / n
            of_bias[k] += residual
            for j in range(d):
                of_weight[k][j] += residual * row[j]
    return of_weight, of_bias


@pytest.mark.parametrize("penalty", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize(("n", "d", "c"), [(300, 6, 3), (200, 40, 12), (30, 50, 4)])
def test_finds_scikit_learns_optimum(n, d, c, penalty):
    x, y = blobs(n, d, c)
    fit = fitted(DenseRows(x), y, penalty=penalty)
    # Theirs: sum of losses + |w|² / (2 C); ours: mean of losses + penalty |w|² / 2.
    rival = LogisticRegression(C=1 / (penalty * n), tol=1e-9, max_iter=20_000).fit(x, y)
    assert fit.converged
    np.testing.assert_allclose(fit.weight, rival.coef_, atol=2e-4 * abs(rival.coef_).max())
    # A constant added to every bias changes nothing.
    theirs = rival.intercept_ - rival.intercept_.mean()
    np.testing.assert_allclose(fit.bias - fit.bias.mean(), theirs, atol=1e-3)


def test_two_classes_are_scikit_learns_with_half_the_strength():
    # Two opposite weight vectors w/2 and -w/2 have the penalty of one vector w at half the weight.
    x, y = blobs(200, 5, 2)
    fit = fitted(DenseRows(x), y, penalty=0.02)
    rival = LogisticRegression(C=1 / (0.01 * 200), tol=1e-9, max_iter=10_000).fit(x, y)
    np.testing.assert_allclose(fit.weight[1] - fit.weight[0], rival.coef_[0], atol=1e-4)


def test_the_gradient_vanishes_by_loops():
    x, y = blobs(40, 3, 3)
    fit = fitted(DenseRows(x), y, penalty=0.01)
    of_weight, of_bias = slow_gradient(
        x.tolist(), y.tolist(), fit.weight.tolist(), fit.bias.tolist(), 0.01
    )
    length = float(fit.weight.norm())
    assert math.hypot(*of_bias, *(g for row in of_weight for g in row)) <= 1e-6 * 0.01 * length


def test_plain_gradient_descent_ends_at_the_same_weights():
    x, y = blobs(40, 2, 3, spread=1.0)
    fit = fitted(DenseRows(x), y, penalty=0.1)
    weight, bias = [[0.0] * 2 for _ in range(3)], [0.0] * 3
    for _ in range(800):
        of_weight, of_bias = slow_gradient(x.tolist(), y.tolist(), weight, bias, 0.1)
        weight = [
            [w - 0.5 * g for w, g in zip(*rows, strict=True)]
            for rows in zip(weight, of_weight, strict=True)
        ]
        bias = [b - 0.5 * g for b, g in zip(bias, of_bias, strict=True)]
    np.testing.assert_allclose(fit.weight, weight, atol=1e-4)
    np.testing.assert_allclose(fit.bias, bias, atol=1e-4)


@pytest.mark.parametrize("penalty", [1e-5, 1e-2])
def test_the_tolerance_bounds_the_error_of_float32_weights(penalty):
    x, y = blobs(500, 20, 5, dtype=torch.float32)
    exact = fitted(DenseRows(x.double()), y, penalty=penalty)
    for tolerance in (0.1, 0.01):
        rough = fitted(DenseRows(x), y, penalty=penalty, tolerance=tolerance, dtype=torch.float32)
        assert rough.converged
        error = (rough.weight - exact.weight).norm() / exact.weight.norm()
        assert float(error) <= 1.1 * tolerance


def test_neither_start_nor_gram_nor_order_changes_the_result():
    x, y = blobs(150, 8, 4)
    first = fitted(DenseRows(x), y, penalty=0.01)
    noise = torch.randn(4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    start = LogisticFit(noise, torch.tensor([3.0, -1, 0, 2], dtype=torch.float64))
    order = torch.randperm(150, generator=torch.Generator().manual_seed(2))
    eye = torch.eye(8, dtype=torch.float64)
    for other in (
        fitted(DenseRows(x), y, penalty=0.01, gram=5 * eye),
        fitted(DenseRows(x[order]), y[order], penalty=0.01),
    ):
        torch.testing.assert_close(other.weight, first.weight, rtol=0, atol=1e-5)
    # From other places only differences between classes are determined.
    moved = fitted(DenseRows(x), y, penalty=0.01, start=start)
    torch.testing.assert_close(moved.weight, first.weight, rtol=0, atol=1e-5)


def test_a_better_gram_needs_fewer_steps():
    x, y = blobs(600, 30, 3)
    x = x * torch.logspace(-2, 1, 30, dtype=torch.float64)
    eye = torch.eye(30, dtype=torch.float64)
    with_gram = fitted(DenseRows(x), y, penalty=1e-3).n_steps
    assert 2 * with_gram < fitted(DenseRows(x), y, penalty=1e-3, gram=eye).n_steps


def test_sparse_rows_are_dense_rows():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(200, 12, generator=generator, dtype=torch.float64)
    x = x * (torch.rand(200, 12, generator=generator) < 0.2)
    y = torch.randint(3, (200,), generator=generator)
    dense = DenseRows(x - x.mean(0))
    thin = SparseRows(sparse.csr_array(x.numpy()), x.mean(0))
    torch.testing.assert_close(thin.gram()[:, :], (dense.values[:96].T @ dense.values[:96]) / 96)
    expected = fitted(dense, y, penalty=0.01)
    torch.testing.assert_close(
        fitted(thin, y, penalty=0.01).weight, expected.weight, rtol=0, atol=1e-6
    )
    residual = torch.rand(200, 3, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(thin.gradient(residual), dense.gradient(residual))
    some = torch.tensor([5, 0, 7])
    weight, bias = expected.weight, expected.bias
    for which in (slice(3, 9), some):
        torch.testing.assert_close(
            thin.part(which).logits(weight, bias), dense.part(which).logits(weight, bias)
        )


def test_few_samples_give_the_same_weights_in_their_span():
    x, y = blobs(20, 90, 3)
    thin, axes = fewer_columns(DenseRows(x))
    assert thin.shape[1] <= 19
    expected = fitted(DenseRows(x), y, penalty=0.01)
    found = fitted(thin, y, penalty=0.01)
    torch.testing.assert_close(found.weight @ axes, expected.weight, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mixtures_of_few_columns_give_the_same_weights(dtype):
    x, y = blobs(300, 5, 3)
    mixed = (x @ torch.randn(5, 40, generator=torch.Generator().manual_seed(3)).double()).to(dtype)
    flat, axes = fewer_columns(DenseRows(mixed))
    assert flat.shape == (300, 5)
    expected = fitted(DenseRows(mixed.double()), y, penalty=0.01)
    found = fitted(DenseRows(flat.values.double()), y, penalty=0.01)
    weight = found.weight @ axes.double()
    torch.testing.assert_close(weight, expected.weight, rtol=0, atol=1e-6)


def test_columns_that_some_samples_need_are_kept():
    """One sample outside of what the others span, one that the first look does not see."""
    x, _ = blobs(300, 5, 3)
    mixed = x @ torch.randn(5, 40, generator=torch.Generator().manual_seed(3)).double()
    mixed[1, 7] += 0.01
    rows, axes = fewer_columns(DenseRows(mixed))
    assert axes is None
    assert torch.equal(rows.values, mixed)
    full, _ = blobs(300, 40, 3)
    assert fewer_columns(DenseRows(full))[1] is None


def test_separable_classes_converge_at_a_weak_strength():
    x, y = blobs(200, 10, 3, spread=0.05, dtype=torch.float32)
    assert fitted(DenseRows(x), y, penalty=1e-5, tolerance=0.01, dtype=torch.float32).converged


def test_repeated_columns_and_a_tiny_strength_are_no_obstacle():
    x, y = blobs(400, 6, 3, dtype=torch.float32)
    rows = DenseRows(x.repeat(1, 30))
    fit = fitted(rows, y, penalty=1e-9, tolerance=100, dtype=torch.float32)
    assert bool(torch.isfinite(fit.weight).all())
    exact = fitted(DenseRows(x.double()), y, penalty=1e-6)
    agree = rows.logits(fit.weight, fit.bias).argmax(1) == (
        x.double() @ exact.weight.T + exact.bias
    ).argmax(1)
    assert float(agree.double().mean()) > 0.98
