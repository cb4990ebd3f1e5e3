"""The linear probe: how much of the classes a linear classifier can read off."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nonneg.evaluation.probe.logistic import LogisticFit, logistic_fit
from nonneg.evaluation.probe.matrix import DenseRows, column_scales, fewer_columns, standard_rows
from nonneg.evaluation.probe.penalty import STRENGTHS, Fold, chosen_strength, validation_folds
from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_count,
    checked_features,
    checked_labels,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearProbe:
    """A fitted linear classifier; standardisation and weights are one affine map.

    Args:
        weight: ``(n_classes, n_features)``, float64; zero for columns that were constant.
        bias: ``(n_classes,)``, float64.
        classes: The labels seen in training, in order, ``(n_classes,)``.
        strength: The penalty that was best on the samples left out.
        validation_accuracy: On them; NaN if every class had one sample only, or with one candidate.
        tried: The validation accuracy of every strength that was fitted.
        n_train: Samples that it was fitted to.
        n_constant: Columns that were constant in training and are not used.
        converged: Whether the last fit met its criterion.
    """

    weight: Tensor = field(repr=False)
    bias: Tensor = field(repr=False)
    classes: Tensor = field(repr=False)
    strength: float
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
    strength: float
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
    strengths: Sequence[float] = STRENGTHS,
    validation_rate: float = 0.2,
    seed: int = 0,
) -> ProbeResult:
    """Test accuracy of multinomial logistic regression with L2 regularisation.

    Args:
        train: ``(n, d)``.
        train_labels: Class numbers ``(n,)``.
        test: ``(m, d)``, used once, at the very end.
        test_labels: ``(m,)``.
        strengths: See :func:`fitted_probe`.
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
        train, train_labels, strengths=strengths, validation_rate=validation_rate, seed=seed
    )
    return ProbeResult(
        value=probe.accuracy(tested.source, labels),
        strength=probe.strength,
        validation_accuracy=probe.validation_accuracy,
        n_train=probe.n_train,
        n_test=tested.n_samples,
    )


def fitted_probe(
    train: FeatureLike,
    labels: LabelLike,
    *,
    strengths: Sequence[float] = STRENGTHS,
    validation_rate: float = 0.2,
    n_folds: int = 1,
    seed: int = 0,
) -> LinearProbe:
    """A linear classifier to apply to as many sets as one likes.

    Columns are scaled to mean 0 and variance 1 by the training samples (see
    :func:`~nonneg.evaluation.probe.matrix.column_scales` for rare features); constant columns are
    not used. The strength is chosen on a share of every class, then the classifier is fitted to
    all samples. Solved with all samples at once, so that the result depends on no learning rate or
    batch order. A class of one sample is always fitted to and never judged by.

    Args:
        train: ``(n, d)``.
        labels: Class numbers ``(n,)``, with gaps or not.
        strengths: Candidates for the penalty: mean cross entropy + strength / 2 · |weight|². One
            candidate is taken as it is. The middle one is taken if every class has one sample.
        validation_rate: Share of every class on which the strength is chosen, at least a sample.
        n_folds: From 2 on, the strength is chosen by cross-validation over that many parts
            instead, and ``validation_rate`` is not used. Better for few samples.
        seed: Of the draw of the samples left out.

    Example:
        >>> probe = fitted_probe([[0.0], [0.1], [1.0], [1.1]] * 5, [3, 3, 7, 7] * 5)
        >>> probe.predict([[0.0], [2.0]]).tolist()
        [3, 7]
    """
    features = checked_features(train, "train")
    given = torch.from_numpy(checked_labels(labels, features.n_samples, "train labels"))
    _check_settings(strengths, validation_rate, n_folds)
    classes, targets = given.unique(return_inverse=True)
    if len(classes) < 2:
        raise ValueError("the training labels hold one class only; a probe needs at least two")
    order, folds = validation_folds(targets, rate=validation_rate, n_folds=n_folds, seed=seed)
    with torch.no_grad():
        return _fit(features, targets, classes, order, folds, strengths)


def _fit(
    features: Features,
    targets: Tensor,
    classes: Tensor,
    order: Tensor,
    folds: list[Fold],
    strengths: Sequence[float],
) -> LinearProbe:
    columns = column_scales(features)
    rows = standard_rows(features, columns, order)
    targets = targets[order].to(features.device)
    axes = None
    if isinstance(rows, DenseRows):
        rows, axes = fewer_columns(rows)
    gram = rows.gram()
    zero = torch.zeros(len(classes), rows.shape[1] + 1, dtype=features.dtype).to(features.device)
    choice = chosen_strength(
        rows,
        targets,
        LogisticFit(zero[:, 1:].contiguous(), zero[:, 0].clone()),
        folds=folds,
        strengths=strengths,
        gram=gram,
    )
    fit = logistic_fit(rows, targets, choice.start, strength=choice.strength, gram=gram)
    weight = (fit.weight if axes is None else fit.weight @ axes).double() / columns.scale
    bias = fit.bias.double() - weight @ columns.mean
    wide = torch.zeros(len(classes), features.n_features, dtype=torch.float64)
    wide[:, columns.kept.cpu()] = weight.cpu()
    return LinearProbe(
        weight=wide,
        bias=bias.cpu(),
        classes=classes,
        strength=choice.strength,
        validation_accuracy=choice.accuracy,
        tried=choice.tried,
        n_train=features.n_samples,
        n_constant=features.n_features - len(columns.kept),
        converged=fit.converged,
    )


def _check_settings(strengths: Sequence[float], validation_rate: float, n_folds: int) -> None:
    if not strengths or not all(0 < strength < float("inf") for strength in strengths):
        raise ValueError(f"strengths is {strengths!r}; pass at least one, each above 0 and finite")
    if not 0 < validation_rate < 1:
        raise ValueError(f"validation_rate is {validation_rate}; it must be between 0 and 1")
    checked_count(n_folds, name="n_folds")
