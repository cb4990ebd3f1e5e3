"""How do batches reach the device? Fetched or decoded, ahead of time if workers are asked for."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from nonneg.data import Data
from nonneg.pairs import Batch, Draws, Pairs


class _Fetched(Dataset[Tensor]):
    """Batch number → its inputs; what worker processes run."""

    def __init__(
        self, data: Data, pairs: Pairs, batches: list[Tensor], seed: int, epoch: int
    ) -> None:
        self.data, self.pairs, self.batches = data, pairs, batches
        self.seed, self.epoch = seed, epoch

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Tensor:
        indices = self.batches[number]
        prepare = getattr(self.pairs, "prepare", None)
        if prepare is None:
            return self.data.fetch(indices)
        prepared: Tensor = prepare(self.data, indices, Draws(self.seed, self.epoch, indices))
        return prepared


def loaded_batches(
    data: Data,
    pairs: Pairs,
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
        pairs: Asked to ``prepare`` the inputs in the worker, if it can.
        batches: The sample numbers of each batch.
        seed: Of the run.
        epoch: Counted from 0.
        n_workers: Processes that fetch; 0 fetches here.
        device: Where the batches go.
    """
    fetched = _Fetched(data, pairs, batches, seed, epoch)
    loader = DataLoader(
        fetched, batch_size=None, num_workers=n_workers, pin_memory=device.type == "cuda"
    )
    for indices, inputs in zip(batches, loader, strict=True):
        indices = indices.to(device, non_blocking=True)
        yield Batch(
            inputs=inputs.to(device, non_blocking=True),
            indices=indices,
            draws=Draws(seed, epoch, indices),
            fetch=lambda numbers: data.fetch(numbers.cpu()).to(device),
        )
