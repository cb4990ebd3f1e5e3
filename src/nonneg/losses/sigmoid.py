"""The pairwise sigmoid loss: an independent decision for every pair of rows, partners or not."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses.checks import check_temperature, check_two_views
from nonneg.rows import MIN_LENGTH, unit_rows


def pairwise_sigmoid(
    z_a: Tensor, z_b: Tensor, *, temperature: float | Tensor, bias: float | Tensor | None = None
) -> Tensor:
    """The pairwise sigmoid loss of a batch of pairs, in nats (Zhai et al. 2023, section 3.2).

    ``-1/n · sum_ij log sigmoid( y_ij (s_ij / T + b) )`` with ``s`` the cosine and y 1 for partners,
    -1 for all other pairs of a row of one side and a row of the other.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.
        temperature: Above 0; may be a tensor that learns.
        bias: b; may be a tensor that learns. None takes ``-log(n - 1)``: rows of cosine 0 are then
            partners with the probability that chance gives, 1 / n.

    Example:
        Rows of zeros say nothing: with n = 2 and bias 0 each of the four pairs costs log 2.

        >>> pairwise_sigmoid(torch.zeros(2, 3), torch.zeros(2, 3), temperature=0.2)
        tensor(1.3863)
    """
    check_two_views(z_a, z_b)
    check_temperature(temperature)
    with torch.autocast(z_a.device.type, enabled=False):
        n = len(z_a)
        z_a, z_b = (unit_rows(z, shortest=MIN_LENGTH) for z in (z_a, z_b))
        logits = z_a @ z_b.T / temperature  # (n, n)
        logits = logits + (-math.log(n - 1) if bias is None else bias)
        partner = logits.diagonal()
        # -log sigmoid(-x) for all pairs, and for partners -log sigmoid(x) in its place.
        return (F.softplus(logits).sum() - partner.sum()) / n
