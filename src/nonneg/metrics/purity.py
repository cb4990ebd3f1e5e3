"""How pure are a feature's strongest samples? The figure that compares sparse and dense fairly."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.chance import RandomState, chance_purity
from nonneg.metrics.consistency import consecutive_classes
from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_count,
    checked_features,
    checked_labels,
)
from nonneg.metrics.results import FeatureMeasurement, FloatArray, IntArray, mean_of_measured
from nonneg.rows import row_lengths

_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class TopPurity(FeatureMeasurement):
    """How pure the strongest samples are, with what chance would give.

    Args:
        m: How many samples of each feature were looked at.
        null: The value under permuted labels, the same for every feature; None unless asked for.
    """

    m: int
    null: float | None = None


def top_purity(
    Z: FeatureLike,
    y: LabelLike,
    m: int = 20,
    *,
    threshold: float = ACTIVE_THRESHOLD,
    n_permutations: int = 0,
    random_state: RandomState = None,
) -> TopPurity:
    """The share of the commonest class among a feature's m strongest samples, mean over features.

    In [1/m, 1], higher is better. Every method is measured on the same number of samples a
    feature, so sparse and dense representations can be compared. Only features with at least m
    active samples count: below that the "strongest" would be ties at zero.

    Args:
        Z: Features ``(n_samples, n_features)``; strength is ``|z|`` after scaling rows to length 1.
        y: Class numbers ``(n_samples,)``.
        m: Samples a feature; among equally strong ones the earlier comes first.
        threshold: See :func:`active_mask`.
        n_permutations: Label permutations behind ``null``; 0 leaves it out.
        random_state: Seed or generator.

    Returns:
        ``averaged_over`` is the number of features with at least m active samples; the others are
        NaN in ``per_feature``. If there is none, ``value`` is NaN.

    Example:
        >>> Z = [[3, 0], [4, 1], [5, 0], [1, 1]]  # rows get length 1: sample 3 is weakest
        >>> top_purity(Z, [0, 0, 0, 1], m=3).per_feature
        array([ 1., nan])
    """
    features = checked_features(Z)
    classes = consecutive_classes(checked_labels(y, features.n_samples))
    checked_count(m, name="m", limit=features.n_samples, limited_by="the number of samples")
    n_active, _ = active_counts(features, threshold)
    measured = torch.from_numpy(np.flatnonzero(n_active >= m))
    lengths = torch.cat([row_lengths(tile) for _, tile in features.tiles()])
    lengths = lengths.where(lengths > 0, 1)
    per_feature = np.full(features.n_features, np.nan)
    for block in measured.split(max(1, _BLOCK_ENTRIES // features.n_samples)):
        strongest = _strongest(features, block, lengths, m)
        per_feature[block.numpy()] = _majority_share(classes[strongest.cpu().numpy()])
    value, averaged_over = mean_of_measured(per_feature)
    null = None
    if n_permutations:
        null = float(chance_purity(classes, n_permutations, random_state)[0][m])
    n_alive = int((n_active > 0).sum())
    return TopPurity(
        value=value,
        per_feature=per_feature,
        m=m,
        null=null,
        n_alive=n_alive,
        n_dead=features.n_features - n_alive,
        averaged_over=averaged_over,
        averaged_unit="features",
        higher_is_better=True,
        signed=features.signed,
    )


def _strongest(features: Features, block: Tensor, lengths: Tensor, m: int) -> Tensor:
    """The m strongest samples of each feature of the block, ``(len(block), m)``, in no order."""
    strength = (features.columns(block.to(features.device)) / lengths).abs_().T.contiguous()
    if m == features.n_samples:
        return torch.arange(m).expand(len(block), m)
    values, chosen = strength.topk(m + 1, dim=1)
    tied = values[:, m - 1] == values[:, m]
    chosen = chosen[:, :m].clone()
    if bool(tied.any()):
        # topk leaves the order of ties open; a stable sort puts the earlier sample first.
        chosen[tied] = strength[tied].sort(dim=1, descending=True, stable=True).indices[:, :m]
    return chosen


def _majority_share(classes: IntArray) -> FloatArray:
    """The share of the commonest class in each row of class numbers ``(n, m)``."""
    ordered = np.sort(classes, axis=1)
    position = np.arange(ordered.shape[1])
    is_first = np.ones(ordered.shape, dtype=bool)
    is_first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run_start = np.maximum.accumulate(np.where(is_first, position, 0), axis=1)
    longest: FloatArray = (position - run_start + 1).max(axis=1) / ordered.shape[1]
    return longest
