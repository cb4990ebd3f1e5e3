"""DCI: whether each feature holds one known factor, and each factor needs one feature."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.inputs import (
    FeatureLike,
    LabelLike,
    checked_choice,
    checked_factors,
    checked_features,
)
from nonneg.metrics.results import FeatureMeasurement, FloatArray


def _forest(seed: int) -> Any:  # noqa: ANN401
    from sklearn.ensemble import RandomForestClassifier  # slow to import, and needed here only

    # Every split sees every feature: in a forest that hides some from its trees, others stand in.
    return RandomForestClassifier(50, max_features=None, random_state=seed)


def _boosting(seed: int) -> Any:  # noqa: ANN401
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(random_state=seed)


_MODELS: dict[str, Callable[[int], Any]] = {"forest": _forest, "boosting": _boosting}


@dataclass(frozen=True, kw_only=True, eq=False)
class DCI(FeatureMeasurement):
    """Disentanglement (``value``), completeness and informativeness.

    Args:
        completeness: Mean over factors; 1 if each needs one feature only.
        informativeness: Mean over factors of the accuracy on held-out samples.
        per_factor: Completeness of each factor, ``(n_factors,)``.
        importance: Of each feature for each factor, ``(n_features, n_factors)``.
    """

    completeness: float
    informativeness: float
    per_factor: FloatArray = field(repr=False)
    importance: FloatArray = field(repr=False)


def dci(Z: FeatureLike, factors: LabelLike, *, model: str = "forest", random_state: int = 0) -> DCI:
    """Disentanglement, completeness and informativeness (Eastwood and Williams 2018).

    A classifier predicts each factor from all features; the importances that it gives to the
    features are the matrix that disentanglement and completeness are read from, see
    :func:`disentanglement` and :func:`completeness`. All three in [0, 1], higher is better.

    Args:
        Z: Features ``(n_samples, n_features)``, taken as they are.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.
        model: ``"forest"`` (scikit-learn's random forest, 50 trees, every split sees all features)
            or ``"boosting"`` (its gradient boosting, slower).
        random_state: Seed of the model and of the split: a quarter of the samples is held out.

    Returns:
        ``per_feature`` is the disentanglement of each feature, NaN for one of no importance.

    Example:
        >>> factors = np.array([[i, j] for i in range(4) for j in range(4)] * 4)
        >>> found = dci(factors, factors)
        >>> found.value, found.completeness, found.informativeness
        (1.0, 1.0, 1.0)
    """
    checked_choice(model, tuple(_MODELS), "model")
    features = checked_features(Z)
    table = checked_factors(factors, features.n_samples)
    if table.shape[1] < 2:
        raise ValueError("factors has one column; DCI compares factors and needs at least two")
    if features.n_samples < 4:
        raise ValueError(f"Z has {features.n_samples} samples; a quarter cannot be held out")
    X = features.dense().double().cpu().numpy()
    largest = np.abs(X).max(axis=0)
    # Trees read float32, which ends at 3e38; the scale of a feature means nothing to them.
    X = X / np.where(largest > 0, largest, 1)
    order = np.random.default_rng(random_state).permutation(len(X))
    held_out, kept = np.split(order, [len(X) // 4])
    fitted = [_MODELS[model](random_state).fit(X[kept], column[kept]) for column in table.T]
    importance = np.stack([one.feature_importances_ for one in fitted], axis=1)
    accuracy = [
        one.score(X[held_out], column[held_out])
        for one, column in zip(fitted, table.T, strict=True)
    ]
    per_feature, value = disentanglement(importance)
    per_factor, complete = completeness(importance)
    n_active, _ = active_counts(features, ACTIVE_THRESHOLD)
    n_alive = int((n_active > 0).sum())
    return DCI(
        value=value,
        per_feature=per_feature,
        completeness=complete,
        informativeness=float(np.mean(accuracy)),
        per_factor=per_factor,
        importance=importance,
        n_alive=n_alive,
        n_dead=features.n_features - n_alive,
        averaged_over=int((~np.isnan(per_feature)).sum()),
        averaged_unit="features",
        higher_is_better=True,
        signed=False,
    )


def disentanglement(importance: FloatArray) -> tuple[FloatArray, float]:
    """How close each feature is to holding one factor, and the mean weighted by importance.

    ``1 - H(p)``, p being a feature's row divided by its sum and H the entropy to base n_factors.

    Args:
        importance: ``(n_features, n_factors)``, none negative.

    Returns:
        ``(n_features,)``, NaN for a row of zeros, and the mean.

    Example:
        >>> one_code_for_two = np.kron(np.eye(5), np.ones((1, 2)))
        >>> round(disentanglement(one_code_for_two)[1], 4)  # 1 - ln 2 / ln 10
        0.699
    """
    weight = importance.sum(axis=1)
    used = weight > 0
    per_row = np.full(len(importance), np.nan)
    share = importance[used] / weight[used, None]
    surprise = (share * np.log(1 / np.where(share > 0, share, 1))).sum(axis=1)
    n_columns = importance.shape[1]
    per_row[used] = 1 - surprise / np.log(n_columns) if n_columns > 1 else 1.0
    if not used.any():
        return per_row, float("nan")
    return per_row, float(np.average(per_row[used], weights=weight[used]))


def completeness(importance: FloatArray) -> tuple[FloatArray, float]:
    """How close each factor is to needing one feature, and the mean weighted by importance.

    :func:`disentanglement` of the transposed matrix.

    Example:
        >>> completeness(np.kron(np.eye(5), np.ones((1, 2))))[1]
        1.0
    """
    return disentanglement(importance.T)
