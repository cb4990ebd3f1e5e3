"""Posting lists: for each feature the samples that have it, scored query by query.

The loops are compiled by numba where it can be imported; otherwise PyTorch adds lists up.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nonneg.metrics.results import BoolArray, IntArray

Values = NDArray[np.float32] | NDArray[np.float16]
Best = tuple[IntArray, NDArray[np.float32]]


class Postings(NamedTuple):
    """Lists of n samples by feature; entry p of a list is in ``samples[p]`` and ``values[p]``."""

    starts: NDArray[np.int64]
    """Where the list of each feature begins, and the end ``(d + 1,)``."""
    samples: NDArray[np.int32]
    """Rising within a list ``(n_entries,)``."""
    values: Values
    """Of rows of length 1, float32 or float16 ``(n_entries,)``."""
    n_samples: int

    @classmethod
    def of(cls, rows: sparse.csr_array, dtype: type[np.floating[Any]] = np.float32) -> Self:
        """The lists of rows of length 1 ``(n, d)``."""
        columns = sparse.csc_array(rows)
        columns.sort_indices()
        return cls(
            columns.indptr.astype(np.int64),
            columns.indices.astype(np.int32),
            columns.data.astype(dtype),
            rows.shape[0],
        )

    def best(self, queries: sparse.csr_array, k: int, allowed: BoolArray | None = None) -> Best:
        """The k samples of largest cosine for each query, equals in their order.

        Args:
            queries: Rows of length 1 ``(n_queries, d)``.
            k: At most so many per query.
            allowed: Which samples may be found ``(n_samples,)``; None for all.

        Returns:
            Their numbers, -1 behind the last one that shares a feature, and their cosines, both
            ``(n_queries, k)``.
        """
        compiled = _compiled()
        if compiled is None:
            return _best_by_torch(self, queries, k, allowed)
        return _best_by_numba(compiled, self, queries, k, allowed)

    def value(self, sample: int, feature: int) -> float:
        """What one sample has of one feature."""
        here = slice(self.starts[feature], self.starts[feature + 1])
        place = int(np.searchsorted(self.samples[here], sample))
        found = self.samples[here][place : place + 1]
        return float(self.values[here][place]) if len(found) and found[0] == sample else 0.0


def _best_by_numba(
    compiled: Callable[..., None],
    lists: Postings,
    queries: sparse.csr_array,
    k: int,
    allowed: BoolArray | None,
) -> Best:
    n_queries = queries.shape[0]
    numbers = np.full((n_queries, k), -1, dtype=np.int64)
    cosines = np.zeros((n_queries, k), dtype=np.float32)
    is_half = lists.values.dtype == np.float16
    table = _half_values() if is_half else np.zeros(1, np.float32)
    values = lists.values.view(np.uint16) if is_half else lists.values
    mask = np.ones(1, dtype=np.bool_) if allowed is None else allowed
    n_threads = min(torch.get_num_threads(), max(1, n_queries // 8))

    def search(part: int) -> None:
        which = slice(part * n_queries // n_threads, (part + 1) * n_queries // n_threads)
        starts = queries.indptr[which.start : which.stop + 1].astype(np.int64)
        compiled(
            lists.starts, lists.samples, values, table, mask, lists.n_samples,
            starts, queries.indices.astype(np.int64), queries.data.astype(np.float32),
            numbers[which], cosines[which],
        )  # fmt: skip

    if n_threads == 1:
        search(0)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(search, range(n_threads)))
    return numbers, cosines


def _best_by_torch(
    lists: Postings, queries: sparse.csr_array, k: int, allowed: BoolArray | None
) -> Best:
    n_queries, n = queries.shape[0], lists.n_samples
    numbers = np.full((n_queries, k), -1, dtype=np.int64)
    cosines = np.zeros((n_queries, k), dtype=np.float32)
    scores = torch.zeros(n)
    blocked = None if allowed is None else torch.from_numpy(~allowed)
    for i in range(n_queries):
        scores.zero_()
        part = slice(queries.indptr[i], queries.indptr[i + 1])
        for feature, weight in zip(queries.indices[part], queries.data[part], strict=True):
            here = slice(lists.starts[feature], lists.starts[feature + 1])
            samples = torch.from_numpy(lists.samples[here].astype(np.int64))
            values = torch.from_numpy(lists.values[here].astype(np.float32))
            scores.index_add_(0, samples, values, alpha=float(weight))
        if blocked is not None:
            scores.masked_fill_(blocked, 0)
        count = min(k, n)
        # Of equals the earlier sample comes first, which topk does not promise.
        least = scores.topk(count).values[-1]
        found = torch.nonzero((scores >= least) & (scores != 0))[:, 0]
        order = torch.sort(scores[found], descending=True, stable=True).indices[:count]
        numbers[i, : len(order)] = found[order].numpy()
        cosines[i, : len(order)] = scores[found[order]].numpy()
    return numbers, cosines


@cache
def _half_values() -> NDArray[np.float32]:
    """The value of each of the 65,536 numbers of float16, which no compiled loop knows."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


@cache
def _compiled() -> Callable[..., None] | None:
    """The search of some queries as machine code; None where numba cannot be imported."""
    try:
        numba = import_module("numba")
    except (ImportError, RuntimeError, OSError):
        return None
    compiled: Callable[..., None] = numba.njit(nogil=True, cache=False, fastmath=False)(_search)
    return compiled


def _search(
    starts: Any, samples: Any, values: Any, table: Any, mask: Any, n_samples: int,  # noqa: ANN401
    query_starts: Any, features: Any, weights: Any, numbers: Any, cosines: Any,  # noqa: ANN401
) -> None:  # fmt: skip
    """Fill numbers and cosines ``(n_queries, k)``: plain loops, which numba compiles."""
    k = numbers.shape[1]
    scores = np.zeros(n_samples, dtype=np.float32)
    touched = np.empty(n_samples, dtype=np.int32)
    is_half = len(table) > 1
    is_filtered = len(mask) == n_samples and n_samples > 1
    for i in range(len(query_starts) - 1):
        n_touched = 0
        for q in range(query_starts[i], query_starts[i + 1]):
            feature, weight = features[q], weights[q]
            for p in range(starts[feature], starts[feature + 1]):
                sample = samples[p]
                value = table[np.uint16(values[p])] if is_half else np.float32(values[p])
                if scores[sample] == 0:
                    touched[n_touched] = sample
                    n_touched += 1
                scores[sample] += weight * value
        n_kept = 0
        for t in range(n_touched):
            sample = touched[t]
            score = scores[sample]
            scores[sample] = 0
            if is_filtered and not mask[sample]:
                continue
            if n_kept == k and (
                score < cosines[i, k - 1]
                or (score == cosines[i, k - 1] and sample > numbers[i, k - 1])
            ):
                continue
            place = n_kept if n_kept < k else k - 1
            n_kept = min(n_kept + 1, k)
            while place > 0 and (
                cosines[i, place - 1] < score
                or (cosines[i, place - 1] == score and numbers[i, place - 1] > sample)
            ):
                cosines[i, place] = cosines[i, place - 1]
                numbers[i, place] = numbers[i, place - 1]
                place -= 1
            cosines[i, place] = score
            numbers[i, place] = sample
