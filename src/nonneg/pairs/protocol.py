"""The ``Pairs`` protocol: a function from a batch to two views of it, and its random draws."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nonneg.data.dataset import Data

# Odd constants of the splitmix64 finaliser (Steele, Lea and Flood 2014).
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_WORD = 1 << 64


@dataclass(frozen=True)
class Draws:
    """A table of random numbers, computed where it is read: a function, not a state.

    Each number depends on seed, epoch, sample, stream and column, and on nothing else: not on the
    other samples of the batch, nor on how many numbers are asked for.

    Args:
        seed: Of the run; from −2⁶³ to 2⁶³ − 1.
        epoch: Counted from 0.
        indices: Numbers of the samples, int64 ``(n,)``; results live on their device.

    Example:
        >>> first = Draws(seed=0, epoch=3, indices=torch.tensor([5, 9])).uniform(4)
        >>> second = Draws(seed=0, epoch=3, indices=torch.tensor([9, 7, 5])).uniform(4)
        >>> torch.equal(first[0], second[2]), torch.equal(first[1], second[0])
        (True, True)
    """

    seed: int
    epoch: int
    indices: Tensor

    def __post_init__(self) -> None:
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"seed {self.seed} does not fit in 64 bits; choose a smaller one")
        if self.indices.ndim != 1 or self.indices.dtype.is_floating_point:
            raise ValueError(
                f"indices must be whole numbers of shape (n,), got {self.indices.dtype} of shape "
                f"{tuple(self.indices.shape)}"
            )

    def uniform(self, n: int, *, stream: int = 0) -> Tensor:
        """Numbers in [0, 1), float32 ``(len(indices), n)``; another stream gives other numbers."""
        # Each 64 bits give two numbers: the highest 24 of each half, as many as a float32 holds.
        bits = self._bits((n + 1) // 2, stream)
        both = torch.stack([_shift_right(bits, 40), (bits >> 8) & 0xFFFFFF], dim=2)
        return both.flatten(1)[:, :n].float() * 2.0**-24

    def normal(self, n: int, *, stream: int = 0) -> Tensor:
        """Standard normal numbers, float32 ``(len(indices), n)``."""
        # Box and Muller (1958): two uniform numbers give two normal ones.
        n_pairs = (n + 1) // 2
        pairs = self.uniform(2 * n_pairs, stream=stream).unflatten(1, (n_pairs, 2))
        # 1 - u lies in (0, 1], so that the logarithm is finite.
        radius = (-2 * torch.log1p(-pairs[..., 0])).sqrt()
        angle = 2 * math.pi * pairs[..., 1]
        both = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=2)
        return both.flatten(1)[:, :n]

    def integers(self, high: Tensor | int, *, stream: int = 0) -> Tensor:
        """One whole number in [0, high) per sample, int64 ``(len(indices),)``.

        Args:
            high: At most 2³¹, for all samples or one for each, ``(len(indices),)``.
            stream: Another stream gives other numbers.
        """
        # 31 bits times high, shifted back: whole numbers only, so the same on every device.
        return (_shift_right(self._bits(1, stream)[:, 0], 33) * high) >> 31

    def _bits(self, n: int, stream: int) -> Tensor:
        key = _mixed_number(self.seed)
        for part in (self.epoch, stream):
            key = _mixed_number(key + 2 * part + 1)
        rows = _mixed(_mixed(self.indices.long()) ^ _signed(key))
        columns = torch.arange(1, n + 1, device=self.indices.device) * _signed(_GOLDEN)
        return _mixed(rows[:, None] + columns)


def _mixed(bits: Tensor) -> Tensor:
    """Each bit of the input moves each bit of the output, int64 as the input."""
    bits = bits + _signed(_GOLDEN)
    bits = bits.bitwise_xor_(_shift_right(bits, 30)).mul_(_signed(_MIX_1))
    bits = bits.bitwise_xor_(_shift_right(bits, 27)).mul_(_signed(_MIX_2))
    return bits.bitwise_xor_(_shift_right(bits, 31))


def _mixed_number(bits: int) -> int:
    """The same for one number, where a tensor would take more time than the arithmetic."""
    bits = (bits + _GOLDEN) % _WORD
    bits = (bits ^ (bits >> 30)) * _MIX_1 % _WORD
    bits = (bits ^ (bits >> 27)) * _MIX_2 % _WORD
    return bits ^ (bits >> 31)


def _signed(bits: int) -> int:
    """The int64 with these 64 bits: torch has no arithmetic without sign."""
    return bits - _WORD if bits >= _WORD // 2 else bits


def _shift_right(bits: Tensor, by: int) -> Tensor:
    """Logical shift: torch shifts the sign in, the mask takes it out again."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


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
    """The two views of a batch, checked: misaligned rows would pair unrelated samples.

    Raises:
        TypeError: For anything but two tensors.
        ValueError: For tensors that are not one row per sample each, alike in shape.
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

    A ``Pairs`` with a ``prepare`` method is used like this: the data set's ``fetch`` is not called,
    and ``batch.inputs`` is what ``prepare`` returned. Draws are the same in both places.
    """

    def prepare(self, data: Data, indices: Tensor, draws: Draws) -> Tensor:
        """What ``batch.inputs`` shall be for these samples, ``(n, ...)``, on the CPU.

        Args:
            data: The data set.
            indices: Sample numbers, int64 ``(n,)``.
            draws: Of these samples.
        """
        ...
