"""Which samples are left out to judge by? Draws that take a share of every class."""

import torch
from torch import Tensor


def stratified_draw(targets: Tensor, rate: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """The numbers of the other samples and of the drawn ones, both in order.

    Of each class the nearest whole number to its share is drawn, at least one, but never all: a
    class of one sample gives none.

    Args:
        targets: Class numbers 0 … c-1, ``(n,)``, on the CPU.
        rate: Share of each class to draw.
        seed: Of the draw.

    Example:
        >>> rest, drawn = stratified_draw(torch.tensor([0, 0, 0, 0, 1, 1, 2]), 0.25, seed=0)
        >>> len(rest), len(drawn)
        (5, 2)
    """
    place, count = _places(targets, seed)
    n_drawn = (rate * count).round().clamp(min=1).minimum(count - 1)
    drawn = place < n_drawn
    return (~drawn).nonzero()[:, 0], drawn.nonzero()[:, 0]


def stratified_folds(targets: Tensor, n_folds: int, *, seed: int) -> list[tuple[Tensor, Tensor]]:
    """For each fold, the numbers of the other samples and of its own.

    The samples of each class are dealt in turn, so that no fold holds all of a class; the only
    sample of a class is in no fold. Folds that get no sample are left out.

    Args:
        targets: Class numbers 0 … c-1, ``(n,)``, on the CPU.
        n_folds: At least 2.
        seed: Of the dealing.

    Example:
        >>> folds = stratified_folds(torch.tensor([0, 0, 1, 1, 2]), 2, seed=0)
        >>> [(len(rest), len(own)) for rest, own in folds]
        [(3, 2), (3, 2)]
    """
    place, count = _places(targets, seed)
    # Each class begins where the last one ended, so that small classes do not crowd one fold.
    sizes = torch.bincount(targets)
    first = sizes.cumsum(0) - sizes
    fold = ((place + first[targets]) % n_folds).where(count > 1, -1)
    pairs = [((fold != k).nonzero()[:, 0], (fold == k).nonzero()[:, 0]) for k in range(n_folds)]
    return [(rest, own) for rest, own in pairs if len(own)]


def balanced_draw(targets: Tensor, rate: float, *, seed: int) -> Tensor:
    """The numbers of a share of every class, at least one sample of each, in order.

    Example:
        >>> len(balanced_draw(torch.tensor([0] * 10 + [1] * 30), 0.1, seed=0))
        4
    """
    place, count = _places(targets, seed)
    return (place < (rate * count).round().clamp(min=1)).nonzero()[:, 0]


def _places(targets: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The place of each sample in a random order of its class, and the size of the class."""
    shuffled = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    order = shuffled[targets[shuffled].argsort(stable=True)]
    sizes = torch.bincount(targets)
    first = sizes.cumsum(0) - sizes
    place = torch.empty_like(targets)
    place[order] = torch.arange(len(targets)) - first[targets[order]]
    return place, sizes[targets]
