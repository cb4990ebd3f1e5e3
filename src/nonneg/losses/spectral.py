"""The spectral contrastive loss, whose optimum is exactly a matrix factorisation."""

import torch
from torch import Tensor

from nonneg.losses.checks import check_two_views
from nonneg.rows import at_least_float32


def spectral_contrastive(z_a: Tensor, z_b: Tensor) -> Tensor:
    """The spectral contrastive loss of a batch of pairs (HaoChen et al. 2021, eq. 6).

    ``-2 E[f(x)·f(x+)] + E[(f(x)·f(x-))²]``: the first mean over the n pairs, the second over all
    ordered pairs of the 2n stacked rows that are neither the same row nor partners. Rows are NOT
    normalised: their length is part of the answer. All-zero features give 0.

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
        z = torch.cat([z_a, z_b])  # (2n, d)
        partners = (z_a * z_b).sum(1)  # (n,)
        itself = z.square().sum(1)  # (2n,)
        # The smaller of the two Gram matrices: both have the same sum of squares.
        gram = z.T @ z if z.shape[1] < len(z) else z @ z.T
        others = gram.square().sum() - itself.square().sum() - 2 * partners.square().sum()
        return -2 * partners.mean() + others / (2 * n * (2 * n - 2))
