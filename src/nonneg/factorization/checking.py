"""Checks of worlds: tables that are finite, non-negative and sum to one, without empty rows."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SparseMatrix = sparse.csr_array
Matrix = FloatArray | SparseMatrix
MatrixLike = ArrayLike | SparseMatrix

# Sums of probabilities that were written down or stored in float32 are this far from one.
SUM_TOLERANCE = 1e-6


def checked_matrix(table: MatrixLike, name: str) -> Matrix:
    """A table as a float64 array or CSR array ``(rows, columns)``, finite and non-negative.

    Args:
        table: Two-dimensional: nested lists, NumPy, or any SciPy sparse format.
        name: What the caller calls it.

    Example:
        >>> checked_matrix([[1, 0], [0, 2]], "counts")
        array([[1., 0.],
               [0., 2.]])
    """
    matrix = _float_matrix(table)
    if len(matrix.shape) != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must be a table of rows and columns, got shape {matrix.shape}")
    entries = matrix if isinstance(matrix, np.ndarray) else matrix.data
    if not np.isfinite(entries).all():
        raise ValueError(f"{name} has NaN or infinite entries; probabilities are finite")
    if entries.size and entries.min() < 0:
        raise ValueError(
            f"{name} has negative entries (min {entries.min():.3g}); probabilities are at least 0"
        )
    return matrix


def checked_joint(table: MatrixLike, *, symmetric: bool, name: str = "P") -> Matrix:
    """A joint distribution of two samples: sums to one, every sample possible.

    Args:
        table: ``(n_a, n_b)``.
        symmetric: Whether both sides are the same samples, P(x, x') = P(x', x).
        name: What the caller calls it.
    """
    joint = checked_matrix(table, name)
    total = float(joint.sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"{name} sums to {total:.6g}; probabilities must sum to 1")
    if symmetric:
        _check_symmetric(joint, name)
    for axis, side in ((1, "row"), (0, "column")):
        sums = np.asarray(joint.sum(axis=axis))
        if not (sums > 0).all():
            raise ValueError(
                f"the sample of {side} {int(np.argmin(sums))} of {name} has probability zero; "
                "leave it out"
            )
    return joint


def checked_prior(prior: ArrayLike, name: str = "prior") -> FloatArray:
    """Probabilities of classes ``(m,)``: each above zero, together one."""
    checked = np.array(prior, dtype=np.float64)
    if checked.ndim != 1 or not checked.size:
        raise ValueError(f"{name} must be a list of probabilities, got shape {checked.shape}")
    if not np.isfinite(checked).all() or checked.min() <= 0:
        raise ValueError(
            f"{name} has the entry {checked[~(checked > 0)][:1]}; "
            "each class needs a probability above 0"
        )
    if abs(checked.sum() - 1) > SUM_TOLERANCE:
        raise ValueError(f"{name} sums to {checked.sum():.6g}; probabilities must sum to 1")
    return checked


def checked_likelihood(table: MatrixLike, n_classes: int, name: str = "likelihood") -> Matrix:
    """P(x | c) as ``(n, m)``: a distribution over samples in every column, no sample impossible."""
    likelihood = checked_matrix(table, name)
    if likelihood.shape[1] != n_classes:
        raise ValueError(
            f"{name} has {likelihood.shape[1]} columns for {n_classes} classes; "
            "give P(x|c) as (n_samples, n_classes)"
        )
    sums = np.asarray(likelihood.sum(axis=0))
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"column {worst} of {name} sums to {sums[worst]:.6g}; P(x|c) must sum to 1 over samples"
        )
    possible = np.asarray(likelihood.sum(axis=1)) > 0
    if not possible.all():
        raise ValueError(
            f"sample {int(np.argmin(possible))} has probability zero under every class; "
            "leave it out"
        )
    return likelihood


def _float_matrix(table: MatrixLike) -> Matrix:
    if not sparse.issparse(table):
        return np.array(table, dtype=np.float64)
    rows = sparse.csr_array(table).astype(np.float64)
    rows.sum_duplicates()
    return rows


def _check_symmetric(joint: Matrix, name: str) -> None:
    if joint.shape[0] != joint.shape[1]:
        raise ValueError(
            f"{name} has shape {joint.shape}; pairs of the same samples need a square table "
            "(two modalities: CrossWorld)"
        )
    if isinstance(joint, np.ndarray):
        difference = float(np.abs(joint - joint.T).max())
    else:
        difference = float(abs(joint - joint.T).max())
    if difference > SUM_TOLERANCE * float(joint.max()):
        raise ValueError(
            f"{name} is not symmetric (largest difference {difference:.3g}); "
            "average it with its transpose, or use CrossWorld for two modalities"
        )
