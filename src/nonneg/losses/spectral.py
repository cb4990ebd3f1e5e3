"""The spectral contrastive loss, whose optimum is exactly a matrix factorisation."""

import torch
from torch import Tensor

from nonneg.losses.checks import check_two_views
from nonneg.rows import at_least_float32, power_of_two


def spectral_contrastive(z_a: Tensor, z_b: Tensor) -> Tensor:
    """The spectral contrastive loss of a batch of pairs (HaoChen et al. 2021, eq. 6).

    ``-2 E[f(x)·f(x+)] + E[(f(x)·f(x-))²]``: the first mean over the n pairs, the second over all
    ordered pairs of the 2n stacked rows that are neither the same row nor partners. Rows are NOT
    normalised: their length is part of the answer. All-zero features give 0. Where there are more
    than twice as many pairs as features, rows that are a thousand times as long as the others cost
    the others' products their last digits; in float64 there are enough.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.

    Example:
        Partners agree and the two pairs are orthogonal: -2 · 1 + 0.

        >>> spectral_contrastive(torch.eye(2), torch.eye(2))
        tensor(-2.)
    """
    check_two_views(z_a, z_b)
    with torch.autocast(z_a.device.type, enabled=False):
        z_a, z_b = at_least_float32(z_a), at_least_float32(z_b)
        n = len(z_a)
        scale = power_of_two(torch.cat([z_a, z_b]).detach().abs().amax())
        a, b = z_a / scale, z_b / scale
        partners = (a * b).sum(1).mean() * scale * scale
        others = _squares_of_others(a, b) / (2 * n * (2 * n - 2))
        return -2 * partners + others * scale * scale * scale * scale


def _squares_of_others(a: Tensor, b: Tensor) -> Tensor:
    """The sum of squared products over the ordered pairs of rows that are not partners."""
    z = torch.cat([a, b])  # (2n, d)
    if len(z) > 4 * z.shape[1]:
        # The smaller of the two Gram matrices: both have the same sum of squares, and so many rows
        # in so few dimensions that what is subtracted is at most about half of it.
        itself, partners = z.square().sum(1), (a * b).sum(1)
        return (z.T @ z).square().sum() - itself.square().sum() - 2 * partners.square().sum()
    gram = (z @ z.T).unflatten(1, (2, len(a)))  # (2n, 2, n)
    is_other = ~torch.eye(len(a), dtype=torch.bool, device=z.device).repeat(2, 1)  # (2n, n)
    others: Tensor = gram.where(is_other[:, None], 0.0).square().sum()
    return others
