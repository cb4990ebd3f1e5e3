"""How do batches reach the device? Fetched or decoded, ahead of time if workers are asked for."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from nonneg.data import Data
from nonneg.pairs import Batch, Draws
from nonneg.training.task import Prepare


class _Fetched(Dataset[Tensor | Exception]):
    """Batch number → its inputs; what worker processes run.

    What is wrong with a sample is given back, not raised: a worker would bury it in a traceback.
    """

    def __init__(
        self, data: Data, prepare: Prepare | None, batches: list[Tensor], seed: int, epoch: int
    ) -> None:
        self.data, self.prepare, self.batches = data, prepare, batches
        self.seed, self.epoch = seed, epoch

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Tensor | Exception:
        indices = self.batches[number]
        try:
            if self.prepare is None:
                return self.data.fetch(indices)
            return self.prepare(self.data, indices, Draws(self.seed, self.epoch, indices))
        except (ValueError, OSError) as error:
            return error


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
        if isinstance(inputs, Exception):
            raise inputs
        indices = indices.to(device, non_blocking=True)
        yield Batch(
            inputs=inputs.to(device, non_blocking=True),
            indices=indices,
            draws=Draws(seed, epoch, indices),
            fetch=lambda numbers: data.fetch(numbers.cpu()).to(device),
        )
