"""Which labels and settings may be used? Class numbers, factor tables, counts and choices."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nonneg.metrics.results import FloatArray, IntArray

LabelLike = ArrayLike | Tensor


def checked_labels(y: LabelLike, n_samples: int, name: str = "y") -> IntArray:
    """Class numbers ``(n_samples,)``.

    Raises:
        TypeError: Labels that are not integers.
        ValueError: Not one-dimensional, of another length than the features, or negative.

    Example:
        >>> checked_labels([0, 1, 1], 3)
        array([0, 1, 1])
    """
    labels = _integers(y, name)
    if labels.ndim != 1:
        raise ValueError(f"{name} has shape {labels.shape}; pass one label a sample, (n_samples,)")
    if len(labels) != n_samples:
        raise ValueError(f"{name} has {len(labels)} labels for {n_samples} samples")
    if labels.min() < 0:
        raise ValueError(
            f"{name} has the negative label {labels.min()} in row {int(labels.argmin())}; "
            "leave unlabelled samples out and number the classes from 0"
        )
    return labels.astype(np.int64)


def checked_factors(factors: LabelLike, n_samples: int) -> IntArray:
    """The values of known factors, renumbered 0, 1, … in their order, ``(n_samples, n_factors)``.

    Raises:
        TypeError: Values that are not integers.
        ValueError: Not a table, of another length than the features, or a factor of one value.

    Example:
        >>> checked_factors([[5, 0], [7, 1]], 2)
        array([[0, 0],
               [1, 1]])
    """
    table = _factor_table(factors, n_samples)
    columns = [np.unique(column, return_inverse=True)[1] for column in table.T]
    return np.stack(columns, axis=1).astype(np.int64)


def checked_quantities(factors: LabelLike, n_samples: int) -> FloatArray:
    """The values of known factors as the numbers that they are, ``(n_samples, n_factors)``.

    Raises:
        TypeError: Values that are not integers.
        ValueError: As for :func:`checked_factors`.

    Example:
        >>> checked_quantities([[5, 0], [7, 1]], 2)
        array([[5., 0.],
               [7., 1.]])
    """
    return _factor_table(factors, n_samples).astype(np.float64)


def checked_count(count: int, *, name: str, limit: int | None = None, limited_by: str = "") -> int:
    """A whole number of at least 1 and at most the limit; else an error that names the limit."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"{name} is {count!r}; pass a whole number")
    if count < 1:
        raise ValueError(f"{name} is {count}; it must be at least 1")
    if limit is not None and count > limit:
        raise ValueError(f"{name} is {count}, more than {limit}, {limited_by}")
    return int(count)


def checked_choice(key: str, known: tuple[str, ...], name: str) -> str:
    """One of the known keys; else an error that lists them."""
    if key not in known:
        raise ValueError(f"unknown {name} {key!r}; known: {', '.join(known)}")
    return key


def _factor_table(factors: LabelLike, n_samples: int) -> NDArray[np.integer]:
    table = _integers(factors, "factors")
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"factors has shape {table.shape}; pass (n_samples, n_factors)")
    if len(table) != n_samples:
        raise ValueError(f"factors has {len(table)} rows for {n_samples} samples")
    for number, column in enumerate(table.T):
        if (column == column[0]).all():
            raise ValueError(
                f"factor {number} has the same value in every row; leave its column out"
            )
    return table


def _integers(values: LabelLike, name: str) -> NDArray[np.integer]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind not in "iub":
        raise TypeError(
            f"{name} has dtype {array.dtype}, not integers; "
            "number the values with np.unique(…, return_inverse=True)"
        )
    return array
