"""What is a data set here? Samples that can be fetched by number, with labels where they exist."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor


class Data(Protocol):
    """Samples by number. Everything that trains, embeds or measures reads data through this.

    Images are ``uint8 (n, c, h, w)`` or floats in [0, 1] of the same shape; vectors are floats
    ``(n, d)``.
    """

    @property
    def name(self) -> str:
        """What the data is called in tables and run folders."""
        ...

    @property
    def labels(self) -> Tensor | None:
        """Class numbers, int64 ``(n,)``, or None."""
        ...

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of class 0, 1, …; empty where classes have no names."""
        ...

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample: ``(c, h, w)`` or ``(d,)``."""
        ...

    def __len__(self) -> int:
        """How many samples there are."""
        ...

    def fetch(self, indices: Tensor) -> Tensor:
        """The samples with these numbers, ``(len(indices), *sample_shape)``, on the CPU."""
        ...


@dataclass(frozen=True)
class ArrayData:
    """Samples that are held in memory.

    Args:
        inputs: ``(n, c, h, w)`` images or ``(n, d)`` vectors.
        labels: int64 ``(n,)``.
        name: What to call it in tables.
        class_names: One for each class number.

    Example:
        >>> data = ArrayData(torch.eye(3), labels=torch.tensor([0, 1, 1]))
        >>> len(data), data.sample_shape
        (3, (3,))
        >>> data.fetch(torch.tensor([2]))
        tensor([[0., 0., 1.]])
    """

    inputs: Tensor
    labels: Tensor | None = None
    name: str = "array"
    class_names: tuple[str, ...] = field(default=())

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.inputs.shape[1:])

    def __len__(self) -> int:
        return len(self.inputs)

    def fetch(self, indices: Tensor) -> Tensor:
        """The samples with these numbers."""
        return self.inputs[indices]
