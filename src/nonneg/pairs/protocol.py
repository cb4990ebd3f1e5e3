"""Which two things belong together? A ``Pairs`` is a function from a batch to two views of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from nonneg.data import Data
from nonneg.pairs.draws import Draws


@dataclass(frozen=True)
class Batch:
    """What a ``Pairs`` is given.

    Args:
        inputs: The samples ``(n, ...)``, on the training device, as the data set holds them; for
            ``PreparedPairs``, what ``prepare`` returned.
        indices: Their numbers in the data set, int64 ``(n,)``, on the training device.
        draws: Random numbers that depend on seed, epoch and sample, and on nothing else.
        fetch: Other samples of the data set by number, for pairs of two different samples.
    """

    inputs: Tensor
    indices: Tensor
    draws: Draws
    fetch: Callable[[Tensor], Tensor]


class Pairs(Protocol):
    """Two views of each sample of a batch; any function of this shape will do.

    Example:
        >>> import torch
        >>> def with_noise(batch: Batch) -> tuple[Tensor, Tensor]:
        ...     noise = batch.draws.normal(batch.inputs.shape[1])
        ...     return batch.inputs, batch.inputs + 0.1 * noise
        >>> vectors, numbers = torch.eye(3), torch.arange(3)
        >>> batch = Batch(vectors, numbers, Draws(0, 0, numbers), fetch=vectors.__getitem__)
        >>> [view.shape for view in with_noise(batch)]
        [torch.Size([3, 3]), torch.Size([3, 3])]
    """

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Two tensors ``(n, ...)`` whose rows i belong together: what the encoder is given."""
        ...


class PreparedPairs(Pairs, Protocol):
    """Pairs of which a part is done where the data is read, in a worker process if there are any.

    A ``Pairs`` with a ``prepare`` method is used so: the data set's ``fetch`` is not called, and
    ``batch.inputs`` is what ``prepare`` returned. Draws are the same in both places.
    """

    def prepare(self, data: Data, indices: Tensor, draws: Draws) -> Tensor:
        """What ``batch.inputs`` shall be for these samples, ``(n, ...)``, on the CPU.

        Args:
            data: The data set.
            indices: Sample numbers, int64 ``(n,)``.
            draws: Of these samples.
        """
        ...
