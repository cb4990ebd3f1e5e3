"""Which negatives does a process see? Those of all processes, gathered with their gradient."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gathered(z: Tensor) -> Tensor:
    """The rows of all processes, in order of their ranks; ``z`` itself without processes.

    The gradient flows back to the process that a row came from, summed over all processes. If each
    process computes the loss of the whole batch, DDP's mean over processes then gives exactly the
    gradient of one process with the whole batch.

    Args:
        z: ``(n, d)``, with the same n and d in every process.

    Returns:
        ``(n_processes, n, d)``; one process gives ``(1, n, d)``.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return z[None]
    return _Gathered.apply(z)  # type: ignore[no-any-return, no-untyped-call]


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:  # noqa: ANN401
        parts = [torch.empty_like(z) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, z.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        total = gradient.contiguous()
        dist.all_reduce(total)
        return total[dist.get_rank()]
