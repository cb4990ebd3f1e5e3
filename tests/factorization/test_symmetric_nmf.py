import numpy as np
import pytest
from scipy import sparse

from nonneg.factorization import (
    augmentation_world,
    eigen_factor,
    graph_world,
    multiplicative_factor,
    projected_factor,
    random_world,
    sklearn_factor,
)
from nonneg.factorization.solvers import random_factor

NMF = (multiplicative_factor, projected_factor, sklearn_factor)


def error(normalized, factor):
    return float(np.square(normalized - factor @ factor.T).sum())


def test_eigenvectors_are_the_best_of_any_sign(overlapping):
    normalized = overlapping.normalized
    values = np.sort(np.linalg.eigvalsh(normalized))[::-1]
    for d in (1, 3, 4):
        found = error(normalized, eigen_factor(normalized, d))
        assert found == pytest.approx(np.square(values[d:]).sum(), abs=1e-12)
    np.testing.assert_allclose(
        np.abs(eigen_factor(sparse.csr_array(normalized), 4)),
        np.abs(eigen_factor(normalized, 4)),
        atol=1e-9,
    )


def test_negative_eigenvalues_give_columns_of_zeros():
    swap = graph_world([[0, 1], [1, 0]]).normalized  # eigenvalues 1 and -1
    factor = eigen_factor(swap, 2)
    assert (factor[:, 1] == 0).all()
    np.testing.assert_allclose(eigen_factor(sparse.csr_array(swap), 2)[:, 1], 0, atol=1e-9)


@pytest.mark.parametrize("solver", NMF)
def test_solvers_reach_an_exact_factor_that_is_nonnegative(solver, overlapping):
    normalized = overlapping.normalized.copy()
    before = error(normalized, random_factor(normalized, 4, np.random.default_rng(0)))
    factor = solver(normalized, 4, np.random.default_rng(0))
    assert factor.shape == (30, 4)
    assert factor.min() >= 0
    assert before > 0.1
    assert error(normalized, factor) < 2e-3
    np.testing.assert_array_equal(normalized, overlapping.normalized)
    again = solver(normalized, 4, np.random.default_rng(0))
    np.testing.assert_array_equal(factor, again)


@pytest.mark.parametrize("solver", NMF)
def test_sparse_and_dense_give_the_same(solver):
    world = augmentation_world(np.random.default_rng(0).integers(0, 15, (40, 3)))
    thin = world.normalized
    factors = [
        solver(matrix, 3, np.random.default_rng(1), n_steps=20) for matrix in (thin, thin.toarray())
    ]
    np.testing.assert_allclose(*factors, atol=1e-6)


@pytest.mark.parametrize("solver", [multiplicative_factor, projected_factor])
@pytest.mark.parametrize("seed", range(4))
def test_the_error_never_rises(solver, seed):
    rng = np.random.default_rng(seed)
    world = random_world(20, 4, rng, concentration=1.0)
    errors = [
        error(world.normalized, solver(world.normalized, 3, np.random.default_rng(9), n_steps=n))
        for n in range(12)
    ]
    assert (np.diff(errors) <= 1e-12).all()
    assert errors[-1] < errors[0]


def test_wrong_sizes_are_one_sentence():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"^n_features is 0; give at least 1$"):
        projected_factor(np.eye(2), 0, rng)
    with pytest.raises(ValueError, match=r"^the matrix has shape \(2, 3\); a factor"):
        multiplicative_factor(np.ones((2, 3)), 1, rng)
    with pytest.raises(ValueError, match=r"^2 samples have only 2 eigenvectors, got n_features 3"):
        eigen_factor(np.eye(2), 3)
