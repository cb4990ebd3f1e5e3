"""Which of all samples are nearest to some of them? All cosines, a tile at a time."""

import torch
from torch import Tensor

from nonneg.metrics.rows import unit_rows

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
