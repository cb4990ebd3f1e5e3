"""Can few samples of many columns be made small? Their coordinates in the space that they span."""

import torch
from torch import Tensor

from nonneg.evaluation.solver_rows import DenseRows


def thin_rows(rows: DenseRows) -> tuple[DenseRows, Tensor]:
    """The samples in coordinates of their own span, ``(n, r)`` with r ≤ n, and its axes ``(r, d)``.

    Weights with an L2 penalty never leave the span of the samples, so the best weights here times
    the axes are the best weights there: the same probe from a smaller problem.

    Example:
        >>> thin, axes = thin_rows(DenseRows(torch.tensor([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0]])))
        >>> thin.values.abs(), axes.abs()
        (tensor([[5.],
                 [0.]]), tensor([[0.6000, 0.0000, 0.8000]]))
    """
    values = rows.values.double()
    # Eigenvalues of the products of samples, in ascending order, are squared lengths of the axes.
    squares, vectors = torch.linalg.eigh(values @ values.T)
    rounding = len(values) * torch.finfo(torch.float64).eps
    kept = squares > rounding * squares[-1]
    lengths, vectors = squares[kept].sqrt(), vectors[:, kept]
    axes = (vectors / lengths).T @ values
    kind = rows.values.dtype
    return DenseRows((vectors * lengths).to(kind)), axes.to(kind)
