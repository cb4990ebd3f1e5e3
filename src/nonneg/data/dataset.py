"""What is a data set here? Samples that can be fetched by number, with labels where they exist."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from torch import Tensor

T = TypeVar("T")


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
    """Samples that are held in one tensor, in memory or mapped from a file.

    Args:
        inputs: ``(n, c, h, w)`` images or ``(n, d)`` vectors; floats of another width are held as
            they are and fetched as float32.
        labels: int64 ``(n,)``.
        name: What to call it in tables.
        class_names: One for each class number.

    Example:
        >>> import torch
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

    def __post_init__(self) -> None:
        for name in ("inputs", "labels"):
            value = getattr(self, name)
            if not isinstance(value, Tensor) and not (name == "labels" and value is None):
                raise TypeError(
                    f"{name} must be a tensor, got {type(value).__name__}; wrap it in "
                    "torch.as_tensor"
                )

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.inputs.shape[1:])

    def __len__(self) -> int:
        return len(self.inputs)

    def fetch(self, indices: Tensor) -> Tensor:
        """The samples with these numbers, ``uint8`` or ``float32``."""
        samples = self.inputs[indices]
        return samples.float() if samples.is_floating_point() else samples


def of_split(table: Mapping[str, T], split: str) -> T:
    """What a table holds for a split; ``ValueError`` for a split that it does not have.

    Example:
        >>> of_split({"train": 60000, "test": 10000}, "test")
        10000
    """
    if split not in table:
        raise ValueError(f"unknown split {split!r}; known: {', '.join(table)}")
    return table[split]
