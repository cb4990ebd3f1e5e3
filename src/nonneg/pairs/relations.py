"""Pairs from what the user knows: edges of a graph, listed pairs, equal labels; or from noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse
from torch import Tensor

from nonneg.pairs.protocol import Batch
from nonneg.pairs.view_settings import VIEW_STREAMS


class GraphPairs:
    """Each sample and one that an edge joins it to, drawn by the edges' weights every epoch.

    Args:
        graph: Weights from 0 on, a SciPy sparse matrix ``(n, n)``. Row i holds the partners of
            sample i: an undirected graph is given by a symmetric matrix. A sample without an edge
            is paired with itself; ``n_alone`` counts them.

    Example:
        >>> path = sparse.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
        >>> GraphPairs(path).n_alone
        1
    """

    def __init__(self, graph: Any) -> None:  # noqa: ANN401
        rows = _checked(graph)
        self.n_samples = int(rows.shape[0])
        counts = np.diff(rows.indptr)
        self.n_alone = int((counts == 0).sum())
        if self.n_alone == self.n_samples:
            raise ValueError("the graph has no edge, so there is no pair to learn from")
        self._start = torch.from_numpy(rows.indptr[:-1].astype(np.int64))
        self._count = torch.from_numpy(counts.astype(np.int64))
        self._partner = torch.from_numpy(rows.indices.astype(np.int64))
        # The running sum of all edges' shares of their rows; a sample has the stretch of its own.
        # Of the weights themselves, large ones would drown the small ones of later rows.
        shares = rows.data / np.repeat(rows.sum(axis=1), counts)
        self._sum = torch.from_numpy(np.cumsum(shares))

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The batch itself, and for each sample one of its partners, both ``(n, ...)``."""
        indices = batch.indices.cpu()
        start, count = self._start[indices], self._count[indices]
        last = (start + count - 1).clamp(min=0)
        before = torch.where(start > 0, self._sum[(start - 1).clamp(min=0)], 0.0)
        share = batch.draws.uniform(1)[:, 0].cpu().double()
        target = before + share * (self._sum[last] - before)
        edge = torch.searchsorted(self._sum, target, right=True).clamp(max=len(self._sum) - 1)
        edge = torch.maximum(torch.minimum(edge, last), torch.minimum(start, last))
        partners = torch.where(count > 0, self._partner[edge], indices)
        return batch.inputs, batch.fetch(partners.to(batch.indices.device))


def _checked(graph: Any) -> sparse.csr_array:  # noqa: ANN401
    """The graph as a CSR array of float64 without zeros, or a sentence on what is wrong."""
    is_sparse: bool = sparse.issparse(graph)
    if not is_sparse:
        raise TypeError(
            f"graph must be a SciPy sparse matrix, got {type(graph).__name__}; "
            "wrap it in scipy.sparse.csr_array"
        )
    if len(graph.shape) != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError(f"graph must be square (n, n), got shape {tuple(graph.shape)}")
    rows: sparse.csr_array = sparse.csr_array(graph, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    if not np.isfinite(rows.data).all() or (rows.data < 0).any():
        worst = rows.data[~(np.isfinite(rows.data) & (rows.data >= 0))][0]
        raise ValueError(f"graph holds the weight {worst}; weights are finite numbers from 0 on")
    return rows


def given_pairs(index_pairs: ArrayLike, n_samples: int) -> GraphPairs:
    """Pairs that are exactly those of a list: each of its two samples is the other's partner.

    A pair that is listed twice is drawn twice as often. A sample in no pair is paired with itself;
    a pair of a sample with itself counts as any other.

    Args:
        index_pairs: Whole numbers ``(n_pairs, 2)``, each from 0 to ``n_samples - 1``.
        n_samples: How many samples there are.

    Example:
        >>> given_pairs([[0, 1], [1, 2]], n_samples=4).n_alone
        1
    """
    pairs = np.asarray(index_pairs)
    if not pairs.size:
        raise ValueError("index_pairs holds no pairs, so there is nothing to learn from; list some")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"index_pairs must be whole numbers of shape (n_pairs, 2), got {pairs.dtype} of shape "
            f"{pairs.shape}"
        )
    wrong = pairs[(pairs < 0) | (pairs >= n_samples)]
    if wrong.size:
        raise ValueError(
            f"index_pairs names sample {wrong[0]}, but samples are numbered 0 to {n_samples - 1}"
        )
    back = pairs[pairs[:, 0] != pairs[:, 1], ::-1]
    rows, columns = np.concatenate([pairs, back]).T
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n_samples, n_samples))
    return GraphPairs(graph)


