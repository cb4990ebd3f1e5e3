"""Why are two samples alike? The features they share, whose contributions add up to the cosine."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class SharedFeature:
    """One feature that two samples share.

    Args:
        feature: Its number.
        name: What ``describe`` called it; empty if it has no name.
        contribution: Its part of the cosine.
        first: Its activation in the first sample, of features scaled to length 1.
        second: The same in the second sample.
    """

    feature: int
    name: str
    contribution: float
    first: float
    second: float


@dataclass(frozen=True)
class Explanation:
    """The features that two samples share, the largest contribution first.

    Args:
        cosine: Of the features of the two samples: the sum of all contributions.
        shared: One entry a feature that is on in both; empty if they share none.
    """

    cosine: float
    shared: tuple[SharedFeature, ...]

    def __str__(self) -> str:
        lines = [f"cosine {self.cosine:.3f}"]
        lines += [
            f"  {s.contribution:+.3f}  feature {s.feature}" + (f": {s.name}" if s.name else "")
            for s in self.shared
        ]
        return "\n".join(lines)


def explanation(first: ArrayLike, second: ArrayLike, names: Sequence[str] = ()) -> Explanation:
    """The shared features of two rows of features ``(d,)``, with what each adds to the cosine.

    Args:
        first: Features of one sample; all zero gives a cosine of 0 and no shared feature.
        second: Features of the other; the same sample again shows what it is made of.
        names: Of the features, in their order; may be empty.

    Example:
        >>> print(explanation([3, 4, 0], [0, 1, 0], names=["red", "round", "old"]))
        cosine 0.800
          +0.800  feature 1: round
    """
    one, two = _unit(first), _unit(second)
    parts = one * two
    order = np.argsort(-parts, kind="stable")
    shared = tuple(
        SharedFeature(
            feature=int(i),
            name=names[i] if len(names) else "",
            contribution=float(parts[i]),
            first=float(one[i]),
            second=float(two[i]),
        )
        for i in order
        if parts[i] != 0
    )
    return Explanation(cosine=float(parts.sum()), shared=shared)


def _unit(row: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(row, dtype=np.float64)
    length = np.linalg.norm(values)
    return values / length if length > 0 else values
