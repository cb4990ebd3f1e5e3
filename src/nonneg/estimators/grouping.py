"""In which order are pairs seen, if some are about the same thing? Spread over the epoch."""

from collections.abc import Iterator

import torch
from torch import Tensor


def grouped_batches(
    groups: Tensor, batch_size: int, n_steps: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """The sample numbers of each step, int64 ``(batch_size,)``; at least two groups in each.

    Each epoch has an order of its own; what is left over at its end waits a turn, and so does a
    batch of one group, which has nothing to tell apart.

    Args:
        groups: The number of each sample's group ``(n,)``, at least two of them.
        batch_size: From 2 to n.
        n_steps: Batches in all.
        generator: Draws the orders.
    """
    n_given = 0
    while n_given < n_steps:
        for batch in spread_order(groups, generator).split(batch_size):
            several = bool((groups[batch] != groups[batch[0]]).any())
            if len(batch) == batch_size and several and n_given < n_steps:
                n_given += 1
                yield batch


def spread_order(groups: Tensor, generator: torch.Generator) -> Tensor:
    """All samples in random order, the members of each group far apart, int64 ``(n,)``.

    The epoch is cut into as many parts as a group has members, and one of them stands at a random
    place of each part. So a batch seldom holds two captions of one image, which would be lost as
    negatives of each other, and no image comes up more often than the others.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> order = spread_order(torch.tensor([0, 0, 1, 1, 2, 2]), generator)
        >>> sorted((order // 2)[:3].tolist())  # the first half has one of each group
        [0, 1, 2]
    """
    n = len(groups)
    shuffled = torch.randperm(n, generator=generator)
    by_group = shuffled[groups[shuffled].argsort(stable=True)]
    _, sizes = groups[by_group].unique_consecutive(return_counts=True)
    first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    part = torch.arange(n) - first  # 0, 1, … among the members of a group
    place = (part + torch.rand(n, generator=generator, dtype=torch.float64)) / (
        sizes.repeat_interleave(sizes)
    )
    return by_group[place.argsort()]
