"""SEP_i and SEPIN@k: the information that only one feature holds, from InfoNCE."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics._dropping.plain import drop_each, drop_from_positives
from nonneg.metrics._dropping.renormalised import (
    drop_each_renormalised,
    drop_from_positives_renormalised,
)
from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    checked_choice,
    checked_count,
    checked_features,
)
from nonneg.metrics.results import FeatureMeasurement
from nonneg.rows import unit_rows

Convention = Literal["plain", "renormalised"]
Negatives = Literal["both", "cross"]
_SUGGESTED_K: tuple[int | Literal["all"], ...] = (1, 10, 100, "all")
# Up to this many multiplications float64 takes no time worth saving.
_SMALL = 1 << 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Sepin(FeatureMeasurement):
    """SEP_i of each feature in nats (``per_feature``); ``value`` is their mean, SEPIN@all.

    Args:
        at: SEPIN@k by k: the mean of the k largest.
        info_nce: The loss with all features, in nats.
        convention: Whether rows were re-normalised after a feature was dropped.
        negatives: Which candidates an anchor had.
    """

    at: Mapping[int | str, float]
    info_nce: float
    convention: str
    negatives: str


def sepin(
    Z_a: FeatureLike,
    Z_b: FeatureLike,
    *,
    temperature: float,
    k: Sequence[int | Literal["all"]] = _SUGGESTED_K,
    convention: Convention = "plain",
    negatives: Negatives = "both",
) -> Sepin:
    """By how much InfoNCE rises when a feature is dropped: SEP_i, and the mean of the k largest.

    ``SEP_i = I(x; z_i | z_≠i)`` (Do and Tran 2020), estimated by ``L(z_≠i) - L(z)``. L is the mean
    over anchors r of ``log Σ_c exp(cos_rc / T) - cos_rp / T``, in nats, p being the other view of
    r. With ``negatives="both"`` (NT-Xent) both views of all n pairs are anchors, and the 2n - 1
    rows other than r are its candidates, p among them; with ``"cross"`` the anchors of a view have
    the n rows of the other view. Higher is better, and slightly negative for a feature that
    misleads. With the plain convention the sum over all features of a non-negative representation
    is at most 1/T.

    Args:
        Z_a: Features of the first view ``(n_pairs, n_features)``.
        Z_b: Features of the second view, row by row.
        temperature: T, the one the features were trained with.
        k: Which SEPIN@k to give; left out, those of 1, 10, 100 that do not exceed the number of
            features, and all.
        convention: ``"plain"`` scales rows to length 1 once and drops feature i from them;
            ``"renormalised"`` scales them to length 1 again after each drop.
        negatives: ``"both"`` or ``"cross"``.

    Returns:
        Exact up to rounding, for all features. Dead features have SEP_i = 0 and count in
        SEPIN@all.

    Example:
        >>> Z = [[1, 0, 0], [0, 1, 0]]  # cosines 1 and 0; without either feature no row is told
        >>> found = sepin(Z, Z, temperature=1.0, negatives="cross")
        >>> round(found.info_nce, 4)  # ln(1 + 1/e)
        0.3133
        >>> found.per_feature.round(4)  # half of ln 2 - ln(1 + 1/e): one of the two rows is lost
        array([0.1899, 0.1899, 0.    ])
    """
    checked_choice(convention, tuple(_CONVENTIONS), "convention")
    checked_choice(negatives, ("both", "cross"), "negatives")
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be positive")
    first, second = checked_features(Z_a, "Z_a"), checked_features(Z_b, "Z_b")
    _check_same_shape(first, second)
    ks = _checked_ks(k, first.n_features)
    a, b = _unit_views(first, second, temperature)
    drop, drop_positives = _CONVENTIONS[convention]
    total, change = drop(a, b, temperature, negatives)
    n_anchors = 2 * len(a)
    positives = 2 * float((a * b).sum(dtype=torch.float64)) / temperature
    rise = (change + 2 * drop_positives(a, b, temperature)) / n_anchors
    per_feature = rise.cpu().numpy()
    n_alive = _n_alive(first, second)
    ordered = np.sort(per_feature)[::-1]
    return Sepin(
        value=float(per_feature.mean()),
        per_feature=per_feature,
        at={size: float(ordered[: None if size == "all" else int(size)].mean()) for size in ks},
        info_nce=(total - positives) / n_anchors,
        convention=convention,
        negatives=negatives,
        n_alive=n_alive,
        n_dead=first.n_features - n_alive,
        averaged_over=first.n_features,
        averaged_unit="features",
        higher_is_better=True,
        signed=False,
    )


_CONVENTIONS: dict[str, tuple[Callable[..., tuple[float, Tensor]], Callable[..., Tensor]]] = {
    "plain": (drop_each, drop_from_positives),
    "renormalised": (drop_each_renormalised, drop_from_positives_renormalised),
}


def _check_same_shape(first: Features, second: Features) -> None:
    shapes = [(part.n_samples, part.n_features) for part in (first, second)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"Z_a has shape {shapes[0]}, Z_b has {shapes[1]}; row i of both must be one pair"
        )


def _checked_ks(k: Sequence[int | Literal["all"]], n_features: int) -> list[int | Literal["all"]]:
    if k is _SUGGESTED_K:
        return [size for size in k if size == "all" or size <= n_features]
    for size in k:
        if size != "all":
            checked_count(size, name="k", limit=n_features, limited_by="the number of features")
    return list(k)


def _unit_views(first: Features, second: Features, temperature: float) -> tuple[Tensor, Tensor]:
    """Unit rows of both views, in float64 where it is needed, asked for, or costs nothing."""
    small = (2 * first.n_samples) ** 2 * first.n_features <= _SMALL
    # Logits differ by up to 2/T; the exponential of 80 is all that float32 can hold.
    wide = small or 2 / temperature > 80 or torch.float64 in (first.dtype, second.dtype)
    dtype = torch.float64 if wide else torch.float32
    a, b = first.dense().to(dtype), second.dense().to(first.device, dtype)
    return unit_rows(a), unit_rows(b)


def _n_alive(first: Features, second: Features) -> int:
    counts = [active_counts(part, ACTIVE_THRESHOLD)[0] for part in (first, second)]
    return int(((counts[0] + counts[1]) > 0).sum())
