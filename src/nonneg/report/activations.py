"""How do features travel to the page? As sparse rows of 16-bit numbers."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nonneg.metrics import ACTIVE_THRESHOLD
from nonneg.metrics.inputs import FeatureLike, checked_features, unit_rows
from nonneg.metrics.results import IntArray

SCALE = 32767
# About 16 MB of a page.
MAX_ENTRIES = 3_000_000


@dataclass(frozen=True, eq=False)
class Activations:
    """Active entries of unit rows, row after row.

    Args:
        starts: Where row i begins, ``(n + 1,)``.
        columns: Features, rising within a row ``(n_entries,)``.
        values: Signed strength times ``SCALE``, never 0 ``(n_entries,)``.
        kept_a_row: Only so many of the strongest entries of a row are there; None if all are.
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.uint16]
    values: NDArray[np.int16]
    kept_a_row: int | None


def activations(
    Z: FeatureLike, rows: IntArray | None = None, *, max_entries: int = MAX_ENTRIES
) -> Activations:
    """The active entries of some rows, each row scaled to length 1.

    Args:
        Z: Features ``(n, d)``, d below 65,536.
        rows: Which rows; all if left out.
        max_entries: If more entries are active, each row keeps its strongest, equally many.

    Example:
        >>> packed = activations([[3, 0, 4], [0, 0, 0]])
        >>> packed.starts.tolist(), packed.columns.tolist(), (packed.values / SCALE).round(3)
        ([0, 2, 2], [0, 2], array([0.6, 0.8]))
    """
    features = checked_features(Z)
    if features.n_features > np.iinfo(np.uint16).max:
        raise ValueError(
            f"the atlas shows at most {np.iinfo(np.uint16).max:,} features, "
            f"got {features.n_features:,}; keep some of them"
        )
    chosen = np.arange(features.n_samples) if rows is None else rows
    blocks = []
    for start in range(0, len(chosen), features.tile_rows):
        which = torch.from_numpy(chosen[start : start + features.tile_rows])
        dense = unit_rows(features.rows(which.to(features.device))).cpu().numpy()
        blocks.append(sparse.csr_array(np.where(np.abs(dense) > ACTIVE_THRESHOLD, dense, 0)))
    found = sparse.csr_array(sparse.vstack(blocks, format="csr"))
    kept = None
    if found.nnz > max_entries:
        kept = max(1, max_entries // len(chosen))
        found = _strongest(found, kept)
    values = np.rint(found.data * SCALE)
    values = np.where(values == 0, np.sign(found.data), values)  # weak, but not off
    return Activations(
        starts=found.indptr.astype(np.int32),
        columns=found.indices.astype(np.uint16),
        values=values.astype(np.int16),
        kept_a_row=kept,
    )


def _strongest(rows: sparse.csr_array, k: int) -> sparse.csr_array:
    """The k largest entries of each row by absolute value, in the order of their columns."""
    kept = np.zeros(rows.nnz, dtype=bool)
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        order = np.argsort(-np.abs(rows.data[start:stop]), kind="stable")[:k]
        kept[start + order] = True
    starts = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    return sparse.csr_array((rows.data[kept], rows.indices[kept], starts), shape=rows.shape)
