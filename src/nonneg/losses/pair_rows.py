"""What is an anchor compared with? Both views of some pairs, and which of them belong together."""

from typing import NamedTuple

import torch
from torch import Tensor


class PairRows(NamedTuple):
    """Both views of n pairs; the dot product of two rows is their similarity divided by T."""

    rows: Tensor
    """``(2 n, d)``: row a and row b of the first pair, of the second, and so on."""
    numbers: Tensor
    """``(n,)``: which pair of the whole batch each is."""
    groups: Tensor
    """``(n,)``: pairs with the same number are about the same thing."""

    def views(self) -> tuple[Tensor, ...]:
        """Both views, ``(n, d)`` each: row i of the one belongs to row i of the other."""
        return self.rows.view(len(self.numbers), 2, -1).unbind(1)

    def numbered_from(self, first: int) -> "PairRows":
        """The same pairs as a part of a larger batch, in which ``first`` pairs come before."""
        numbers = self.numbers + first
        return PairRows(self.rows, numbers, numbers if self.groups is self.numbers else self.groups)

    def keys(self, *, of_groups: bool) -> Tensor:
        """For each row the number of its group, or one of its own; ``(2 n,)``."""
        if of_groups:
            return self.groups.repeat_interleave(2)
        return torch.stack([2 * self.numbers, 2 * self.numbers + 1], dim=1).flatten()


def mean_positive(own: PairRows, everyone: PairRows, negatives: str) -> Tensor:
    """The mean similarity of each anchor to all positives of its group, ``(n, 2)``.

    By sums over groups: no matrix of similarities is needed.

    Args:
        own: The anchors.
        everyone: Those they are compared with, the anchors among them.
        negatives: ``"both"``: all other rows of the group are positives; ``"cross"``: those of
            the other side.
    """
    groups, inverse, sizes = everyone.groups.unique(return_inverse=True, return_counts=True)
    place = torch.searchsorted(groups, own.groups)
    empty = everyone.rows.new_zeros(len(groups), everyone.rows.shape[1])
    sum_a, sum_b = (empty.index_add(0, inverse, view)[place] for view in everyone.views())
    a, b = own.views()
    count = sizes[place]
    if negatives == "both":
        of_group = sum_a + sum_b
        sum_b, sum_a, count = of_group - a, of_group - b, 2 * count - 1
    sums = torch.stack([(a * sum_b).sum(1), (b * sum_a).sum(1)], dim=1)
    return sums.div(count[:, None])


def pair_mean(losses: Tensor, weights: Tensor | None, *, total: Tensor | None = None) -> Tensor:
    """The mean of the losses of both anchors of each pair, weighted if there are weights.

    Args:
        losses: ``(n, 2)``.
        weights: ``(n,)``, at least 0.
        total: The sum of the weights, where it is not just that of these.

    Example:
        >>> pair_mean(torch.tensor([[1.0, 1.0], [2.0, 4.0]]), torch.tensor([1, 3]))
        tensor(2.5000)
    """
    if weights is None:
        return losses.mean()
    total = weights.sum() if total is None else total
    if not total > 0:
        raise ValueError("all weights are 0: there is nothing to average")
    return (losses.mean(1) * weights.to(losses)).sum() / total.to(losses)


def check_pairs(n: int, *, weights: Tensor | None, groups: Tensor | None) -> None:
    """Raise a clear error unless there is a sensible weight and a group for each of n pairs."""
    for name, given in (("weights", weights), ("groups", groups)):
        if given is not None and given.shape != (n,):
            raise ValueError(
                f"{name} must have one number for each of the {n} pairs, "
                f"got shape {tuple(given.shape)}"
            )
    if groups is not None and (groups.is_floating_point() or groups.dtype == torch.bool):
        raise TypeError(f"groups must be whole numbers, got {groups.dtype}")
    if weights is not None and not bool((weights >= 0).all() & weights.isfinite().all()):
        raise ValueError("weights must be finite and at least 0")


def check_has_negatives(groups: Tensor) -> None:
    """Raise a clear error if all pairs are in one group."""
    if bool((groups == groups[0]).all()):
        raise ValueError(
            f"all {len(groups)} pairs are in group {int(groups[0])}, so there are no negatives; "
            "use a batch of several groups, or same_group='positive'"
        )
