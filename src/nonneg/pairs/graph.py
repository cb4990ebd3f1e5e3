"""Which samples are joined by an edge? Pairs from a weighted graph, one step of a random walk."""

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nonneg.pairs.protocol import Batch


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
