"""The effective rank: how many directions the features use."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from nonneg.metrics.inputs import FeatureLike, Features, checked_features
from nonneg.metrics.results import FloatArray, Measurement

_STEP = 4096
# Up to so many directions the slower decomposition takes no time that anyone would notice.
_FEW = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectiveRank(Measurement):
    """The effective rank, with the singular values it comes from, largest first."""

    singular_values: FloatArray = field(repr=False)


def effective_rank(Z: FeatureLike) -> EffectiveRank:
    """The exponential of the entropy of the singular values divided by their sum (Roy 2007).

    In [1, min(n_samples, n_features)]: 1 if all rows are multiples of one, d for d orthogonal
    columns of equal length. A low rank is a sign of collapse, but noise has the highest, so neither
    end is better by itself. Z is taken as it is, neither centred nor row-normalised, and decomposed
    in float64; of more than 512 directions the value is exact to five digits. For an all-zero Z
    ``value`` is NaN.

    Args:
        Z: Features ``(n_samples, n_features)``.

    Example:
        >>> round(effective_rank([[2, 0], [0, 2], [0, 0]]).value, 6)
        2.0
    """
    features = checked_features(Z)
    largest = max(abs(features.lowest), abs(features.highest))
    singular = torch.zeros(min(features.n_samples, features.n_features), dtype=torch.float64)
    value, averaged_over = float("nan"), 0
    if largest > 0:
        found = _singular_values(features, largest).cpu()
        singular[: len(found)] = found
        value, averaged_over = float(_entropy(singular).exp()), len(singular)
    return EffectiveRank(
        value=value,
        singular_values=(singular * largest).numpy(),
        averaged_over=averaged_over,
        averaged_unit="singular values",
        higher_is_better=None,
        signed=False,
    )


def _entropy(singular: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(singular / singular.sum()).sum()
    return entropy


def _singular_values(features: Features, largest: float) -> Tensor:
    """The singular values of Z / largest, largest first, columns of zeros left out."""
    tiles = [(tile != 0).any(dim=0) for _, tile in features.tiles()]
    used = torch.stack(tiles).any(dim=0).nonzero()[:, 0]
    squared: Tensor = torch.linalg.eigvalsh(_gram(features, used, largest)).flip(0)
    if _square_is_exact_enough(squared):
        return squared.clamp_min(0).sqrt()
    singular: Tensor = torch.linalg.svdvals(_triangle(features, used, largest))
    return singular


def _square_is_exact_enough(squared: Tensor) -> bool:
    """Whether the entropy from the eigenvalues of ZᵀZ or ZZᵀ is exact: to 1e-8, or of many to 1e-5.

    An eigenvalue is off by about ``δ = ε·λ_max``, its root σ therefore by ``δ / σ``, or by √δ where
    it is smaller than that. Many directions that are hardly used need the slower decomposition of Z
    itself.
    """
    singular = squared.clamp_min(0).sqrt()
    total = singular.sum()
    off = 10 * torch.finfo(torch.float64).eps * squared[0]
    off_by = off / singular.clamp_min(float(off) ** 0.5)
    share = ((singular + off_by) / total).clamp_max(1)
    limit = 1e-8 if len(squared) <= _FEW else 1e-5
    return bool((off_by / total * (1 - share.log())).sum() < limit)


def _gram(features: Features, used: Tensor, largest: float) -> Tensor:
    """ZᵀZ of the used columns of Z / largest, by tiles; ZZᵀ where it is smaller."""
    if features.n_samples <= len(used):
        rows = features.rows(slice(None))[:, used].double().div_(largest)
        product: Tensor = rows @ rows.T
        return product
    gram = torch.zeros(len(used), len(used), dtype=torch.float64, device=features.device)
    for start in range(0, features.n_samples, _STEP):
        tile = features.rows(slice(start, start + _STEP))[:, used].double().div_(largest)
        gram.addmm_(tile.T, tile)
    return gram


def _triangle(features: Features, used: Tensor, largest: float) -> Tensor:
    """A small matrix with the singular values of Z / largest: the triangle of its QR, by tiles."""
    step = max(_STEP, len(used))
    triangle = torch.zeros(0, len(used), dtype=torch.float64, device=features.device)
    for start in range(0, features.n_samples, step):
        tile = features.rows(slice(start, start + step))[:, used].double().div_(largest)
        triangle = torch.cat([triangle, tile])
        if len(triangle) > len(used):
            triangle = torch.linalg.qr(triangle, mode="r").R
    return triangle
