"""InfoNCE: how well does a sample pick its partner out of a batch?"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses.rows import check_two_views, unit_rows

NEGATIVES = ("both", "cross")


def info_nce(
    z_a: Tensor, z_b: Tensor, *, temperature: float | Tensor, negatives: str = "both"
) -> Tensor:
    """The mean InfoNCE loss of a batch of pairs, in nats.

    ``-log( exp(s_ij / T) / sum_k exp(s_ik / T) )`` with ``s`` the cosine, j the partner of i
    (van den Oord et al. 2018). Rows are normalised here; half-precision input is computed in
    float32. The features of NCL and the scores of ordinary contrastive learning go through the
    same function: the transform is the encoder's business.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.
        temperature: Above 0; may be a tensor that learns.
        negatives: ``"both"``: all other rows of both views, 2n - 2 for each of the 2n anchors
            (NT-Xent, Chen et al. 2020). ``"cross"``: the rows of the other side only, n - 1 for
            each of the 2n anchors (CLIP, Radford et al. 2021).

    An all-zero row has cosine 0 with everything; its loss is finite and its gradient bounded.

    Example:
        Equal rows leave nothing to choose by: the loss is ``log(2n - 1)``, here log 3.

        >>> info_nce(torch.ones(2, 4), torch.ones(2, 4), temperature=0.2)
        tensor(1.0986)
    """
    check_two_views(z_a, z_b)
    check_temperature(temperature)
    if negatives not in NEGATIVES:
        raise ValueError(f"unknown negatives {negatives!r}; known: {', '.join(NEGATIVES)}")
    # Autocast would round the similarities to half precision just before they are divided by T.
    with torch.autocast(z_a.device.type, enabled=False):
        a, b = unit_rows(z_a), unit_rows(z_b)
        if negatives == "both":
            return _nt_xent(a, b, temperature)
        return _cross(a, b, temperature)


def info_nce_bounds(
    n_pairs: int, *, temperature: float, negatives: str = "both", nonnegative: bool = True
) -> tuple[float, float]:
    """The lowest and the highest sensible loss of a batch: the floor and the ceiling.

    The floor is reached when partners are equal and all others are as far apart as they can be
    (cosine 0 for non-negative features, -1 for signed ones, which is a bound and not attained
    by more than two rows); the ceiling when all rows are equal.

    Example:
        >>> floor, ceiling = info_nce_bounds(256, temperature=0.2)
        >>> round(floor, 2), round(ceiling, 2)
        (1.49, 6.24)
    """
    others = 2 * n_pairs - 2 if negatives == "both" else n_pairs - 1
    gap = (1.0 if nonnegative else 2.0) / temperature
    return math.log1p(others * math.exp(-gap)), math.log1p(others)


def check_temperature(temperature: float | Tensor) -> None:
    """Raise a clear error unless the temperature is a finite number above 0."""
    value = float(temperature.detach()) if isinstance(temperature, Tensor) else temperature
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"temperature must be a finite number above 0, got {value:g}")


def _nt_xent(a: Tensor, b: Tensor, temperature: float | Tensor) -> Tensor:
    n = len(a)
    z = torch.cat([a, b])  # (2n, d)
    similarity = (z @ z.T) / temperature  # (2n, 2n)
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    similarity = similarity.masked_fill(itself, -math.inf)
    partner = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(similarity, partner)


def _cross(a: Tensor, b: Tensor, temperature: float | Tensor) -> Tensor:
    similarity = (a @ b.T) / temperature  # (n, n)
    partner = torch.arange(len(a), device=a.device)
    return (F.cross_entropy(similarity, partner) + F.cross_entropy(similarity.T, partner)) / 2
