"""Curation: features that a person has merged or hidden."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import NonNegativeInt, model_validator
from torch import Tensor

from nonneg.settings import Settings


class Curation(Settings):
    """Which features are shown as one, and which are not shown, by their numbers.

    A merged feature has the number of the first of its group, and the length of the group as its
    value: ``sqrt(Σ z_j²)``. So the length of a row stays, and with it what every other feature adds
    to a cosine. The other members of a group are zero. Hidden features are zero before others are
    thinned, as if the encoder did not have them.

    Example:
        >>> import torch
        >>> Curation(merged=((0, 2),)).with_merged(torch.tensor([[3.0, 7.0, 4.0, 1.0]]))
        tensor([[5., 7., 0., 1.]])
    """

    merged: tuple[tuple[NonNegativeInt, ...], ...] = ()
    """Groups of at least two, the one that stays first; no feature is in two of them."""
    hidden: tuple[NonNegativeInt, ...] = ()
    """None of them merged into another."""

    @model_validator(mode="after")
    def _once_each(self) -> Self:
        if any(len(group) < 2 for group in self.merged):
            raise ValueError("a merged group needs at least two features")
        members = [number for group in self.merged for number in group]
        if len(set(members)) < len(members):
            raise ValueError("a feature is merged twice; give each in one group, once")
        if gone := self.merged_away & set(self.hidden):
            raise ValueError(f"feature {min(gone)} is merged into another and hidden")
        return self

    @property
    def merged_away(self) -> set[int]:
        """The features that are a part of another one."""
        return {number for group in self.merged for number in group[1:]}

    @classmethod
    def of(cls, values: Mapping[str, Any] | None, n_features: int) -> Self:
        """The curation of so many features from plain values; None for none.

        Raises:
            ValueError: One sentence for what is wrong, such as a number that no feature has.
        """
        found = cls.read(values or {})
        for number in (*(n for group in found.merged for n in group), *found.hidden):
            if number >= n_features:
                raise ValueError(
                    f"there is no feature {number}; they are numbered 0 to {n_features - 1}"
                )
        return found

    def __bool__(self) -> bool:
        return bool(self.merged or self.hidden)

    def with_merged(self, features: Tensor) -> Tensor:
        """The features ``(n, d)`` with each group in one column; gradients pass."""
        if not self.merged:
            return features
        columns = features.clone()
        for group in self.merged:
            columns[:, list(group)] = 0
            columns[:, group[0]] = features[:, list(group)].norm(dim=1)
        return columns

    def kept(self, numbers: Iterable[int]) -> "Curation":
        """What is left of it where only some features are kept, which get new numbers.

        Example:
            >>> Curation(merged=((0, 2, 3),), hidden=(1,)).kept([3, 0])
            Curation(merged=((1, 0),), hidden=())
        """
        place = {old: new for new, old in enumerate(numbers)}
        groups = (tuple(place[n] for n in group if n in place) for group in self.merged)
        return Curation(
            merged=tuple(group for group in groups if len(group) > 1),
            hidden=tuple(place[n] for n in self.hidden if n in place),
        )
