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


def two_views(pairs: Pairs, batch: Batch) -> tuple[Tensor, Tensor]:
    """What pairs give for a batch, looked at first: rows that do not fit would pair strangers.

    Raises:
        TypeError: For anything but two tensors.
        ValueError: For tensors that are not a row a sample each, alike in shape.
    """
    called = getattr(pairs, "__qualname__", type(pairs).__qualname__)
    views = pairs(batch)
    if not isinstance(views, tuple | list) or [isinstance(v, Tensor) for v in views] != [True] * 2:
        parts = views if isinstance(views, tuple | list) else [views]
        got = ", ".join(type(part).__name__ for part in parts)
        raise TypeError(f"{called} must give two tensors, the views of a batch, got {got}")
    first, second = views
    if first.shape != second.shape or len(first) != len(batch.indices):
        raise ValueError(
            f"{called} must give two views of the same shape, a row for each of the "
            f"{len(batch.indices)} samples, got {tuple(first.shape)} and {tuple(second.shape)}"
        )
    return first, second


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
