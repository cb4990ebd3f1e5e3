"""The losses of a batch that is spread over processes: each computes the rows of its own samples.

Every process calls the same function with its part of the batch. The value is the loss of the whole
batch, in every process; the gradient is that of the process's own rows, with all others as
negatives. Averaged over processes, as DDP does, it is the gradient of one process with all.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from nonneg.losses.distributed import (
    check_same_shapes,
    gathered,
    has_processes,
    summed,
    with_mean_value,
)
from nonneg.losses.info_nce import anchor_losses, info_nce, scaled_pairs
from nonneg.losses.pair_rows import PairRows, check_pairs, pair_mean
from nonneg.losses.rows import at_least_float32, check_two_views
from nonneg.losses.spectral import spectral_contrastive


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
    check_pairs(len(z_a), weights=weights, groups=groups)
    with torch.autocast(z_a.device.type, enabled=False):
        own = scaled_pairs(z_a, z_b, temperature=temperature, groups=groups)
        everyone = _of_all_processes(own)
        own = own.numbered_from(dist.get_rank() * len(z_a))
        losses = anchor_losses(own, everyone, negatives=negatives, same_group=same_group)
        share = None if weights is None else summed(weights.sum()) / dist.get_world_size()
        return with_mean_value(pair_mean(losses, weights, total=share))


def spectral_contrastive_across(z_a: Tensor, z_b: Tensor) -> Tensor:
    """``spectral_contrastive`` of the whole batch, each process computing its own rows.

    Processes exchange the smaller of all rows and one ``(d, d)`` matrix.

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
        z = torch.cat([z_a, z_b])  # (2n, d)
        n_rows = len(z) * dist.get_world_size()
        if z.shape[1] < n_rows:
            squares = ((z @ summed(z.T @ z)) * z).sum()
        else:
            squares = (z @ gathered(z).flatten(0, 1).T).square().sum()
        partners = (z_a * z_b).sum(1)  # (n,)
        itself = z.square().sum(1)  # (2n,)
        others = squares - itself.square().sum() - 2 * partners.square().sum()
        return with_mean_value(-2 * partners.mean() + others / (len(z) * (n_rows - 2)))


def _of_all_processes(own: PairRows) -> PairRows:
    rows = gathered(own.rows).flatten(0, 1)
    numbers = torch.arange(len(rows) // 2, device=rows.device)
    if own.groups is own.numbers:
        return PairRows(rows, numbers, numbers)
    return PairRows(rows, numbers, gathered(own.groups).flatten())
