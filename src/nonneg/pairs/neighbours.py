"""Pairs of nearest neighbours by cosine: exact, or for many samples approximate, by a library."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor

from nonneg.metrics.inputs import checked_features
from nonneg.pairs.protocol import Batch
from nonneg.rows import unit_rows

_TILE_ENTRIES = 1 << 26  # cosines held at once: 256 MB of float32


def exact_neighbors(vectors: Tensor, rows: Tensor, k: int) -> Tensor:
    """The k samples of largest cosine with some samples, themselves left out, ``(len(rows), k)``.

    Nearest first; int64, on the CPU.

    Args:
        vectors: All samples ``(n, d)``; a row of zeros has cosine 0 with every other.
        rows: Numbers of the samples that are asked about, int64.
        k: Neighbours per sample, below n.

    Example:
        >>> vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
        >>> exact_neighbors(vectors, torch.tensor([2, 0]), 2).tolist()
        [[0, 1], [2, 1]]
    """
    unit, parts = unit_rows(vectors), []
    for some in rows.to(vectors.device).split(max(1, _TILE_ENTRIES // len(vectors))):
        cosine = unit[some] @ unit.T  # (some, n)
        cosine.scatter_(1, some[:, None], -torch.inf)
        parts.append(cosine.topk(k, dim=1).indices.cpu())
    return torch.cat(parts)


# Faiss: about this many samples per list, and this many of the nearest lists searched.
_LIST_SIZE = 256
_N_LISTS = 24
_SAMPLES_PER_LIST = 32  # to learn the lists from
# pynndescent finds more of the nearest where it keeps more per sample than are asked for.
_LEAST_KEPT = 30

Search = Callable[[Tensor, int], Tensor]
"""Unit rows ``(n, d)`` on the CPU and k to the numbers of about the k nearest, the row itself among
them, int64 ``(n, k)`` or more columns; nearest first, and -1 where none was found."""


def _by_faiss(faiss: ModuleType) -> Search:
    def search(unit: Tensor, k: int) -> Tensor:
        n, n_columns = unit.shape
        n_lists = max(1, n // _LIST_SIZE)
        centers = faiss.IndexFlatIP(n_columns)
        index = faiss.IndexIVFFlat(centers, n_columns, n_lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1
        order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
        index.train(unit[order[: n_lists * _SAMPLES_PER_LIST]].numpy())
        index.add(unit.numpy())
        index.nprobe = _N_LISTS
        return torch.from_numpy(index.search(unit.numpy(), k)[1])

    return search


def _by_pynndescent(pynndescent: ModuleType) -> Search:
    def search(unit: Tensor, k: int) -> Tensor:
        n_kept = min(max(k, _LEAST_KEPT), len(unit))
        with warnings.catch_warnings():
            # Where some are not found, the exact search decides.
            warnings.filterwarnings("ignore", message="Failed to correctly find n_neighbors")
            index = pynndescent.NNDescent(
                unit.numpy(), metric="cosine", n_neighbors=n_kept, random_state=0
            )
        return torch.from_numpy(index.neighbor_graph[0]).long()

    return search


# The first that can be imported is used.
_LIBRARIES: dict[str, Callable[[ModuleType], Search]] = {
    "faiss": _by_faiss,
    "pynndescent": _by_pynndescent,
}


def _approximate_search() -> Search | None:
    """The search of an installed library; None where there is none, or none can be loaded."""
    for name, search in _LIBRARIES.items():
        try:
            return search(import_module(name))
        except (ImportError, OSError, RuntimeError):
            continue
    return None


def approximate_neighbors(vectors: Tensor, k: int, search: Search) -> Tensor:
    """About the k samples of largest cosine with each sample, itself left out, int64 ``(n, k)``.

    Nearest first. A sample for which fewer than k others are found is searched for exactly.

    Args:
        vectors: ``(n, d)``; a row of zeros has cosine 0 with every other.
        k: Neighbours per sample, below n.
        search: Of a library.
    """
    found = search(unit_rows(vectors.float()).cpu(), k + 1)  # one more: a sample finds itself
    is_other = (found >= 0) & (found != torch.arange(len(found))[:, None])
    order = (~is_other).byte().argsort(dim=1, stable=True)[:, :k]
    found, is_other = found.gather(1, order), is_other.gather(1, order)
    short = (~is_other.all(dim=1)).nonzero()[:, 0]
    if len(short):
        found[short] = exact_neighbors(vectors, short, k)
    return found


# With more samples than this every pair is much work, which a library saves …
_EXACT_UP_TO = 50_000
# … and with more than this it is too much: a million samples would take 1e12 products.
_EXACT_AT_MOST = 200_000


@dataclass(frozen=True)
class NeighborPairs:
    """Each sample and one of its neighbours, another one every epoch.

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
    samples, tile by tile on the vectors' device. Beyond, faiss is used, or else pynndescent, on the
    CPU, and some neighbours are missed; the same vectors give the same answer. Where neither is
    installed the search stays exact up to 200,000 samples, and takes time with their square.

    Args:
        vectors: ``(n, d)``, finite, of any real type; a row of zeros has cosine 0 with every other.
        k: Neighbours per sample, below n.

    Raises:
        ImportError: More than 200,000 samples, and neither library is installed.

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
    search = _approximate_search() if n > _EXACT_UP_TO else None
    if search is not None:
        return approximate_neighbors(vectors, k, search)
    if n > _EXACT_AT_MOST:
        raise ImportError(
            f"the neighbours of {n:,} samples need faiss or pynndescent; install them with: "
            "pip install faiss-cpu pynndescent"
        )
    return exact_neighbors(vectors, torch.arange(n), k)
