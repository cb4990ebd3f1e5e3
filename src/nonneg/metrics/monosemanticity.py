"""Monosemanticity: how alike a feature's samples are in a reference embedding, without labels."""

from dataclasses import dataclass

import numpy as np
import torch

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FeatureMeasurement, mean_of_measured
from nonneg.rows import unit_rows


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
    features = checked_features(Z)
    samples = checked_features(reference, "reference")
    if samples.n_samples != features.n_samples:
        raise ValueError(
            f"reference has {samples.n_samples} rows for {features.n_samples} samples in Z"
        )
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