class LabelPairs:
    """Each sample and another one of its class, drawn again every epoch.

    A sample with several labels shares one of them with its partner, drawn again every epoch too;
    the others agree by chance only. ``P(x, x')`` is then the mean over labels of the class model.

    Args:
        labels: Class numbers, whole numbers of any sign, ``(n,)`` or, with k labels per sample,
            ``(n, k)``; a column that is given twice is drawn twice as often. A sample that is alone
            in its class is paired with itself; ``n_alone`` counts those with such a label.

    Example:
        >>> LabelPairs(torch.tensor([5, 2, 5, 5, 9])).n_alone
        2
        >>> shape_and_colour = torch.tensor([[0, 0], [0, 1], [1, 1], [1, 0]])
        >>> LabelPairs(shape_and_colour).n_alone
        0
    """

    def __init__(self, labels: Tensor) -> None:
        if labels.ndim not in (1, 2) or not labels.shape[-1] or labels.dtype.is_floating_point:
            raise ValueError(
                f"labels must be whole numbers of shape (n,) or (n, k), got {labels.dtype} of "
                f"shape {tuple(labels.shape)}"
            )
        columns = labels.cpu().reshape(len(labels), -1).unbind(1)
        members, place, size, start = zip(*map(_classes, columns), strict=True)
        # (k, n) each: all samples, class after class, each class a stretch of this list; the place
        # of a sample there; how long its stretch is, and where it begins.
        self._members, self._place = torch.stack(members), torch.stack(place)
        self._size, self._start = torch.stack(size), torch.stack(start)
        self.n_alone = int((self._size == 1).any(dim=0).sum())

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The batch itself, and for each sample one of the others of its class."""
        indices, column = batch.indices.cpu(), batch.draws.integers(len(self._size), stream=1).cpu()
        size, start = self._size[column, indices], self._start[column, indices]
        others = (size - 1).clamp(min=1).to(batch.indices.device)
        # From 1 to size - 1 places further round the class: never back to the sample itself.
        step = 1 + batch.draws.integers(others).cpu()
        place = start + (self._place[column, indices] - start + step) % size
        return batch.inputs, batch.fetch(self._members[column, place].to(batch.indices.device))


def _classes(labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Members, places, sizes and starts of the classes of one column ``(n,)``, each ``(n,)``."""
    _, numbers, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    if int(sizes.max()) < 2:
        raise ValueError("no two samples have the same label, so there is no pair to learn from")
    members = numbers.argsort(stable=True)
    place = torch.empty_like(members)
    place[members] = torch.arange(len(members))
    return members, place, sizes[numbers], (sizes.cumsum(0) - sizes)[numbers]


@dataclass(frozen=True)
class NoisePairs:
    """Two copies of each vector, each with its own Gaussian noise.

    The weakest of pairs: neighbours, labels or edges, where there are any, say more.

    Args:
        std: Standard deviation of the noise, in the units of the vectors; 0 adds none.
    """

    std: float

    def __post_init__(self) -> None:
        if not 0 <= self.std < float("inf"):
            raise ValueError(f"std must be a number from 0 on, got {self.std}")

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Two noisy copies of ``batch.inputs``, floats ``(n, d)``."""
        vectors = batch.inputs
        if vectors.ndim != 2:
            raise ValueError(f"vectors must have shape (n, d), got {tuple(vectors.shape)}")
        if not vectors.is_floating_point():
            raise TypeError(f"vectors must be floats, got {vectors.dtype}")
        view_a, view_b = (
            vectors + self.std * batch.draws.normal(vectors.shape[1], stream=stream).to(vectors)
            for stream in VIEW_STREAMS
        )
        return view_a, view_b
