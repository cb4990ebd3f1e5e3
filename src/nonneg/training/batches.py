"""Batches: which samples come when, and how they reach the device."""

import traceback
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from nonneg.data.dataset import Data
from nonneg.pairs.protocol import Batch, Draws
from nonneg.training.settings import LoopSettings
from nonneg.training.task import Prepare


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
    """Raise an error unless the data fills one step and a batch divides among the processes."""
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


class _Failure(NamedTuple):
    """What went wrong in a worker, whose traceback would bury the message."""

    kind: type[Exception]
    sentence: str
    traceback: str


class _Fetched(Dataset[Tensor | _Failure]):
    """Batch number → its inputs; what worker processes run."""

    def __init__(
        self, data: Data, prepare: Prepare | None, batches: list[Tensor], seed: int, epoch: int
    ) -> None:
        self.data, self.prepare, self.batches = data, prepare, batches
        self.seed, self.epoch = seed, epoch

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Tensor | _Failure:
        try:
            return self._inputs(self.batches[number])
        except (ValueError, OSError) as error:
            if get_worker_info() is None:
                raise
            kind = OSError if isinstance(error, OSError) else ValueError
            return _Failure(kind, str(error), traceback.format_exc())

    def _inputs(self, indices: Tensor) -> Tensor:
        if self.prepare is None:
            return self.data.fetch(indices)
        return self.prepare(self.data, indices, Draws(self.seed, self.epoch, indices))


def loaded_batches(
    data: Data,
    prepare: Prepare | None,
    batches: list[Tensor],
    *,
    seed: int,
    epoch: int,
    n_workers: int,
    device: torch.device,
) -> Iterator[Batch]:
    """Each batch of an epoch, on the device.

    Args:
        data: Where samples come from.
        prepare: Makes the inputs of a batch, in the worker; None fetches samples as they are.
        batches: The sample numbers of each batch.
        seed: Of the run.
        epoch: Counted from 0.
        n_workers: Processes that fetch; 0 fetches here.
        device: Where the batches go.
    """
    fetched = _Fetched(data, prepare, batches, seed, epoch)
    loader = DataLoader(
        fetched, batch_size=None, num_workers=n_workers, pin_memory=device.type == "cuda"
    )
    for indices, inputs in zip(batches, loader, strict=True):
        if isinstance(inputs, _Failure):
            error = inputs.kind(inputs.sentence)
            error.add_note(f"in a worker:\n{inputs.traceback}")
            raise error
        indices = indices.to(device, non_blocking=True)
        yield Batch(
            inputs=inputs.to(device, non_blocking=True),
            indices=indices,
            draws=Draws(seed, epoch, indices),
            fetch=lambda numbers: data.fetch(numbers.cpu()).to(device),
        )
