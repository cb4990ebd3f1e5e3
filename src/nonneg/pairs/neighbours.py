"""Which samples lie next to each other? Each vector's nearest by cosine make its pairs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg.metrics.inputs import checked_features
from nonneg.pairs.approximate import approximate_neighbors
from nonneg.pairs.exact import exact_neighbors
from nonneg.pairs.protocol import Batch

# With more samples than this every pair is too much work: a million would take 1e12 products.
_EXACT_UP_TO = 50_000


@dataclass(frozen=True)
class NeighborPairs:
    """Each sample and one of its neighbours, drawn anew every epoch.

    Args:
        neighbors: Numbers of each sample's neighbours, int64 ``(n, k)``, as from
            :func:`nearest_neighbors`.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> NeighborPairs(nearest_neighbors(vectors, 1)).neighbors.flatten().tolist()
        [1, 0, 3, 2]
    """

    neighbors: Tensor

    def __post_init__(self) -> None:
        if self.neighbors.ndim != 2 or self.neighbors.dtype != torch.int64:
            raise ValueError(
                f"neighbors must be int64 of shape (n, k), got {self.neighbors.dtype} of shape "
                f"{tuple(self.neighbors.shape)}"
            )

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The batch itself, and for each sample one of its neighbours, both ``(n, ...)``."""
        choice = batch.draws.integers(self.neighbors.shape[1]).cpu()
        partners = self.neighbors[batch.indices.cpu(), choice]
        return batch.inputs, batch.fetch(partners.to(batch.indices.device))


def nearest_neighbors(vectors: Tensor, k: int) -> Tensor:
    """The k samples of largest cosine with each sample, itself left out, int64 ``(n, k)``.

    Nearest first; which of equally near samples comes first is not defined. Exact up to 50,000
    samples, tile by tile on the vectors' device. Beyond, some neighbours are missed: see
    :func:`nonneg.pairs.approximate.approximate_neighbors`, by faiss where it is installed.

    Args:
        vectors: ``(n, d)``, finite, of any real type; a row of zeros has cosine 0 with every other.
        k: Neighbours a sample, below n.

    Example:
        >>> nearest_neighbors(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]]), 1).tolist()
        [[2], [2], [0]]
    """
    n = len(vectors)
    if not 1 <= k < n:
        raise ValueError(
            f"each of {n} samples has {n - 1} others, so n_neighbors must be between 1 and "
            f"{n - 1}, got {k}; lower it or give more samples"
        )
    vectors = checked_features(vectors, "vectors").dense()
    if n > _EXACT_UP_TO:
        return approximate_neighbors(vectors, k)
    return exact_neighbors(vectors, torch.arange(n), k)
