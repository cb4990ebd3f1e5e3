"""The linear probe: how well a linear classifier predicts the classes."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nonneg.evaluation.probe.logistic import LogisticFit, logistic_fit
from nonneg.evaluation.probe.matrix import (
    DenseRows,
    Rows,
    column_scales,
    fewer_columns,
    standard_rows,
)
from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_count,
    checked_features,
    checked_labels,
)


@dataclass(frozen=True, eq=False)
class Fold:
    """Samples to fit to and samples to validate on; slices where the rows are in that order."""

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


# Penalty on the squared weights, as a share of the loss per sample. Smaller ones take most of the
# time: 1e-5 gave 0.1 points more on 60,000 images for twice the steps.
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# A penalty is judged by an accuracy, which settles long before the weights do.
_TOLERANCE = 0.1


@dataclass(frozen=True, eq=False)
class Choice:
    """A penalty and how it was found.

    Args:
        penalty: The chosen one.
        accuracy: On the samples left out; NaN if there was nothing to choose by.
        tried: The accuracy of every penalty that was fitted.
        start: A fit near the one that all samples will give.
    """

    penalty: float
    accuracy: float
    tried: dict[float, float]
    start: LogisticFit


def chosen_penalty(
    rows: Rows,
    targets: Tensor,
    zero: LogisticFit,
    *,
    folds: Sequence[Fold],
    penalties: Sequence[float],
    gram: Tensor,
) -> Choice:
    """The penalty of the highest accuracy on the samples left out; of equals the largest.

    Penalties are tried from large to small, each fit started at the last. The scan ends early when
    an accuracy is below the best by more than a standard error of their difference (McNemar's,
    over the samples that only one of the two gets right): smaller penalties then only overfit
    more, and they are the slow ones. Without folds, or with one candidate, nothing is fitted and
    the middle one is taken.

    Args:
        rows: ``(n, d)``.
        targets: Class numbers 0 … c-1, ``(n,)``.
        zero: Where the first fit begins.
        folds: What is left out in turn; accuracies are over all samples left out.
        penalties: Candidates, positive.
        gram: See :func:`~nonneg.evaluation.probe.logistic.logistic_fit`.
    """
    ordered = sorted(penalties, reverse=True)
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
    for penalty in ordered:
        fits = [
            logistic_fit(x, y, fit, penalty=penalty, gram=gram, tolerance=_TOLERANCE)
            for (x, y, _, _), fit in zip(parts, fits, strict=True)
        ]
        right = torch.cat(
            [
                x.logits(fit.weight, fit.bias).argmax(dim=1) == y
                for (_, _, x, y), fit in zip(parts, fits, strict=True)
            ]
        )
        accuracy = tried[penalty] = float(right.double().mean())
        if best is None or best_right is None or accuracy > best.accuracy:
            best, best_right = Choice(penalty, accuracy, tried, fits[0]), right
        elif _clearly_worse(right, best_right):
            break
    assert best is not None
    return best


def _clearly_worse(right: Tensor, best: Tensor) -> bool:
    lost, won = int((best & ~right).sum()), int((right & ~best).sum())
    return lost - won > math.sqrt(lost + won)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearProbe:
    """A fitted linear classifier; standardisation and weights are one affine map.

    Args:
        weight: ``(n_classes, n_features)``, float64; zero for columns that were constant.
        bias: ``(n_classes,)``, float64.
        classes: The labels seen in training, in order, ``(n_classes,)``.
        penalty: The one that was best on the samples left out.
        validation_accuracy: On them; NaN if every class had one sample only, or with one candidate.
        tried: The validation accuracy of every penalty that was fitted.
        n_train: Samples that it was fitted to.
        n_constant: Columns that were constant in training and are not used.
        converged: Whether the last fit met its criterion.
    """

    weight: Tensor = field(repr=False)
    bias: Tensor = field(repr=False)
    classes: Tensor = field(repr=False)
    penalty: float
    validation_accuracy: float
    tried: dict[float, float]
    n_train: int
    n_constant: int
    converged: bool

    def predict(self, X: FeatureLike) -> Tensor:
        """The label of each sample, int64 ``(n,)`` on the CPU; of equal scores the lowest label.

        Args:
            X: ``(n, n_features)``.
        """
        return self._predictions(checked_features(X, "X"))

    def accuracy(self, X: FeatureLike, y: LabelLike) -> float:
        """The share of samples whose label is predicted; a label never seen counts as wrong.

        Args:
            X: ``(n, n_features)``.
            y: ``(n,)``.
        """
        features = checked_features(X, "X")
        labels = torch.from_numpy(checked_labels(y, features.n_samples))
        return float((self._predictions(features) == labels).double().mean())

    def _predictions(self, features: Features) -> Tensor:
        if features.n_features != self.weight.shape[1]:
            raise ValueError(
                f"X has {features.n_features} features, the probe was fitted to "
                f"{self.weight.shape[1]}"
            )
        weight, bias = self.weight.to(features.device), self.bias.to(features.device)
        best = [
            torch.addmm(bias, tile.double(), weight.T).argmax(dim=1) for _, tile in features.tiles()
        ]
        return self.classes[torch.cat(best).cpu()]


@dataclass(frozen=True)
class ProbeResult:
    """The accuracy of a linear classifier and how it was chosen."""

    value: float
    """Share of test samples that it gets right."""
    penalty: float
    """The penalty that was best on the validation samples."""
    validation_accuracy: float
    n_train: int
    n_test: int

    def __float__(self) -> float:
        return self.value


def linear_probe(
    train: FeatureLike,
    train_labels: LabelLike,
    test: FeatureLike,
    test_labels: LabelLike,
    *,
    penalties: Sequence[float] = PENALTIES,
    validation_rate: float = 0.2,
    seed: int = 0,
) -> ProbeResult:
    """Test accuracy of multinomial logistic regression with L2 regularisation.

    Args:
        train: ``(n, d)``.
        train_labels: Class numbers ``(n,)``.
        test: ``(m, d)``, used once, at the very end.
        test_labels: ``(m,)``.
        penalties: See :func:`fitted_probe`.
        validation_rate: See :func:`fitted_probe`.
        seed: See :func:`fitted_probe`.

    Example:
        >>> x = torch.tensor([[0.0], [0.1], [1.0], [1.1]] * 5)
        >>> y = torch.tensor([0, 0, 1, 1] * 5)
        >>> float(linear_probe(x, y, x, y))
        1.0
    """
    tested = checked_features(test, "test")
    labels = checked_labels(test_labels, tested.n_samples, "test_labels")
    probe = fitted_probe(
        train, train_labels, penalties=penalties, validation_rate=validation_rate, seed=seed
    )
    return ProbeResult(
        value=probe.accuracy(tested.source, labels),
        penalty=probe.penalty,
        validation_accuracy=probe.validation_accuracy,
        n_train=probe.n_train,
        n_test=tested.n_samples,
    )


def fitted_probe(
    train: FeatureLike,
    labels: LabelLike,
    *,
    penalties: Sequence[float] = PENALTIES,
    validation_rate: float = 0.2,
    n_folds: int = 1,
    seed: int = 0,
) -> LinearProbe:
    """A linear classifier that can be applied to any number of sets.

    Columns are scaled to mean 0 and variance 1 by the training samples (see
    :func:`~nonneg.evaluation.probe.matrix.column_scales` for rare features); constant columns are
    not used. The penalty is chosen on a share of every class, then the classifier is fitted to
    all samples. Solved with all samples at once, so that the result depends on no learning rate or
    batch order. A class of one sample is always fitted to and never validated on.

    Args:
        train: ``(n, d)``.
        labels: Class numbers ``(n,)``, with gaps or not.
        penalties: Candidates for the penalty: mean cross entropy + penalty / 2 · |weight|². One
            candidate is taken as it is. The middle one is taken if every class has one sample.
        validation_rate: Share of every class on which the penalty is chosen, at least one sample.
        n_folds: From 2 on, the penalty is chosen by cross-validation over that many parts
            instead, and ``validation_rate`` is not used. Better for few samples.
        seed: Of the draw of the samples left out.

    Example:
        >>> probe = fitted_probe([[0.0], [0.1], [1.0], [1.1]] * 5, [3, 3, 7, 7] * 5)
        >>> probe.predict([[0.0], [2.0]]).tolist()
        [3, 7]
    """
    features = checked_features(train, "train")
    given = torch.from_numpy(checked_labels(labels, features.n_samples, "train labels"))
    _check_settings(penalties, validation_rate, n_folds)
    classes, targets = given.unique(return_inverse=True)
    if len(classes) < 2:
        raise ValueError("the training labels hold one class only; a probe needs at least two")
    order, folds = validation_folds(targets, rate=validation_rate, n_folds=n_folds, seed=seed)
    with torch.no_grad():
        return _fit(features, targets, classes, order, folds, penalties)


def _fit(
    features: Features,
    targets: Tensor,
    classes: Tensor,
    order: Tensor,
    folds: list[Fold],
    penalties: Sequence[float],
) -> LinearProbe:
    columns = column_scales(features)
    rows = standard_rows(features, columns, order)
    targets = targets[order].to(features.device)
    axes = None
    if isinstance(rows, DenseRows):
        rows, axes = fewer_columns(rows)
    gram = rows.gram()
    zero = torch.zeros(len(classes), rows.shape[1] + 1, dtype=features.dtype).to(features.device)
    choice = chosen_penalty(
        rows,
        targets,
        LogisticFit(zero[:, 1:].contiguous(), zero[:, 0].clone()),
        folds=folds,
        penalties=penalties,
        gram=gram,
    )
    fit = logistic_fit(rows, targets, choice.start, penalty=choice.penalty, gram=gram)
    weight = (fit.weight if axes is None else fit.weight @ axes).double() / columns.scale
    bias = fit.bias.double() - weight @ columns.mean
    wide = torch.zeros(len(classes), features.n_features, dtype=torch.float64)
    wide[:, columns.kept.cpu()] = weight.cpu()
    return LinearProbe(
        weight=wide,
        bias=bias.cpu(),
        classes=classes,
        penalty=choice.penalty,
        validation_accuracy=choice.accuracy,
        tried=choice.tried,
        n_train=features.n_samples,
        n_constant=features.n_features - len(columns.kept),
        converged=fit.converged,
    )


def _check_settings(penalties: Sequence[float], validation_rate: float, n_folds: int) -> None:
    if not penalties or not all(0 < penalty < float("inf") for penalty in penalties):
        raise ValueError(f"penalties is {penalties!r}; pass at least one, each above 0 and finite")
    if not 0 < validation_rate < 1:
        raise ValueError(f"validation_rate is {validation_rate}; it must be between 0 and 1")
    checked_count(n_folds, name="n_folds")
