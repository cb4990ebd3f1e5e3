"""How many directions do the features use? The effective rank."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from nonneg.metrics.inputs import FeatureLike, Features, checked_features
from nonneg.metrics.results import FloatArray, Measurement


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectiveRank(Measurement):
    """The effective rank, with the singular values it comes from, largest first."""

    singular_values: FloatArray = field(repr=False)


def effective_rank(Z: FeatureLike) -> EffectiveRank:
    """The exponential of the entropy of the singular values divided by their sum (Roy 2007).

    In [1, min(n_samples, n_features)], higher is better: 1 if all rows are multiples of one, d for
    d orthogonal columns of equal length. Z is taken as it is, neither centred nor row-normalised,
    and decomposed in float64; for an all-zero Z ``value`` is NaN.

    Args:
        Z: Features ``(n_samples, n_features)``.

    Example:
        >>> round(effective_rank([[2, 0], [0, 2], [0, 0]]).value, 6)
        2.0
    """
    features = checked_features(Z)
    largest = max(abs(features.lowest), abs(features.highest))
    if largest == 0:
        singular = torch.zeros(min(features.n_samples, features.n_features), dtype=torch.float64)
        value, averaged_over = float("nan"), 0
    else:
        singular = torch.linalg.svdvals(_same_singular_values(features, largest)).cpu()
        share = singular / singular.sum()
        value, averaged_over = float(torch.special.entr(share).sum().exp()), len(singular)
    return EffectiveRank(
        value=value,
        singular_values=(singular * largest).numpy(),
        averaged_over=averaged_over,
        averaged_unit="singular values",
        higher_is_better=True,
        signed=False,
    )


def _same_singular_values(features: Features, largest: float) -> Tensor:
    """A small matrix with the singular values of Z / largest: the triangle of Z's QR, by tiles."""
    step = max(4096, features.n_features)
    if features.n_samples <= step:
        return features.dense().double() / largest
    triangle = torch.zeros(0, features.n_features, dtype=torch.float64, device=features.device)
    for start in range(0, features.n_samples, step):
        tile = features.rows(slice(start, start + step)).double() / largest
        triangle = torch.linalg.qr(torch.cat([triangle, tile]), mode="r").R
    return triangle
