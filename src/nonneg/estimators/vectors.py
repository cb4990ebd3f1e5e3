"""How are a user's vectors read? By tiles of rows, from arrays, memory maps or sparse matrices."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

# 4 million numbers, 16 MB of float32: large enough for fast products, small beside any X.
TILE_ENTRIES = 1 << 22


def tiles(X: Any, *, width: int = 1) -> Iterator[tuple[slice, Tensor]]:  # noqa: ANN401
    """All rows from first to last, some at a time, as dense float32.

    Args:
        X: A NumPy array or memory map of any order and real type, or SciPy CSR, ``(n, d)``.
        width: Columns of what a tile becomes, where these may be more than its own.

    Example:
        >>> [(rows, part.shape[0]) for rows, part in tiles(np.eye(3))]
        [(slice(0, 3, None), 3)]
    """
    n_samples, n_columns = X.shape
    step = max(1, TILE_ENTRIES // max(n_columns, width))
    for start in range(0, n_samples, step):
        rows = slice(start, min(start + step, n_samples))
        yield rows, dense_rows(X, rows)


def dense_rows(X: Any, rows: slice | np.ndarray[Any, Any]) -> Tensor:  # noqa: ANN401
    """Some rows of X as a float32 tensor of its own, ``(len(rows), d)``."""
    is_sparse: bool = sparse.issparse(X)
    part = X[rows].toarray() if is_sparse else X[rows]
    return torch.from_numpy(np.array(part, dtype=np.float32, order="C"))


def from_torch(X: Any) -> Any:  # noqa: ANN401
    """A tensor as a NumPy array, without its gradient; anything else as it is.

    Example:
        >>> from_torch(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
        array([1., 1.], dtype=float32)
    """
    if not isinstance(X, Tensor):
        return X
    here = X.detach().cpu()
    return (here.float() if here.dtype == torch.bfloat16 else here).numpy()


def check_finite(X: Any, name: str = "X") -> None:  # noqa: ANN401
    """Raise a sentence with the numbers of the rows that hold NaN or infinity."""
    bad: list[int] = []
    for rows, part in tiles(X):
        wrong = (~torch.isfinite(part)).any(dim=1).nonzero()[:, 0] + rows.start
        bad += wrong.tolist()
    if bad:
        shown = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        raise ValueError(
            f"{name} holds NaN or infinity (or numbers beyond float32) in {len(bad)} of "
            f"{X.shape[0]} rows: {shown}; remove or repair them"
        )
