"""Random numbers that belong to a sample: the same for a (seed, epoch, sample), wherever drawn."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Odd 64-bit constants of the splitmix64 finaliser, as signed integers: torch has no uint64 arithmetic.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


@dataclass(frozen=True)
class Draws:
    """A table of random numbers, computed where it is read: a function, not a state.

    Args:
        seed: Of the run.
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

    def uniform(self, n: int, *, stream: int = 0) -> Tensor:
        """Numbers in [0, 1), float32 ``(len(indices), n)``; another stream gives other numbers."""
        return _to_unit_interval(self._bits(n, stream))

    def normal(self, n: int, *, stream: int = 0) -> Tensor:
        """Standard normal numbers, float32 ``(len(indices), n)``."""
        first, second = self.uniform(2 * n, stream=stream).chunk(2, dim=1)
        # 1 - u lies in (0, 1], so that the logarithm is finite.
        return (-2 * torch.log1p(-first)).sqrt() * torch.cos(2 * math.pi * second)

    def integers(self, high: Tensor | int, *, stream: int = 0) -> Tensor:
        """One whole number in [0, high) a sample, int64 ``(len(indices),)``."""
        unit = self.uniform(1, stream=stream)[:, 0].double()
        return (unit * high).long()

    def _bits(self, n: int, stream: int) -> Tensor:
        key = _mix(torch.tensor(self.seed, dtype=torch.int64))
        for part in (self.epoch, stream):
            key = _mix(key + part * 2 + 1)
        rows = _mix(key.to(self.indices.device) ^ _mix(self.indices.long()))
        columns = torch.arange(1, n + 1, device=self.indices.device) * _GOLDEN
        return _mix(rows[:, None] + columns)


def _mix(bits: Tensor) -> Tensor:
    """The splitmix64 finaliser (Steele, Lea and Flood 2014): every input bit moves every output bit."""
    bits = bits + _GOLDEN
    bits = (bits ^ _shift_right(bits, 30)) * _MIX_1
    bits = (bits ^ _shift_right(bits, 27)) * _MIX_2
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, by: int) -> Tensor:
    """Logical shift: torch shifts the sign in, the mask takes it out again."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _to_unit_interval(bits: Tensor) -> Tensor:
    return _shift_right(bits, 40).float() * 2.0**-24
