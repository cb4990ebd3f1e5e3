"""Data sets: samples fetched by number, with labels where they exist, and parts of them."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

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
    """The entry of a table for a split; ``ValueError`` for a split that it does not have.

    Example:
        >>> of_split({"train": 60000, "test": 10000}, "test")
        10000
    """
    if split not in table:
        raise ValueError(f"unknown split {split!r}; known: {', '.join(table)}")
    return table[split]


@runtime_checkable
class Takeable(Protocol):
    """Data that knows how to make a part of itself, of its own class."""

    def take(self, indices: Tensor) -> Data:
        """The samples with these numbers, as a data set."""
        ...


@dataclass(frozen=True)
class Subset:
    """Some samples of a data set; nothing is copied.

    Args:
        data: The whole.
        indices: Numbers in the whole, int64 ``(n,)``; sample i of the subset is ``indices[i]``.
    """

    data: Data
    indices: Tensor

    @property
    def name(self) -> str:
        """The name of the whole."""
        return self.data.name

    @cached_property
    def labels(self) -> Tensor | None:
        """Class numbers, int64 ``(n,)``, or None."""
        return None if self.data.labels is None else self.data.labels[self.indices]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The class names of the whole, so that label numbers keep their meaning."""
        return self.data.class_names

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.data.sample_shape

    def __len__(self) -> int:
        return len(self.indices)

    def fetch(self, indices: Tensor) -> Tensor:
        """The samples with these numbers of the subset."""
        return self.data.fetch(self.indices[indices])


def whole_of(data: Data) -> Data:
    """The data set that a subset, or a subset of one, is a part of; any other is its own whole.

    Example:
        >>> whole = ArrayData(torch.eye(3))
        >>> whole_of(Subset(Subset(whole, torch.tensor([0, 2])), torch.tensor([1]))) is whole
        True
    """
    while isinstance(data, Subset):
        data = data.data
    return data


def subset(data: Data, indices: Tensor) -> Data:
    """Some samples of a data set, of its own class where it has a ``take``, else a ``Subset``."""
    return data.take(indices) if isinstance(data, Takeable) else Subset(data, indices)


def permutation(n: int, *, seed: int) -> Tensor:
    """The numbers 0 to n-1 in a random order that never changes, int64 ``(n,)``.

    It is the order of the raw output of PCG64, which NumPy promises to keep in all versions, as
    it does not for shuffles.
    """
    keys = np.random.PCG64(seed).random_raw(n)
    return torch.from_numpy(np.argsort(keys, kind="stable"))


def split_off(data: Data, n: int, *, seed: int = 0) -> tuple[Data, Data]:
    """The data without ``n`` random samples, and these samples, both in their original order.

    The choice depends on ``len(data)``, ``n`` and ``seed`` only, never on a training seed.

    Example:
        >>> from nonneg.data import ArrayData
        >>> rest, held_out = split_off(ArrayData(torch.eye(5)), 2)
        >>> len(rest), len(held_out)
        (3, 2)
    """
    if not 1 <= n < len(data):
        raise ValueError(
            f"cannot split {n} samples off the {len(data)} of {data.name}; n must lie between 1"
            f" and {len(data) - 1}"
        )
    order = permutation(len(data), seed=seed)
    return subset(data, order[n:].sort().values), subset(data, order[:n].sort().values)


def as_tensor(array: Array) -> Tensor:
    """The same memory as a tensor, to be read only.

    Only what torch cannot read is copied: foreign byte orders, and rows or columns with negative
    strides.
    """
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    with warnings.catch_warnings():
        # Arrays that must not be written to are welcome: nothing here writes to its input.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


Samples = Tensor | NDArray[np.generic] | Data


def as_data(samples: Samples) -> Data:
    """A data set as it is; bare samples ``(n, ...)`` as one without labels.

    Example:
        >>> as_data(np.zeros((5, 3))).sample_shape
        (3,)
    """
    if isinstance(samples, np.ndarray):
        samples = as_tensor(samples)
    return ArrayData(samples) if isinstance(samples, Tensor) else samples
