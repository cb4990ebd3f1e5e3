"""How strongly should a probe be held back? The strength that is best on samples left out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg.evaluation.folds import Fold
from nonneg.evaluation.logistic import LogisticFit, logistic_fit
from nonneg.evaluation.solver_rows import Rows

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
        gram: See :func:`~nonneg.evaluation.logistic.logistic_fit`.
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
