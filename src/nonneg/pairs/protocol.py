"""Which two things belong together? A ``Pairs`` is a function from a batch to two views of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from nonneg.pairs.draws import Draws


@dataclass(frozen=True)
class Batch:
    """What a ``Pairs`` is given.

    Args:
        inputs: The samples ``(n, ...)``, on the training device, as the data set holds them.
        indices: Their numbers in the data set, int64 ``(n,)``, on the training device.
        draws: Random numbers that depend on seed, epoch and sample, and on nothing else.
        fetch: Other samples of the data set by number, for pairs of two different samples.
    """

    inputs: Tensor
    indices: Tensor
    draws: Draws
    fetch: Callable[[Tensor], Tensor]


class Pairs(Protocol):
    """Two views of each sample of a batch; any function of this shape will do."""

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Two tensors ``(n, ...)`` whose rows i belong together: what the encoder is given."""
        ...
