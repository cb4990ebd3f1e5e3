"""Losses of a batch that is spread over processes, and rows gathered with their gradient.

Every process calls the same function with its part of the batch. The value is the loss of the whole
batch, in every process; the gradient is that of the process's own rows, with all others as
negatives. Averaged over processes, as DDP does, it is the gradient of one process with all.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from nonneg.inference import has_processes
from nonneg.losses.checks import check_pairs, check_temperature, check_two_views
from nonneg.losses.info_nce import (
    NEGATIVES,
    SAME_GROUP,
    PairRows,
    anchor_losses,
    info_nce,
    pair_mean,
    scaled_pairs,
)
from nonneg.losses.spectral import spectral_contrastive
from nonneg.metrics.inputs import checked_choice
from nonneg.rows import at_least_float32, power_of_two


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
    # The sum is made in place, and so in a copy: the tensor may still be read elsewhere.
    total = z.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


def info_nce_across(
    z_a: Tensor,
    z_b: Tensor,
    *,
    temperature: float | Tensor,
    negatives: str = "both",
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    same_group: str = "ignored",
) -> Tensor:
    """``info_nce`` of the whole batch, each process computing the rows of its own pairs.

    Args:
        z_a: ``(n, d)``, with the same n and d in every process.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.
        temperature: As for ``info_nce``; the same in every process.
        negatives: As for ``info_nce``.
        weights: ``(n,)``, at least 0; in every process or in none.
        groups: ``(n,)``; a number means the same group in every process.
        same_group: As for ``info_nce``.

    Without processes it is ``info_nce`` itself.

    Example:
        >>> info_nce_across(torch.ones(2, 4), torch.ones(2, 4), temperature=0.2)
        tensor(1.0986)
    """
    if not has_processes():
        return info_nce(
            z_a,
            z_b,
            temperature=temperature,
            negatives=negatives,
            weights=weights,
            groups=groups,
            same_group=same_group,
        )
    check_two_views(z_a, z_b, n_processes=dist.get_world_size())
    check_same_shapes(z_a)
    check_temperature(temperature)
    check_pairs(len(z_a), weights=weights, groups=groups)
    checked_choice(negatives, NEGATIVES, "negatives")
    checked_choice(same_group, SAME_GROUP, "same_group")
    with torch.autocast(z_a.device.type, enabled=False):
        own = scaled_pairs(z_a, z_b, temperature=temperature, groups=groups)
        everyone = _of_all_processes(own)
        own = own.numbered_from(dist.get_rank() * len(z_a))
        losses = anchor_losses(own, everyone, negatives=negatives, same_group=same_group)
        share = None if weights is None else summed(weights.sum()) / dist.get_world_size()
        return with_mean_value(pair_mean(losses, weights, total=share))


def spectral_contrastive_across(z_a: Tensor, z_b: Tensor) -> Tensor:
    """``spectral_contrastive`` of the whole batch, each process computing its own rows.

    Processes exchange all rows, or one ``(d, d)`` matrix where that is a quarter of them or less.

    Args:
        z_a: ``(n, d)``, with the same n and d in every process.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.

    Without processes it is ``spectral_contrastive`` itself.

    Example:
        >>> spectral_contrastive_across(torch.eye(2), torch.eye(2))
        tensor(-2.)
    """
    if not has_processes():
        return spectral_contrastive(z_a, z_b)
    check_two_views(z_a, z_b, n_processes=dist.get_world_size())
    check_same_shapes(z_a)
    with torch.autocast(z_a.device.type, enabled=False):
        z_a, z_b = at_least_float32(z_a), at_least_float32(z_b)
        largest = torch.cat([z_a, z_b]).detach().abs().amax()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        scale = power_of_two(largest)
        a, b = z_a / scale, z_b / scale
        z = torch.cat([a, b])  # (2n, d)
        n_rows = len(z) * dist.get_world_size()
        partners = (a * b).sum(1)  # (n,)
        if n_rows > 4 * z.shape[1]:
            squares = ((z @ summed(z.T @ z)) * z).sum()
            itself = z.square().sum(1)  # (2n,)
            others = squares - itself.square().sum() - 2 * partners.square().sum()
        else:
            gram = (z @ gathered(z).flatten(0, 1).T).unflatten(1, (-1, 2, len(a)))
            is_own = torch.eye(len(a), dtype=torch.bool, device=z.device).repeat(2, 1)[:, None]
            gram[:, dist.get_rank()] = gram[:, dist.get_rank()].where(~is_own, 0.0)
            others = gram.square().sum()
        attraction = partners.mean() * scale * scale
        repulsion = others / (len(z) * (n_rows - 2)) * scale * scale * scale * scale
        return with_mean_value(repulsion - 2 * attraction)


def _of_all_processes(own: PairRows) -> PairRows:
    rows = gathered(own.rows).flatten(0, 1)
    numbers = torch.arange(len(rows) // 2, device=rows.device)
    if own.groups is own.numbers:
        return PairRows(rows, numbers, numbers)
    return PairRows(rows, numbers, gathered(own.groups).flatten())
