"""What if a concept were switched off, or counted double? Edited features, and a search by them."""

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nonneg.metrics.inputs import FeatureLike, Features, checked_features, unit_rows
from nonneg.metrics.retrieval import nearest, nonzero_rows

_TILE_ROWS = 512


class Found(NamedTuple):
    """What a search found for n queries."""

    numbers: NDArray[np.int64]
    """Gallery rows, nearest first ``(n, k)``; -1 where a query of zeros finds nothing."""
    cosine: NDArray[np.float64]
    """Their cosines with the query ``(n, k)``; 0 where there is none."""


def edited(
    Z: Any,  # noqa: ANN401
    *,
    remove: Iterable[int] = (),
    boost: Mapping[int, float] | None = None,
) -> Any:  # noqa: ANN401
    """A copy of the features with some switched off and others multiplied.

    Args:
        Z: ``(n, d)``, a NumPy array or SciPy sparse; it is not changed.
        remove: Numbers of features to set to zero.
        boost: A factor from 0 on for each named feature.

    Example:
        >>> edited(np.ones((1, 3)), remove=[0], boost={2: 5}).tolist()
        [[0.0, 1.0, 5.0]]
    """
    n_features = Z.shape[1]
    # In the type of whole numbers a factor of 0.5 would be 0.
    factor = np.ones(n_features, dtype=Z.dtype if Z.dtype.kind == "f" else np.float64)
    off, boost = dict.fromkeys(remove, 0.0), boost or {}
    if both := off.keys() & boost.keys():
        raise ValueError(f"feature {min(both)} is to be removed and boosted; leave it in one")
    for feature, by in {**off, **boost}.items():
        if not 0 <= feature < n_features:
            raise ValueError(
                f"there is no feature {feature}; they are numbered 0 to {n_features - 1}"
            )
        if not isinstance(by, Real) or not 0 <= by < np.inf:
            raise ValueError(
                f"feature {feature} cannot be boosted by {by!r}; use a factor from 0 on"
            )
        factor[feature] = by
    is_sparse: bool = sparse.issparse(Z)
    if not is_sparse:
        return np.asarray(Z) * factor
    scaled = sparse.csr_array(Z) @ sparse.diags_array(factor)
    scaled = sparse.csr_array(scaled)
    scaled.eliminate_zeros()
    return scaled


def nearest_samples(Z_query: FeatureLike, Z_gallery: FeatureLike, k: int = 10) -> Found:
    """The k gallery rows of largest cosine with each query, exact; equals in their order.

    Args:
        Z_query: Features of the queries ``(n, d)``, edited or not.
        Z_gallery: Features to search in ``(m, d)``.
        k: At most m.

    Example:
        >>> found = nearest_samples([[3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], k=2)
        >>> found.numbers.tolist(), found.cosine.round(2).tolist()
        ([[1, 0]], [[0.8, 0.6]])
    """
    queries, gallery = (
        checked_features(Z_query, "Z_query"),
        checked_features(Z_gallery, "Z_gallery"),
    )
    if queries.n_features != gallery.n_features:
        raise ValueError(
            f"queries have {queries.n_features} features, the gallery has {gallery.n_features}"
        )
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise TypeError(f"k must be a whole number of rows, got {k!r}")
    if not 1 <= k <= gallery.n_samples:
        raise ValueError(
            f"k must be between 1 and the {gallery.n_samples} rows to search in, got {k}"
        )
    numbers = nearest(queries, gallery, nonzero_rows(gallery), k, leave_one_out=False)
    return Found(numbers.numpy(), _cosines(queries, gallery, numbers).numpy())


def _cosines(queries: Features, gallery: Features, numbers: torch.Tensor) -> torch.Tensor:
    cosine = torch.zeros(numbers.shape, dtype=torch.float64)
    for start in range(0, len(numbers), _TILE_ROWS):
        here = slice(start, start + _TILE_ROWS)
        query = unit_rows(queries.rows(here).double())  # (n, d)
        for column in range(numbers.shape[1]):
            found = unit_rows(gallery.rows(numbers[here, column].clamp(min=0)).double())
            cosine[here, column] = (query * found).sum(dim=1)
    return cosine.masked_fill(numbers < 0, 0.0)
