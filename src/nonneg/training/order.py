"""Which samples come in which batch? Decided by seed and epoch alone, whatever the machine."""

import torch
from torch import Tensor

from nonneg.training.settings import LoopSettings


def epoch_batches(
    n_samples: int, batch_size: int, *, seed: int, epoch: int, rank: int = 0, n_ranks: int = 1
) -> list[Tensor]:
    """The sample numbers of each batch of an epoch, int64; an incomplete last batch is left out.

    Args:
        n_samples: In the data set.
        batch_size: Over all processes together.
        seed: Of the run.
        epoch: Counted from 0.
        rank: Which process asks; it gets its share of every batch.
        n_ranks: How many there are.

    Example:
        >>> whole = epoch_batches(10, 4, seed=0, epoch=0)
        >>> shares = [epoch_batches(10, 4, seed=0, epoch=0, rank=r, n_ranks=2) for r in (0, 1)]
        >>> len(whole), torch.equal(whole[1], torch.cat([shares[0][1], shares[1][1]]))
        (2, True)
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order = torch.randperm(n_samples, generator=generator)
    n_batches = n_samples // batch_size
    batches = order[: n_batches * batch_size].view(n_batches, batch_size)
    share = batch_size // n_ranks
    return list(batches[:, rank * share : (rank + 1) * share])


def check_batch(n_samples: int, settings: LoopSettings, *, n_ranks: int) -> None:
    """Raise a clear error unless the data fills one step and the processes can share a batch."""
    if n_samples < settings.batch_size:
        raise ValueError(
            f"the data has {n_samples} samples, fewer than training.batch_size = "
            f"{settings.batch_size}; lower it or give more data"
        )
    if n_samples < settings.batch_size * settings.accumulate:
        raise ValueError(
            f"the data has {n_samples} samples, fewer than training.batch_size × "
            f"training.accumulate = {settings.batch_size * settings.accumulate}; lower one of them"
        )
    if settings.batch_size % n_ranks:
        raise ValueError(
            f"training.batch_size = {settings.batch_size} cannot be shared by {n_ranks} processes; "
            f"make it a multiple of {n_ranks}"
        )
