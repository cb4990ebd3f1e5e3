"""Top purity: the class share of a feature's strongest samples, fair to sparse and dense."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts, active_tiles, column_counts
from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_count,
    checked_features,
    checked_labels,
)
from nonneg.metrics.results import (
    FeatureMeasurement,
    FloatArray,
    IntArray,
    RandomState,
    mean_of_measured,
)
from nonneg.rows import row_lengths


def class_counts(features: Features, classes: IntArray, threshold: float) -> IntArray:
    """Active samples of each class and feature, ``(n_classes, n_features)``.

    Rows are read in the order of their class, so that a tile holds few classes and the cost does
    not grow with the number of classes.

    Args:
        features: ``(n_samples, n_features)``.
        classes: ``(n_samples,)``, every number in ``[0, n_classes)`` occurring.
        threshold: Of an active entry.
    """
    counts = np.zeros((int(classes.max()) + 1, features.n_features), dtype=np.int64)
    order = np.argsort(classes, kind="stable")
    ordered = classes[order]
    for here, on in active_tiles(features, threshold, order):
        starts = run_starts(ordered[here])
        present = ordered[here][starts]
        counts[present] += column_counts(on, starts)[:, : features.n_features]
    return counts


def run_starts(ordered: IntArray) -> IntArray:
    """Where each run of equal numbers begins.

    Example:
        >>> run_starts(np.array([4, 4, 7, 7, 7, 9]))
        array([0, 2, 5])
    """
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return np.concatenate([[0], changes])


def consecutive_classes(labels: IntArray) -> IntArray:
    """The labels renumbered to 0, 1, … in their order, without gaps, ``(n_samples,)``.

    Example:
        >>> consecutive_classes(np.array([7, 3, 7]))
        array([1, 0, 1])
    """
    return np.unique(labels, return_inverse=True)[1]


def chance_purity(
    classes: IntArray, n_permutations: int, random_state: RandomState
) -> tuple[FloatArray, FloatArray]:
    """The share of the commonest class among s samples under permuted labels, for every s at once.

    Under permuted labels the s samples of a feature carry s labels drawn without replacement, so
    the distribution depends on s alone, and the first s entries of one permutation are such a draw
    for every s. The largest count among them is the running maximum of "how often has this label
    occurred so far", which needs no count matrix: one permutation costs O(n log n) for all
    features together.

    Args:
        classes: Class numbers ``(n_samples,)``.
        n_permutations: How many permutations to average.
        random_state: Seed or generator.

    Returns:
        Mean and standard deviation, each ``(n_samples + 1,)``; entry s belongs to s samples, entry
        0 is NaN.

    Example:
        >>> chance_purity(np.array([0, 1]), 5, 0)[0]  # one is always pure, two are half and half
        array([nan, 1. , 0.5])
    """
    checked_count(n_permutations, name="n_permutations")
    rng = np.random.default_rng(random_state)
    n = len(classes)
    total, squares = np.zeros(n), np.zeros(n)
    for _ in range(n_permutations):
        share = np.maximum.accumulate(_occurrence(rng.permutation(classes))) / np.arange(1, n + 1)
        total += share
        squares += share**2
    mean = total / n_permutations
    deviation = np.sqrt(np.maximum(squares / n_permutations - mean**2, 0))
    return np.concatenate([[np.nan], mean]), np.concatenate([[np.nan], deviation])


def _occurrence(labels: IntArray) -> IntArray:
    """For each position, how often its label has occurred up to and including it."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    position = np.arange(len(labels))
    is_first = np.r_[True, ordered[1:] != ordered[:-1]]
    group_start = np.maximum.accumulate(np.where(is_first, position, 0))
    occurrence = np.empty(len(labels), dtype=np.int64)
    occurrence[order] = position - group_start + 1
    return occurrence


_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class TopPurity(FeatureMeasurement):
    """How pure the strongest samples are, beside the level of chance.

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

    In [1/m, 1], higher is better. Every method is measured on the same number of samples per
    feature, so sparse and dense representations can be compared. Only features with at least m
    active samples count: below that the "strongest" would be ties at zero.

    Args:
        Z: Features ``(n_samples, n_features)``; strength is ``|z|`` after scaling rows to length 1.
        y: Class numbers ``(n_samples,)``.
        m: Samples per feature; among equally strong ones the earlier comes first.
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
