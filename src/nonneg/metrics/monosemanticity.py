"""Monosemanticity: how alike a feature's samples are in a reference embedding, without labels.

As a mean similarity, and as a test: is a sample of another feature found out as the odd one?
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.inputs import FeatureLike, Features, checked_count, checked_features
from nonneg.metrics.results import (
    BoolArray,
    FeatureMeasurement,
    IntArray,
    RandomState,
    mean_of_measured,
)
from nonneg.rows import row_lengths, unit_rows

# Samples of a feature beside the intruder.
N_SHOWN = 5
# Sums of cosines that differ by less are equal: the same rows may be summed in another order.
_ROUNDING = 1e-9
_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Monosemanticity(FeatureMeasurement):
    """How alike the samples of the features are.

    Args:
        null: The mean similarity of two different samples: what a feature scores that is equally
            on for all.
    """

    null: float


def monosemanticity(
    Z: FeatureLike, reference: FeatureLike, *, threshold: float = ACTIVE_THRESHOLD
) -> Monosemanticity:
    """The mean similarity of two samples of a feature, weighted by its activation; mean of all.

    ``MS_i = Σ_{r≠s} w_ri w_si cos(e_r, e_s) / Σ_{r≠s} w_ri w_si`` with ``w = |z|`` after scaling
    rows of Z to length 1, e being the reference. In [-1, 1], higher is better. The double sum is
    ``|Σ_r w_ri e_r|² - Σ_r w_ri²``: one matrix product, no pairs.

    Args:
        Z: Features ``(n_samples, n_features)``.
        reference: An embedding of the same samples that is trusted to tell what is alike,
            ``(n_samples, width)``; its rows are scaled to length 1, rows of zeros are like nothing.
        threshold: See :func:`active_mask`.

    Returns:
        A feature that is active for fewer than two samples is NaN and not averaged.

    Example:
        >>> Z = [[1, 0], [1, 0], [0, 1], [0, 1]]
        >>> monosemanticity(Z, [[1, 0], [1, 0], [1, 0], [0, 1]]).per_feature
        array([1., 0.])
    """
    features, samples = _checked_pair(Z, reference)
    n_active, _ = active_counts(features, threshold)
    one = torch.zeros(1, features.n_features + 1, dtype=torch.float64, device=features.device)
    weight, weight_squared, own = one.clone(), one.clone(), one.clone()
    centre = one.new_zeros(features.n_features + 1, samples.n_features)
    for rows, tile in features.tiles():
        w = unit_rows(tile.double()).abs_()
        w = torch.cat([w, w.new_ones(len(w), 1)], dim=1)  # the last one is equally on for all
        e = unit_rows(samples.rows(rows).double().to(w.device))
        squared = w.square()
        weight += w.sum(dim=0)
        weight_squared += squared.sum(dim=0)
        own += squared[(e != 0).any(dim=1)].sum(dim=0)
        centre += w.T @ e
    similarity = centre.square().sum(dim=1) - own[0]
    pair_weight = weight.square()[0] - weight_squared[0]
    score = (similarity / pair_weight).cpu().numpy()
    per_feature = np.where(n_active >= 2, score[:-1], np.nan)
    value, averaged_over = mean_of_measured(per_feature)
    n_alive = int((n_active > 0).sum())
    return Monosemanticity(
        value=value,
        per_feature=per_feature,
        null=float(score[-1]),
        n_alive=n_alive,
        n_dead=features.n_features - n_alive,
        averaged_over=averaged_over,
        averaged_unit="features",
        higher_is_better=True,
        signed=features.signed,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class IntruderAccuracy(FeatureMeasurement):
    """How often the intruder is the odd one.

    Args:
        chance: What guessing scores: 1/6.
        n_trials: Trials of all measured features together.
        standard_error: Of the value, from the spread between features; NaN for fewer than two.
    """

    chance: float
    n_trials: int
    standard_error: float


def intruder_accuracy(
    Z: FeatureLike,
    reference: FeatureLike,
    *,
    n_top: int = 20,
    n_trials: int = 20,
    threshold: float = ACTIVE_THRESHOLD,
    random_state: RandomState = 0,
) -> IntruderAccuracy:
    """How often a sample of another feature is told from five of a feature, by their vectors.

    The document intrusion test without people. In each trial five of a feature's strongest samples
    stand beside an intruder, one of the strongest of another feature, for which this one is off.
    The intruder is found if, of the six, its mean cosine with the others in the reference is the
    lowest; where several are equally low, the trial counts one divided by their number. In [0, 1],
    higher is better, 1/6 by chance.

    Args:
        Z: Features ``(n_samples, n_features)``; strength is ``|z|`` after scaling rows to length 1.
        reference: An embedding of the same samples that is trusted to tell what is alike,
            ``(n_samples, width)``.
        n_top: How many strongest samples per feature are drawn from, at least five; which of
            equally strong ones belong to them is drawn too.
        n_trials: Per feature.
        threshold: See :func:`active_mask`.
        random_state: Seed or generator.

    Returns:
        A feature that is active for fewer than five samples, or that is on for all strongest
        samples of the others, is NaN and not averaged.

    Example:
        >>> kinds = np.repeat(np.eye(3), 10, axis=0)
        >>> intruder_accuracy(kinds, kinds).value
        1.0
    """
    features, samples = _checked_pair(Z, reference)
    checked_count(n_trials, name="n_trials")
    trials = intruder_trials(
        features, n_top=n_top, n_trials=n_trials, threshold=threshold, random_state=random_state
    )
    found = np.full(features.n_features, np.nan)
    for feature, (shown, _) in trials.items():
        rows = samples.rows(torch.from_numpy(shown.ravel()).to(samples.device)).double().cpu()
        unit = unit_rows(rows).reshape(n_trials, N_SHOWN + 1, -1)
        cosines = (unit @ unit.transpose(1, 2)).numpy()  # (n_trials, 6, 6)
        alike = cosines.sum(axis=2) - np.diagonal(cosines, axis1=1, axis2=2)
        is_odd = alike <= alike.min(axis=1, keepdims=True) + _ROUNDING
        found[feature] = (is_odd[:, -1] / is_odd.sum(axis=1)).mean()
    value, averaged_over = mean_of_measured(found)
    spread = float("nan")
    if averaged_over > 1:
        spread = float(np.nanstd(found, ddof=1)) / averaged_over**0.5
    n_alive = int((active_counts(features, threshold)[0] > 0).sum())
    return IntruderAccuracy(
        value=value,
        per_feature=found,
        chance=1 / (N_SHOWN + 1),
        n_trials=averaged_over * n_trials,
        standard_error=spread,
        n_alive=n_alive,
        n_dead=features.n_features - n_alive,
        averaged_over=averaged_over,
        averaged_unit="features",
        higher_is_better=True,
        signed=features.signed,
    )


class Trials(NamedTuple):
    """Questions about one feature: which of six samples does not belong?

    Args:
        shown: Sample numbers ``(n_trials, 6)``: five of the feature, then the intruder.
        other: The feature that the intruder comes from ``(n_trials,)``.
    """

    shown: IntArray
    other: IntArray


def intruder_trials(
    features: Features,
    *,
    n_top: int,
    n_trials: int,
    threshold: float = ACTIVE_THRESHOLD,
    random_state: RandomState = 0,
) -> dict[int, Trials]:
    """The trials of :func:`intruder_accuracy`, by the number of each feature that can be asked."""
    if checked_count(n_top, name="n_top") < N_SHOWN:
        raise ValueError(f"n_top is {n_top}; it must be at least {N_SHOWN}, which are shown")
    if features.n_samples <= N_SHOWN:
        raise ValueError(
            f"Z has {features.n_samples} samples; the test shows {N_SHOWN + 1} different ones"
        )
    rng = np.random.default_rng(random_state)
    lengths = _lengths(features)
    top = _strongest(features, lengths, n_top, threshold, rng)
    owner = np.repeat(np.arange(len(top)), [len(own) for own in top])
    samples = np.concatenate(top)
    trials = {}
    for feature, own in enumerate(top):
        if len(own) < N_SHOWN:
            continue
        column = torch.tensor([feature], device=features.device)
        on = (features.columns(column) / lengths).abs()[:, 0] > threshold
        intruders = _drawn_intruders(~on.cpu().numpy()[samples], owner, n_trials, rng)
        if intruders is None:
            continue
        shown = [rng.choice(own, N_SHOWN, replace=False) for _ in range(n_trials)]
        places = np.column_stack([np.stack(shown), samples[intruders]])
        trials[feature] = Trials(places, owner[intruders])
    return trials


def _drawn_intruders(
    may: BoolArray, owner: IntArray, n_trials: int, rng: np.random.Generator
) -> IntArray | None:
    """Places of intruders: first a feature that has any is drawn, then one of its samples.

    Args:
        may: Which strongest samples may be intruders; those of the feature itself never may.
        owner: The features that they are the strongest of, ascending.
        n_trials: How many to draw.
        rng: What to draw by.
    """
    allowed = np.flatnonzero(may)
    if not allowed.size:
        return None
    _, starts, counts = np.unique(owner[allowed], return_index=True, return_counts=True)
    drawn = rng.integers(len(starts), size=n_trials)
    intruders: IntArray = allowed[starts[drawn] + rng.integers(counts[drawn])]
    return intruders


def _strongest(
    features: Features, lengths: Tensor, n_top: int, threshold: float, rng: np.random.Generator
) -> list[IntArray]:
    """For each feature its strongest active samples; among equally strong ones, drawn ones."""
    order = torch.from_numpy(rng.permutation(features.n_samples)).to(features.device)
    top: list[IntArray] = []
    for block in torch.arange(features.n_features).split(
        max(1, _BLOCK_ENTRIES // features.n_samples)
    ):
        strength = (features.columns(block.to(features.device)) / lengths).abs()[order]
        values, places = strength.sort(dim=0, descending=True, stable=True)
        chosen = order[places[:n_top]].T.cpu().numpy()
        is_on = (values[:n_top] > threshold).T.cpu().numpy()
        top += [own[on] for own, on in zip(chosen, is_on, strict=True)]
    return top


def _lengths(features: Features) -> Tensor:
    """The length of each row ``(n_samples, 1)``, 1 for a row of zeros."""
    lengths = torch.cat([row_lengths(tile) for _, tile in features.tiles()])
    return lengths.where(lengths > 0, 1)


def _checked_pair(Z: FeatureLike, reference: FeatureLike) -> tuple[Features, Features]:
    features, samples = checked_features(Z), checked_features(reference, "reference")
    if samples.n_samples != features.n_samples:
        raise ValueError(
            f"reference has {samples.n_samples} rows for {features.n_samples} samples in Z"
        )
    return features, samples
