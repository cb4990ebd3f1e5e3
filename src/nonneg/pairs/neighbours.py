"""Pairs of nearest neighbours by cosine, exact or approximate."""

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
        k: Neighbours a sample, below n.

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


# A group has about this many samples; a sample looks into so many of the groups nearest to it.
_GROUP_SIZE = 256
_N_NEAR = 24
# k-means: samples a group to learn from, and rounds.
_SAMPLES_A_GROUP = 32
_N_ROUNDS = 8
_GROUP_ENTRIES = 1 << 24  # numbers held at once: 64 MB of float32
_BLOCK_ROWS = 1 << 17


def approximate_neighbors(vectors: Tensor, k: int) -> Tensor:
    """About the k samples of largest cosine with each sample, itself left out, int64 ``(n, k)``.

    Samples are put into groups of about 256 by k-means, and each looks into the 24 groups whose
    centres are nearest to it; neighbours in other groups are missed. Nearest first. The same
    vectors give the same answer. Where faiss is installed its inverted lists do the same, on the
    CPU.

    Args:
        vectors: ``(n, d)``; a row of zeros has cosine 0 with every other.
        k: Neighbours a sample, below n.

    Example:
        >>> three_kinds = torch.eye(3).repeat(4, 1)
        >>> sorted(approximate_neighbors(three_kinds, 3)[0].tolist())
        [3, 6, 9]
    """
    faiss = _faiss()
    # One more, since a sample finds itself.
    found = _by_groups(vectors, k + 1) if faiss is None else _by_faiss(faiss, vectors, k + 1)
    is_other = (found >= 0) & (found != torch.arange(len(found))[:, None])
    order = (~is_other).byte().argsort(dim=1, stable=True)[:, :k]
    found, is_other = found.gather(1, order), is_other.gather(1, order)
    short = (~is_other.all(dim=1)).nonzero()[:, 0]
    if len(short):
        found[short] = exact_neighbors(vectors, short, k)
    return found


def _by_groups(vectors: Tensor, k: int) -> Tensor:
    """The k nearest of each sample's groups, itself among them ``(n, k)``; -1 where too few."""
    n, device = len(vectors), vectors.device
    centers = _centers(vectors, max(1, n // _GROUP_SIZE))  # (groups, d)
    nearest = _nearest_groups(vectors, centers, _N_NEAR)
    group = torch.cat([near[:, 0] for near in nearest])
    members = group.argsort(stable=True).split(_sizes(group, centers))
    found = torch.empty(n, k, dtype=torch.int64)
    for number, near in enumerate(nearest):
        first = number * _BLOCK_ROWS
        best = torch.full((len(near), k), -torch.inf, device=device)
        numbers = torch.full((len(near), k), -1, device=device)
        # Who looks into group 0, into group 1, …, as rows of this block.
        asking = near.flatten().argsort(stable=True) // near.shape[1]
        for inside, rows in zip(members, asking.split(_sizes(near, centers)), strict=True):
            if not len(inside):
                continue
            candidates = unit_rows(vectors[inside])
            for some in rows.split(max(1, _GROUP_ENTRIES // len(inside))):
                cosine = vectors[first + some] @ candidates.T  # times the length of the row
                top = cosine.topk(min(k, len(inside)), dim=1)
                values = torch.cat([best[some], top.values], dim=1)
                known = torch.cat([numbers[some], inside[top.indices]], dim=1)
                best[some], places = values.topk(k, dim=1)
                numbers[some] = known.gather(1, places)
        found[first : first + len(near)] = numbers.cpu()
    return found


def _nearest_groups(vectors: Tensor, centers: Tensor, k: int) -> list[Tensor]:
    """The k nearest groups of each sample, int64 ``(rows, k)`` for each block, nearest first."""
    k, step = min(k, len(centers)), max(1, _GROUP_ENTRIES // len(centers))

    def nearest(part: Tensor) -> Tensor:
        cosine = part @ centers.T  # times the length of the row
        # The largest alone is found many times faster than a few sorted ones.
        return cosine.argmax(1, keepdim=True) if k == 1 else cosine.topk(k, dim=1).indices

    return [
        torch.cat([nearest(part) for part in block.split(step)])
        for block in vectors.split(_BLOCK_ROWS)
    ]


def _sizes(groups: Tensor, centers: Tensor) -> list[int]:
    return torch.bincount(groups.flatten(), minlength=len(centers)).tolist()


def _centers(vectors: Tensor, n_groups: int) -> Tensor:
    """Directions in whose middle samples lie, ``(n_groups, d)``: k-means by cosine on some."""
    unit = unit_rows(vectors[_some(len(vectors), n_groups).to(vectors.device)])
    centers = unit[:n_groups].clone()
    for _ in range(_N_ROUNDS):
        nearest = torch.cat([near.flatten() for near in _nearest_groups(unit, centers, 1)])
        sums = torch.zeros_like(centers).index_add_(0, nearest, unit)
        # A centre that no sample is nearest to stays where it is.
        is_used = torch.bincount(nearest, minlength=n_groups) > 0
        centers[is_used] = unit_rows(sums[is_used])
    return centers


def _some(n: int, n_groups: int) -> Tensor:
    """Numbers of the samples that groups are learnt from, in random order."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    return order[: n_groups * _SAMPLES_A_GROUP]


def _by_faiss(faiss: ModuleType, vectors: Tensor, k: int) -> Tensor:
    n, n_columns = vectors.shape
    unit = unit_rows(vectors.float()).cpu()
    n_groups = max(1, n // _GROUP_SIZE)
    centers = faiss.IndexFlatIP(n_columns)
    index = faiss.IndexIVFFlat(centers, n_columns, n_groups, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.train(unit[_some(n, n_groups)].numpy())
    index.add(unit.numpy())
    index.nprobe = _N_NEAR
    return torch.from_numpy(index.search(unit.numpy(), k)[1])


def _faiss() -> ModuleType | None:
    """The faiss library; None where it is not installed or cannot be loaded."""
    try:
        return import_module("faiss")
    except (ImportError, OSError, RuntimeError):
        return None


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
    :func:`nonneg.pairs.neighbours.approximate_neighbors`, by faiss where it is installed.

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
