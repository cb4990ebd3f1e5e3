"""Decoupled contrastive learning: InfoNCE whose anchor does not compete with its own partner."""

import torch
from torch import Tensor

from nonneg.losses.info_nce import others_and_partner, scaled_pairs
from nonneg.losses.rows import check_two_views


def decoupled_contrastive(z_a: Tensor, z_b: Tensor, *, temperature: float | Tensor) -> Tensor:
    """The decoupled contrastive loss of a batch of pairs, in nats (Yeh et al. 2022, eq. 6).

    ``-s_ij / T + log sum_k exp(s_ik / T)`` with ``s`` the cosine, j the partner of the anchor i and
    k its 2n - 2 negatives: the partner is not among the terms of the sum, so an anchor that is
    already right keeps its gradient. Averaged over all 2n rows as anchors; may be below zero.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.
        temperature: Above 0.

    Example:
        Equal rows: the loss is ``log(2n - 2)``, here log 2.

        >>> decoupled_contrastive(torch.ones(2, 4), torch.ones(2, 4), temperature=0.2)
        tensor(0.6931)
    """
    check_two_views(z_a, z_b)
    with torch.autocast(z_a.device.type, enabled=False):
        pairs = scaled_pairs(z_a, z_b, temperature=temperature)
        others, partner = others_and_partner(pairs, pairs, negatives="both")
        return (others - partner).mean()
