"""How is a part of a data set taken, and the same part every time? Views by sample number."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from nonneg.data.dataset import Data


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
    """The data without ``n`` random samples, and these samples, both in their first order.

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
