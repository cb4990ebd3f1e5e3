"""The penalty of a probe, chosen on samples left out, and the folds that leave them out."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg.evaluation.probe.logistic import LogisticFit, logistic_fit
from nonneg.evaluation.probe.matrix import Rows


@dataclass(frozen=True, eq=False)
class Fold:
    """Samples to fit to and samples to judge by; slices where the rows are in that order."""

    fitted: slice | Tensor
    judged: slice | Tensor


def validation_folds(
    targets: Tensor, *, rate: float, n_folds: int, seed: int
) -> tuple[Tensor, list[Fold]]:
    """An order of the samples, and what is left out in turn of samples in that order.

    One fold is a draw of the share; more are parts of about equal size. None if every class has
    one sample.

    Args:
        targets: Class numbers 0 … c-1, ``(n,)``, on the CPU.
        rate: Share of each class for one fold.
        n_folds: How many parts.
        seed: Of the draw.
    """
    if n_folds > 1:
        folds = stratified_folds(targets, n_folds, seed=seed)
        return torch.arange(len(targets)), [Fold(rest, own) for rest, own in folds]
    rest, drawn = stratified_draw(targets, rate, seed=seed)
    # The samples to fit to come first, so that they are a slice and need no second copy.
    fold = Fold(slice(0, len(rest)), slice(len(rest), None))
    return torch.cat([rest, drawn]), [fold] if len(drawn) else []


def stratified_draw(targets: Tensor, rate: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """The numbers of the other samples and of the drawn ones, both in order.

    Of each class the nearest whole number to its share is drawn, at least one, but never all: a
    class of one sample gives none. (``StratifiedShuffleSplit`` may draw nothing of a small class,
    or all of it, and refuses classes of one sample.)

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
    """For each fold, the numbers of the other samples and of its own, in order.

    scikit-learn's ``StratifiedKFold``: no fold holds all of a class. The only sample of a class is
    in no fold, and there are no more folds than the largest class has samples.

    Args:
        targets: Class numbers 0 … c-1, ``(n,)``, on the CPU.
        n_folds: At least 2.
        seed: Of the shuffling.

    Example:
        >>> folds = stratified_folds(torch.tensor([0, 0, 1, 1, 2]), 2, seed=0)
        >>> [(len(rest), len(own)) for rest, own in folds]
        [(3, 2), (3, 2)]
    """
    from sklearn.model_selection import StratifiedKFold  # slow to import, and needed here only

    sizes = torch.bincount(targets)
    n_folds = min(n_folds, int(sizes.max()))
    if n_folds < 2:
        return []
    several = (sizes[targets] > 1).nonzero()[:, 0]  # samples that are not the only one of a class
    split = StratifiedKFold(n_folds, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # A class of fewer samples than folds is left out in some of them only, as it should be.
        warnings.filterwarnings("ignore", message="The least populated class in y")
        parts = [several[own] for _, own in split.split(several, targets[several])]
    everyone = torch.arange(len(targets))
    return [(everyone[~torch.isin(everyone, own)], own) for own in parts]


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


# Penalty on the squared weights, as a share of the loss per sample, from loose to tight. Looser
# ones take most of the time: 1e-5 gave 0.1 points more on 60,000 images for twice the steps.
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# A strength is judged by an accuracy, which settles long before the weights do.
_TOLERANCE = 0.1


@dataclass(frozen=True, eq=False)
class Choice:
    """A strength and how it was found.

    Args:
        strength: The chosen one.
        accuracy: On the samples left out; NaN if there was nothing to choose by.
        tried: The accuracy of every strength that was fitted.
        start: A fit near the one that all samples will give.
    """

    strength: float
    accuracy: float
    tried: dict[float, float]
    start: LogisticFit


def chosen_strength(
    rows: Rows,
    targets: Tensor,
    zero: LogisticFit,
    *,
    folds: Sequence[Fold],
    strengths: Sequence[float],
    gram: Tensor,
) -> Choice:
    """The strength of the highest accuracy on the samples left out; of equals the tightest.

    Strengths are tried from tight to loose, each fit started at the last. The scan ends early when
    an accuracy is below the best by more than a standard error of their difference (McNemar's,
    over the samples that only one of the two gets right): looser fits then only overfit more, and
    they are the slow ones. Without folds, or with one candidate, nothing is
    fitted and the middle one is taken.

    Args:
        rows: ``(n, d)``.
        targets: Class numbers 0 … c-1, ``(n,)``.
        zero: Where the first fit begins.
        folds: What is left out in turn; accuracies are over all samples left out.
        strengths: Candidates, positive.
        gram: See :func:`~nonneg.evaluation.probe.logistic.logistic_fit`.
    """
    ordered = sorted(strengths, reverse=True)
    if not folds or len(ordered) == 1:
        return Choice(ordered[len(ordered) // 2], math.nan, {}, zero)
    best: Choice | None = None
    tried: dict[float, float] = {}
    parts = [
        (rows.part(f.fitted), targets[f.fitted], rows.part(f.judged), targets[f.judged])
        for f in folds
    ]
    fits = [zero] * len(parts)
    best_right: Tensor | None = None
    for strength in ordered:
        fits = [
            logistic_fit(x, y, fit, strength=strength, gram=gram, tolerance=_TOLERANCE)
            for (x, y, _, _), fit in zip(parts, fits, strict=True)
        ]
        right = torch.cat(
            [
                x.logits(fit.weight, fit.bias).argmax(dim=1) == y
                for (_, _, x, y), fit in zip(parts, fits, strict=True)
            ]
        )
        accuracy = tried[strength] = float(right.double().mean())
        if best is None or best_right is None or accuracy > best.accuracy:
            best, best_right = Choice(strength, accuracy, tried, fits[0]), right
        elif _clearly_worse(right, best_right):
            break
    assert best is not None
    return best


def _clearly_worse(right: Tensor, best: Tensor) -> bool:
    lost, won = int((best & ~right).sum()), int((right & ~best).sum())
    return lost - won > math.sqrt(lost + won)
