"""Which negatives does a process see? Those of all processes, gathered with their gradient."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gathered(z: Tensor) -> Tensor:
    """The rows of all processes, in order of their ranks; ``z`` itself without processes.

    The gradient flows back to the process that a row came from, summed over all processes. If each
    process computes the loss of the whole batch, or the mean over its own rows, DDP's mean over
    processes then gives exactly the gradient of one process with the whole batch.

    Args:
        z: ``(n, d)``, with the same n and d in every process.

    Returns:
        ``(n_processes, n, d)``; one process gives ``(1, n, d)``.
    """
    if not has_processes():
        return z[None]
    return _Gathered.apply(z)  # type: ignore[no-any-return, no-untyped-call]


def summed(z: Tensor) -> Tensor:
    """The sum of a tensor over all processes, with its gradient; ``z`` itself without processes.

    Args:
        z: Of any shape, the same in every process.
    """
    if not has_processes():
        return z
    return _Summed.apply(z)  # type: ignore[no-any-return, no-untyped-call]


def centred(z: Tensor) -> Tensor:
    """Rows less the mean row of all processes, with its gradient.

    Args:
        z: ``(n, d)``, with the same n and d in every process.

    Example:
        >>> centred(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
        tensor([[-1.,  0.],
                [ 1.,  0.]])
    """
    n_processes = dist.get_world_size() if has_processes() else 1
    return z - summed(z.mean(dim=0)) / n_processes


def with_mean_value(loss: Tensor) -> Tensor:
    """The mean of a loss over all processes as value; as gradient that of this process alone.

    DDP averages the gradients, so that both are of the whole batch in the end.

    Args:
        loss: ``()``.
    """
    if not has_processes():
        return loss
    return _MeanValue.apply(loss)  # type: ignore[no-any-return, no-untyped-call]


def has_processes() -> bool:
    """Whether this process belongs to a group of processes."""
    return dist.is_available() and dist.is_initialized()


def check_same_shapes(z: Tensor) -> None:
    """Raise the same clear error in every process unless all have tensors of one shape.

    Args:
        z: ``(n, d)``.
    """
    if not has_processes():
        return
    mine = torch.tensor(z.shape, device=z.device)
    shapes = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(shapes, mine)
    found = [tuple(shape.tolist()) for shape in shapes]
    if len(set(found)) > 1:
        raise ValueError(
            f"processes have batches of different shapes: {', '.join(map(str, found))}; "
            "give every process the same number of pairs"
        )


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:  # noqa: ANN401
        parts = [torch.empty_like(z) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, z.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total[dist.get_rank()]


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:  # noqa: ANN401
        return _sum(z)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        return _sum(gradient)


class _MeanValue(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: Tensor) -> Tensor:  # noqa: ANN401
        return _sum(loss) / dist.get_world_size()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        return gradient


def _sum(z: Tensor) -> Tensor:
    # The sum is made in place: in a copy, for the tensor may still be read by others.
    total = z.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total
