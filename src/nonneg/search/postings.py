"""Posting lists: for each feature the samples that have it, scored query by query.

Samples are divided into blocks of 65,536, so that a place in a block takes two bytes and the
scores of a block stay in the cache. The loops are compiled by numba where it can be imported;
otherwise PyTorch adds lists up.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from nonneg.data.arrays import npy_array
from nonneg.io import replaced
from nonneg.metrics.inputs import Features
from nonneg.metrics.results import BoolArray, IntArray
from nonneg.rows import unit_rows

BLOCK = 1 << 16
# A value of 16 bits is a code, a whole number of 65,535ths, times the factor of its row.
CODES = (1 << 16) - 1
Values = NDArray[np.float32] | NDArray[np.uint16]
_FILES = ("starts", "places", "values", "factors")
Best = tuple[IntArray, NDArray[np.float32]]


class Postings(NamedTuple):
    """Lists of n samples by feature, and within a feature by block: the cells.

    Entry p belongs to sample ``places[p]`` of its block; block b begins at sample ``b * BLOCK``.
    """

    starts: NDArray[np.int64]
    """Where the cell of feature j in block b begins, at ``j * n_blocks + b``, and the end."""
    places: NDArray[np.uint16]
    """Rising within a cell ``(n_entries,)``."""
    values: Values
    """Of rows of length 1 ``(n_entries,)``: float32, or codes of 16 bits."""
    factors: NDArray[np.float32]
    """Of rows in codes, such that they stay of length 1 ``(n_samples,)``; else none ``(0,)``."""
    n_samples: int

    @classmethod
    def of(cls, rows: sparse.csr_array, *, is_short: bool = False) -> Self:
        """The lists of rows of length 1 ``(n, d)``, with values of 16 bits or of 32."""
        if not is_short:
            return cls._of_values(rows.astype(np.float32), np.ones(0, dtype=np.float32))
        # A sample is nearest to queries that are like it, so an error of its length counts most.
        codes = np.rint(CODES * np.minimum(rows.data.astype(np.float64), 1))
        squares = sparse.csr_array(((codes / CODES) ** 2, rows.indices, rows.indptr), rows.shape)
        lengths = np.sqrt(squares.sum(axis=1))
        kept = sparse.csr_array((codes.astype(np.uint16), rows.indices, rows.indptr), rows.shape)
        kept.eliminate_zeros()
        factors = 1 / np.where(lengths > 0, lengths, 1)
        return cls._of_values(kept, factors.astype(np.float32))

    @classmethod
    def joined(cls, parts: "Sequence[tuple[Postings, BoolArray]]") -> Self:
        """The lists of the samples that are kept of several, their values as they are."""
        rows = [lists._rows()[np.flatnonzero(is_kept)] for lists, is_kept in parts]
        # Values of 32 bits have no factors.
        factors = [lists.factors[is_kept[: len(lists.factors)]] for lists, is_kept in parts]
        whole = sparse.csr_array(sparse.vstack(rows, format="csr"))
        return cls._of_values(whole, np.concatenate(factors))

    @classmethod
    def _of_values(cls, rows: sparse.csr_array, factors: NDArray[np.float32]) -> Self:
        """The lists of rows of float32 or of codes ``(n, d)``."""
        columns = sparse.csc_array(rows)
        columns.sort_indices()
        n, d = rows.shape
        edges = np.arange(n_blocks(n)) * BLOCK
        starts = np.empty((d, len(edges)), dtype=np.int64)
        for j in range(d):
            begin, end = columns.indptr[j : j + 2]
            starts[j] = begin + np.searchsorted(columns.indices[begin:end], edges)
        return cls(
            np.append(starts.ravel(), columns.nnz),
            (columns.indices % BLOCK).astype(np.uint16),
            columns.data,
            factors,
            n,
        )

    @classmethod
    def read(cls, folder: Path, n_samples: int, n_features: int, *, is_short: bool) -> Self:
        """The lists that were written into a folder, mapped into memory.

        Only what bounds every read is looked at: lists may be larger than memory.

        Raises:
            ValueError: Files are damaged, or do not fit together.
        """
        names = _FILES if is_short else _FILES[:-1]
        arrays = [npy_array(folder / f"{name}.npy", mapped=True) for name in names]
        starts, places, values = arrays[:3]
        factors = arrays[3] if is_short else np.ones(0, dtype=np.float32)
        fits = (
            n_samples >= 0
            and starts.dtype == np.int64
            and starts.shape == (n_features * n_blocks(n_samples) + 1,)
            and places.dtype == np.uint16
            and values.dtype == (np.uint16 if is_short else np.float32)
            and places.shape == values.shape == (int(starts[-1]),)
            and factors.dtype == np.float32
            and factors.shape == (n_samples if is_short else 0,)
            and starts[0] == 0
            and bool((np.diff(starts) >= 0).all())
        )
        if not fits:
            raise ValueError("the files of its lists do not fit together")
        return cls(starts, places, values, factors, n_samples)

    def write(self, folder: Path) -> None:
        """Write the lists into a folder."""
        for name in _FILES if self.is_short else _FILES[:-1]:
            write_array(folder / f"{name}.npy", getattr(self, name))

    @property
    def is_short(self) -> bool:
        """Whether values are codes of 16 bits."""
        return self.values.dtype == np.uint16

    @property
    def n_bytes(self) -> int:
        """Memory of all arrays."""
        return sum(getattr(self, name).nbytes for name in _FILES)

    @property
    def n_blocks(self) -> int:
        """Of samples; at least one."""
        return n_blocks(self.n_samples)

    @property
    def n_features(self) -> int:
        """Columns of the features."""
        return (len(self.starts) - 1) // self.n_blocks

    def _rows(self) -> sparse.csr_array:
        """The rows again ``(n, d)``, of float32 or of codes."""
        samples = self._samples(0, self.n_features)
        shape = (self.n_samples, self.n_features)
        columns = sparse.csc_array((self.values, samples, self.starts[:: self.n_blocks]), shape)
        return sparse.csr_array(columns)

    def row(self, sample: int) -> NDArray[np.float32]:
        """One row ``(d,)``, by halving all of its cells at once."""
        block, place = divmod(sample, BLOCK)
        low = np.array(self.starts[:-1][block :: self.n_blocks])
        ends = np.array(self.starts[1:][block :: self.n_blocks])
        high = ends.copy()
        while (is_open := low < high).any():
            middle = (low + high) // 2
            is_before = np.zeros(len(low), dtype=np.bool_)
            is_before[is_open] = self.places[middle[is_open]] < place
            low = np.where(is_open & is_before, middle + 1, low)
            high = np.where(is_open & ~is_before, middle, high)
        row = np.zeros(self.n_features, dtype=np.float32)
        inside = np.flatnonzero(low < ends)
        found = inside[self.places[low[inside]] == place]
        row[found] = _decoded(self.values[low[found]])
        return row * self.factors[sample] if self.is_short else row

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

    def _samples(self, first: int, last: int) -> NDArray[np.int32]:
        """The samples in the lists of features from first up to, not including, last."""
        cells = self.starts[first * self.n_blocks : last * self.n_blocks + 1]
        begins = np.tile(np.arange(self.n_blocks, dtype=np.int32) * BLOCK, last - first)
        found: NDArray[np.int32] = np.repeat(begins, np.diff(cells))
        found += self.places[cells[0] : cells[-1]]
        return found


def _decoded(values: Values) -> NDArray[np.float32]:
    """What values stand for, up to the factors of their rows; those of 32 bits for themselves."""
    if values.dtype == np.float32:
        return values.astype(np.float32, copy=False)
    return (values / CODES).astype(np.float32)


def write_array(path: Path, array: NDArray[Any]) -> None:
    """An npy file, in pieces that name the file where the disk is full."""
    with replaced(path) as file:
        np.lib.format.write_array_header_2_0(file, np.lib.format.header_data_from_array_1_0(array))
        whole = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for start in range(0, len(whole), 1 << 24):
            file.write(whole[start : start + (1 << 24)].data)


def n_blocks(n_samples: int) -> int:
    """How many blocks a number of samples takes; at least one."""
    return max(1, -(-n_samples // BLOCK))


def unit_parts(features: Features) -> Iterator[sparse.csr_array]:
    """The rows scaled to length 1, some at a time.

    All that is above zero counts: without what is hardly active, cosines would be off by 1e-6.
    """
    source = features.source
    if isinstance(source, Tensor) or source.dtype != np.float32:
        for _, tile in features.tiles():
            unit = unit_rows(tile)
            yield sparse.csr_array(unit.float().cpu().numpy())
        return
    # Squares of float32 neither vanish nor overflow in float64.
    for start in range(0, features.n_samples, BLOCK):
        some = sparse.csr_array(source[start : start + BLOCK])
        squares = some.astype(np.float64).power(2).sum(axis=1)
        lengths = np.sqrt(np.where(squares > 0, squares, 1))
        unit = (some.data / np.repeat(lengths, np.diff(some.indptr))).astype(np.float32)
        part = sparse.csr_array((unit, some.indices, some.indptr), shape=some.shape)
        part.eliminate_zeros()
        yield part


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
    # Codes are off by half a step at most, so that no factor can exceed this.
    most = 1 / (1 - lists.n_features**0.5 * 0.5 / CODES) + 1e-6 if lists.is_short else 1
    # Sums in float32 err least where the small ones come first.
    row = np.repeat(np.arange(n_queries), np.diff(queries.indptr))
    order = np.lexsort((queries.data, row))
    features = queries.indices[order].astype(np.int64)
    weights = queries.data[order].astype(np.float32)
    weights /= np.float32(CODES if lists.is_short else 1)
    mask = np.ones(0, dtype=np.bool_) if allowed is None else allowed
    n_threads = max(1, min(torch.get_num_threads(), n_queries // 8))

    def search(part: int) -> None:
        which = slice(part * n_queries // n_threads, (part + 1) * n_queries // n_threads)
        starts = queries.indptr[which.start : which.stop + 1].astype(np.int64)
        compiled(
            lists.starts, lists.places, lists.values, lists.factors, np.float32(most), mask,
            lists.n_samples, lists.n_blocks,
            starts, features, weights, numbers[which], cosines[which],
        )  # fmt: skip

    if n_threads == 1:
        search(0)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(search, range(n_threads)))
    # The compiled loop leaves heaps; its free places have a cosine of 0 and come last.
    order = np.lexsort((numbers, -cosines), axis=1)
    return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(cosines, order, axis=1)


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
            here = slice(*lists.starts[[feature * lists.n_blocks, (feature + 1) * lists.n_blocks]])
            samples = torch.from_numpy(lists._samples(feature, feature + 1))
            values = torch.from_numpy(_decoded(lists.values[here]).copy())
            scores.index_add_(0, samples, values, alpha=float(weight))
        if lists.is_short:
            scores *= torch.from_numpy(np.array(lists.factors))
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
def _compiled() -> Callable[..., None] | None:
    """The search of some queries as machine code; None where numba cannot be imported."""
    try:
        numba = import_module("numba")
    except (ImportError, RuntimeError, OSError):
        return None
    compiled: Callable[..., None]
    try:
        compiled = numba.njit(nogil=True, cache=True)(_search)
    except RuntimeError:  # there is no folder to keep machine code in
        compiled = numba.njit(nogil=True)(_search)
    return compiled


def _search(  # noqa: C901 - one loop, which numba compiles as a whole
    starts: Any, places: Any, values: Any, factors: Any, most: Any, mask: Any,  # noqa: ANN401
    n_samples: int, n_blocks: int, query_starts: Any, features: Any, weights: Any,  # noqa: ANN401
    numbers: Any, cosines: Any,  # noqa: ANN401
) -> None:  # fmt: skip
    """Fill numbers and cosines ``(n_queries, k)``, as heaps whose first entry is the worst.

    Plain loops, which numba compiles. Blocks are the outer loop: their lists stay in the cache
    from one query to the next. Any damaged file reads within the lists and writes within a block.
    """
    k = numbers.shape[1]
    n_queries = len(query_starts) - 1
    n_kept = np.zeros(n_queries, dtype=np.int64)
    scores = np.zeros(65536, dtype=np.float32)
    # Positive numbers are in the order of their bits, whose largest is found much faster.
    score_bits = scores.view(np.int32)
    # No score up to this one can be found, whatever the factor of its sample.
    least = np.zeros(1, dtype=np.float32)
    least_bits = least.view(np.int32)
    for block in range(n_blocks):
        first = block * 65536
        n_here = min(65536, n_samples - first)
        for i in range(n_queries):
            for q in range(query_starts[i], query_starts[i + 1]):
                cell = features[q] * n_blocks + block
                weight = weights[q]
                begin, end = starts[cell], starts[cell + 1]
                for p in range(begin, end):
                    scores[places[p]] += weight * np.float32(values[p])
            kept = n_kept[i]
            least[0] = cosines[i, 0] / most if kept == k else np.float32(0)
            for chunk in range(0, n_here, 256):
                bits = score_bits[chunk : chunk + 256]
                largest = np.int32(0)
                for j in range(256):
                    largest = max(largest, bits[j])
                if largest <= least_bits[0]:
                    continue
                for j in range(chunk, min(chunk + 256, n_here)):
                    score, sample = scores[j], first + j
                    if score <= least[0] or (len(mask) and not mask[sample]):
                        continue
                    if len(factors):
                        score *= factors[sample]
                        if kept == k and score <= cosines[i, 0]:
                            continue
                    if kept < k:  # upwards from the end
                        at = kept
                        kept += 1
                        while at > 0:
                            up = (at - 1) // 2
                            if cosines[i, up] < score or (  # of equals the later one is worse
                                cosines[i, up] == score and numbers[i, up] > sample
                            ):
                                break
                            cosines[i, at], numbers[i, at] = cosines[i, up], numbers[i, up]
                            at = up
                    else:  # downwards from the worst, which goes
                        at = 0
                        while 2 * at + 1 < k:
                            down = 2 * at + 1
                            if down + 1 < k and (
                                cosines[i, down + 1] < cosines[i, down]
                                or (
                                    cosines[i, down + 1] == cosines[i, down]
                                    and numbers[i, down + 1] > numbers[i, down]
                                )
                            ):
                                down += 1
                            if cosines[i, down] > score or (
                                cosines[i, down] == score and numbers[i, down] < sample
                            ):
                                break
                            cosines[i, at], numbers[i, at] = cosines[i, down], numbers[i, down]
                            at = down
                    cosines[i, at], numbers[i, at] = score, sample
                    if kept == k:
                        least[0] = cosines[i, 0] / most
            n_kept[i] = kept
            scores[:n_here] = 0
