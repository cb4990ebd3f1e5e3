"""Which factor F reproduces Ā as F Fᵀ? The best signed one, and non-negative ones three ways."""

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

from nonneg.factorization.checking import FloatArray, Matrix

TINY = 1e-12


def eigen_factor(normalized: Matrix, n_features: int) -> FloatArray:
    """The best F ``(n, d)`` of any sign: eigenvectors times the root of their eigenvalues.

    The optimum of ordinary contrastive learning with the spectral loss, one of many: F times any
    rotation is as good. Negative eigenvalues have no root and give columns of zeros.

    Args:
        normalized: Ā ``(n, n)``, dense or sparse.
        n_features: Columns of F.

    Example:
        >>> eigen_factor(np.diag([1.0, 0.25, 0.0]), 2).round(12) ** 2  # largest first
        array([[1.  , 0.  ],
               [0.  , 0.25],
               [0.  , 0.  ]])
    """
    n = _checked_size(normalized, n_features)
    if n_features > n:
        raise ValueError(f"{n} samples have only {n} eigenvectors, got n_features {n_features}")
    if isinstance(normalized, np.ndarray):
        values, vectors = scipy.linalg.eigh(normalized, subset_by_index=[n - n_features, n - 1])
    elif n_features < n:
        values, vectors = eigsh(normalized, k=n_features, which="LA", v0=np.ones(n))
    else:
        values, vectors = scipy.linalg.eigh(normalized.toarray())
    factor: FloatArray = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0))
    return factor


def multiplicative_factor(
    normalized: Matrix, n_features: int, rng: np.random.Generator, *, n_steps: int = 1000
) -> FloatArray:
    """A non-negative F ``(n, d)`` by multiplicative updates: ``F ← F · (Ā F / F FᵀF)^(1/3)``.

    Needs no step size and never leaves the non-negative numbers; every update lowers the error
    or leaves it (He et al. 2011). Entries approach zero but do not reach it.

    Args:
        normalized: Ā ``(n, n)``.
        n_features: Columns of F.
        rng: Where the start comes from.
        n_steps: Updates.
    """
    factor = random_factor(normalized, n_features, rng)
    for _ in range(n_steps):
        pull = normalized @ factor
        push = factor @ (factor.T @ factor)
        factor = factor * np.cbrt(pull / np.maximum(push, TINY**2))
    return factor


def projected_factor(
    normalized: Matrix,
    n_features: int,
    rng: np.random.Generator,
    *,
    n_steps: int = 500,
    tolerance: float = 1e-10,
) -> FloatArray:
    """A non-negative F ``(n, d)`` by projected gradient: step downhill, set negatives to zero.

    The step size grows by half after every step and is halved until the error falls enough
    (Armijo's rule), so the error never rises.

    Args:
        normalized: Ā ``(n, n)``.
        n_features: Columns of F.
        rng: Where the start comes from.
        n_steps: At most so many.
        tolerance: Stop when a step changes F by less than this share of its length.
    """
    factor = random_factor(normalized, n_features, rng)
    now = _Place(normalized, factor)
    size = 0.1
    for _ in range(n_steps):
        before, (now, size) = now, _descended(normalized, now, size)
        change = np.linalg.norm(now.factor - before.factor)
        if change <= tolerance * np.linalg.norm(now.factor):
            break
        size *= 1.5
    return now.factor


def sklearn_factor(
    normalized: Matrix, n_features: int, rng: np.random.Generator, *, n_steps: int = 500
) -> FloatArray:
    """A non-negative F ``(n, d)`` from scikit-learn's NMF, which does not know of symmetry.

    It gives ``Ā ≈ W H`` with W and H free of each other. Each column of W and row of H are scaled
    to the same length, and F is their mean: the F of ``F Fᵀ`` if both came out equal.

    Args:
        normalized: Ā ``(n, n)``.
        n_features: Columns of F.
        rng: Where the start comes from.
        n_steps: At most so many.
    """
    import warnings

    from sklearn.decomposition import NMF  # slow to import, and needed here only
    from sklearn.exceptions import ConvergenceWarning

    _checked_size(normalized, n_features)
    model = NMF(
        n_features,
        init="random",
        max_iter=n_steps,
        tol=1e-8,
        random_state=int(rng.integers(1 << 31)),
    )
    with warnings.catch_warnings():
        # The number of steps is a budget, as for the other solvers.
        warnings.simplefilter("ignore", ConvergenceWarning)
        left = np.asarray(model.fit_transform(normalized))  # (n, d)
    right = np.asarray(model.components_).T  # (n, d)
    balance = np.sqrt(
        np.linalg.norm(right, axis=0) / np.maximum(np.linalg.norm(left, axis=0), TINY)
    )
    factor: FloatArray = (left * balance + right / np.maximum(balance, TINY)) / 2
    return factor


def random_factor(normalized: Matrix, n_features: int, rng: np.random.Generator) -> FloatArray:
    """A start ``(n, d)``: uniform draws, scaled so that ``F Fᵀ`` has the mean of Ā."""
    n = _checked_size(normalized, n_features)
    # A product of two uniform draws is 1/4 in the mean.
    factor: FloatArray = rng.random((n, n_features)) * np.sqrt(4 * normalized.mean() / n_features)
    return factor


class _Place:
    """A factor with what one product with Ā tells of it: its error and the slope there."""

    def __init__(self, normalized: Matrix, factor: FloatArray) -> None:
        self.factor = factor
        pull = normalized @ factor  # (n, d)
        gram = factor.T @ factor  # (d, d)
        # Without ||Ā||², which is the same everywhere.
        self.error = float((gram * gram).sum() - 2 * (pull * factor).sum())
        self.slope: FloatArray = 4 * (factor @ gram - pull)


def _descended(normalized: Matrix, start: _Place, size: float) -> tuple[_Place, float]:
    """The place after one accepted step, and the step's size; the same place if none helps."""
    while size > TINY:
        place = _Place(normalized, np.maximum(start.factor - size * start.slope, 0))
        expected = float((start.slope * (start.factor - place.factor)).sum())
        if place.error <= start.error - 1e-4 * expected:
            return place, size
        size /= 2
    return start, size


def _checked_size(normalized: Matrix, n_features: int) -> int:
    n, columns = normalized.shape
    if n != columns:
        raise ValueError(f"the matrix has shape {normalized.shape}; a factor F Fᵀ needs a square")
    if n_features < 1:
        raise ValueError(f"n_features is {n_features}; give at least 1")
    return int(n)
