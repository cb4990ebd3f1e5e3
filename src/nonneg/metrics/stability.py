"""Agreement: features of two runs, matched one to one, and clusters beside classes."""

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.correlation import cosine_block, unit_column_blocks
from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_clusters,
    checked_features,
    checked_labels,
)
from nonneg.metrics.results import FeatureMeasurement, FloatArray, IntArray, Measurement


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureMatch(FeatureMeasurement):
    """The pairing; ``per_feature`` is the cosine of each feature of the first run with its partner.

    Args:
        partner: For each feature of the first run the number of its partner in the second, or -1.
        n_returned: Pairs whose cosine is at least the threshold.
        return_rate: Their share of the first run's alive features.
        n_alive_second: Alive features of the second run.
    """

    partner: IntArray = field(repr=False)
    n_returned: int
    return_rate: float
    n_alive_second: int


def match_features(
    Z_1: FeatureLike,
    Z_2: FeatureLike,
    *,
    threshold: float = 0.8,
    active_threshold: float = ACTIVE_THRESHOLD,
) -> FeatureMatch:
    """Each feature of one run with its partner in another, matched to maximise the cosines.

    Alive features are paired one to one (Hungarian method) by the absolute cosine of their columns
    over the same samples; the sign of a signed feature is arbitrary. ``value`` is the mean cosine
    of the pairs, in [0, 1], higher is better.

    Args:
        Z_1: Features of the first run ``(n_samples, n_features_1)``.
        Z_2: Features of the second run, the same samples in the same order
            ``(n_samples, n_features_2)``.
        threshold: A feature returns if the cosine with its partner is at least this.
        active_threshold: See :func:`active_mask`; it decides which features are alive.

    Returns:
        Dead features, and those left over when the other run has fewer alive, have no partner and
        NaN in ``per_feature``; they lower ``return_rate`` only if alive.

    Example:
        >>> found = match_features([[1, 0], [0, 1], [0, 1]], [[0, 2], [2, 0], [2, 0]])
        >>> found.partner, found.n_returned
        (array([1, 0]), 2)
    """
    first, second = checked_features(Z_1, "Z_1"), checked_features(Z_2, "Z_2")
    if first.n_samples != second.n_samples:
        raise ValueError(
            f"Z_1 has {first.n_samples} samples, Z_2 has {second.n_samples}; "
            "both runs must be measured on the same ones"
        )
    alive = [
        np.flatnonzero(active_counts(part, active_threshold)[0] > 0) for part in (first, second)
    ]
    cosine = _absolute_cosines(first, second, alive[0], alive[1])
    rows, columns = linear_sum_assignment(cosine, maximize=True)
    matched = np.minimum(cosine[rows, columns], 1)
    per_feature = np.full(first.n_features, np.nan)
    per_feature[alive[0][rows]] = matched
    partner = np.full(first.n_features, -1, dtype=np.int64)
    partner[alive[0][rows]] = alive[1][columns]
    n_returned = int((matched >= threshold).sum())
    n_alive = len(alive[0])
    return FeatureMatch(
        value=float(matched.mean()) if matched.size else float("nan"),
        per_feature=per_feature,
        partner=partner,
        n_returned=n_returned,
        return_rate=n_returned / n_alive if n_alive else float("nan"),
        n_alive=n_alive,
        n_dead=first.n_features - n_alive,
        n_alive_second=len(alive[1]),
        averaged_over=int(matched.size),
        averaged_unit="pairs of features",
        higher_is_better=True,
        signed=first.signed or second.signed,
    )


def _absolute_cosines(
    first: Features, second: Features, which: IntArray, others: IntArray
) -> FloatArray:
    """Absolute cosines between columns of the two runs, ``(len(which), len(others))``."""
    cosine = np.zeros((len(which), len(others)))
    for here, a in unit_column_blocks(first, torch.from_numpy(which)):
        for there, b in unit_column_blocks(second, torch.from_numpy(others)):
            block = cosine_block(a, b.to(a.device, a.dtype))
            cosine[here, there] = block.abs().cpu().numpy()
    return cosine


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterAgreement(Measurement):
    """How well clusters agree with classes; ``value`` is ``ami``.

    Args:
        ami: Adjusted mutual information: 0 by chance, whatever the number of clusters.
        v_measure: The harmonic mean of the next two; not adjusted for chance.
        homogeneity: Whether a cluster holds one class.
        completeness: Whether a class is in one cluster.
        n_clusters: Clusters, without the group of unassigned samples.
        n_unassigned: Samples of no cluster (-1), which count as a group of their own.
    """

    ami: float
    v_measure: float
    homogeneity: float
    completeness: float
    n_clusters: int
    n_unassigned: int


def cluster_agreement(labels: LabelLike, clusters: LabelLike) -> ClusterAgreement:
    """How well one cluster per sample agrees with classes, as AMI and V-measure.

    ``AMI = (I - E[I]) / (mean of the two entropies - E[I])`` (Vinh et al. 2010), I being the mutual
    information and E[I] its expectation when samples are assigned at random; at most 1, about 0 by
    chance. V-measure (Rosenberg and Hirschberg 2007) is in [0, 1]. Higher is better.

    Args:
        labels: Class numbers ``(n_samples,)``.
        clusters: Cluster numbers ``(n_samples,)``; -1 for a sample of none, as outliers have.

    Example:
        >>> found = cluster_agreement([0, 0, 1, 1], [5, 5, 3, -1])
        >>> round(found.completeness, 3), round(found.v_measure, 3), found.n_unassigned
        (0.667, 0.8, 1)
    """
    # scikit-learn's metrics take long to import, and few callers need them.
    from sklearn.metrics import adjusted_mutual_info_score, homogeneity_completeness_v_measure

    groups = checked_clusters(clusters)
    classes = checked_labels(labels, len(groups), "labels")
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(classes, groups)
    ami = float(adjusted_mutual_info_score(classes, groups))
    return ClusterAgreement(
        value=ami,
        ami=ami,
        v_measure=float(v_measure),
        homogeneity=float(homogeneity),
        completeness=float(completeness),
        n_clusters=len(set(groups.tolist()) - {-1}),
        n_unassigned=int((groups == -1).sum()),
        averaged_over=len(groups),
        averaged_unit="samples",
        higher_is_better=True,
        signed=False,
    )
