"""How do batches reach the device? Fetched or decoded, ahead of time if workers are asked for."""

import traceback
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from nonneg.data import Data
from nonneg.pairs import Batch, Draws
from nonneg.training.task import Prepare


class _Failure(NamedTuple):
    """What went wrong in a worker, which would bury the sentence in its traceback."""

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
