"""The few-label probe: the linear probe on a small share of every class."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nonneg.evaluation.probe.linear import PENALTIES, LinearProbe, balanced_draw, fitted_probe
from nonneg.metrics.inputs import (
    FeatureLike,
    LabelLike,
    checked_count,
    checked_features,
    checked_labels,
)

# The labels are too few to set a fifth aside: each validates once and is fitted to four times.
N_FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class FewLabelResult:
    """The accuracy of linear classifiers fitted to few samples.

    Args:
        value: Share of test samples that they get right, mean over draws.
        std: Over draws (n - 1); NaN for one draw.
        per_draw: The accuracy of each draw.
        penalties: The one that was chosen in each draw.
        label_rate: Share of the labels that was asked for.
        n_labels: Samples in a draw.
        n_per_class: The least and the most samples of a class in a draw.
        n_draws: How many draws there were.
        n_test: Test samples.
    """

    value: float
    std: float
    per_draw: tuple[float, ...]
    penalties: tuple[float, ...]
    label_rate: float
    n_labels: int
    n_per_class: tuple[int, int]
    n_draws: int
    n_test: int

    def __float__(self) -> float:
        return self.value


def few_label_probe(
    train: FeatureLike,
    labels: LabelLike,
    test: FeatureLike,
    test_labels: LabelLike,
    *,
    label_rate: float = 0.01,
    n_draws: int = 5,
    penalties: Sequence[float] = PENALTIES,
    seed: int = 0,
) -> FewLabelResult:
    """Test accuracy of linear probes that see a share of the labels, mean and spread over draws.

    A draw takes the share of every class, rounded, at least one sample. Scale, penalty and
    weights come from the drawn samples alone; the penalty is chosen by 5-fold cross-validation
    over them. If every class has one sample, nothing can be left out, and the middle penalty is
    taken.

    Args:
        train: ``(n, d)``.
        labels: Class numbers ``(n,)``.
        test: ``(m, d)``.
        test_labels: ``(m,)``.
        label_rate: In (0, 1].
        n_draws: How often to draw; draws may share samples.
        penalties: See :func:`~nonneg.evaluation.probe.linear.fitted_probe`.
        seed: Of the draws.

    Example:
        >>> x, y = [[0.0], [0.1], [1.0], [1.1]] * 5, [0, 0, 1, 1] * 5
        >>> result = few_label_probe(x, y, x, y, label_rate=0.3, n_draws=2)
        >>> result.value, result.n_labels, result.n_per_class
        (1.0, 6, (3, 3))
    """
    if not 0 < label_rate <= 1:
        raise ValueError(f"label_rate is {label_rate}; it must be above 0 and at most 1")
    checked_count(n_draws, name="n_draws")
    known, tested = checked_features(train, "train"), checked_features(test, "test")
    given = torch.from_numpy(checked_labels(labels, known.n_samples, "train labels"))
    asked = checked_labels(test_labels, tested.n_samples, "test labels")
    targets = given.unique(return_inverse=True)[1]
    probes: list[LinearProbe] = []
    for draw in range(n_draws):
        drawn = balanced_draw(targets, label_rate, seed=seed + draw)
        rows = known.rows(drawn.to(known.device))
        probes.append(
            fitted_probe(rows, given[drawn], penalties=penalties, n_folds=N_FOLDS, seed=seed + draw)
        )
    per_draw = tuple(probe.accuracy(tested.source, asked) for probe in probes)
    sizes = torch.bincount(targets[drawn])
    return FewLabelResult(
        value=statistics.fmean(per_draw),
        std=statistics.stdev(per_draw) if n_draws > 1 else float("nan"),
        per_draw=per_draw,
        penalties=tuple(probe.penalty for probe in probes),
        label_rate=label_rate,
        n_labels=len(drawn),
        n_per_class=(int(sizes.min()), int(sizes.max())),
        n_draws=n_draws,
        n_test=tested.n_samples,
    )
