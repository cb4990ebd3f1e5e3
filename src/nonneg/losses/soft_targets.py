"""Soft targets: InfoNCE whose positives are a distribution over the batch.

InfoNCE asks an anchor to pick its one partner and to push all other samples away alike, also those
that are nearly as near. Where it is known how near they are, by the vectors' own cosines, the
weights of a graph or the captions that share an image, the loss can be told.
"""

import torch
from torch import Tensor

from nonneg.losses.checks import check_temperature, check_two_views
from nonneg.rows import MIN_LENGTH, unit_rows


def soft_info_nce(
    z_a: Tensor,
    z_b: Tensor,
    *,
    weights: Tensor,
    temperature: float | Tensor,
    partner_rate: float = 0.0,
) -> Tensor:
    """The mean cross entropy between the targets of each anchor and its similarities, in nats.

    ``-sum_j t_ij log( exp(s_ij / T) / sum_k exp(s_ik / T) )`` with ``s`` the cosine and j, k over
    the rows of the other side, averaged over the 2n rows as anchors. The targets ``t_i`` are the
    weights of i scaled to sum 1, by rows for the anchors of ``z_a`` and by columns for those of
    ``z_b``, with a share of ``partner_rate`` moved to the partner. Weights that are the identity
    give ``info_nce(…, negatives="cross")``. The least value is the mean entropy of the targets,
    reached where the similarities reproduce them.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``; row i is the partner of row i of ``z_a``.
        weights: ``(n, n)``, at least 0: how strongly row i of ``z_a`` belongs with row j of
            ``z_b``. No gradient flows to them. An anchor whose weights are all 0 has its partner
            as the only positive.
        temperature: Above 0; may be a tensor that learns.
        partner_rate: In [0, 1]: the share of the partner in the targets, whatever the weights say.

    Example:
        Equal rows leave nothing to choose by: the loss is ``log(n)``, whatever the targets.

        >>> rows = torch.ones(2, 4)
        >>> soft_info_nce(rows, rows, weights=torch.rand(2, 2), temperature=0.2)
        tensor(0.6931)
    """
    check_two_views(z_a, z_b)
    check_temperature(temperature)
    _check_targets(len(z_a), weights, partner_rate)
    with torch.autocast(z_a.device.type, enabled=False):
        z_a, z_b = unit_rows(torch.cat([z_a, z_b]), shortest=MIN_LENGTH).chunk(2)  # (n, d) each
        logits = z_a @ z_b.T / temperature  # (n, n)
        partner = logits.diagonal()  # (n,)
        losses = []
        for of_anchors, given in ((logits, weights), (logits.T, weights.T)):
            given = given.detach().to(logits)
            total = given.sum(1, keepdim=True)
            share = given / total.where(total > 0, 1)  # (n, n), rows of sum 1 or 0
            alone = partner_rate + (1 - partner_rate) * (total[:, 0] == 0).to(logits)  # (n,)
            expected = (1 - partner_rate) * (share * of_anchors).sum(1) + alone * partner
            losses.append(of_anchors.logsumexp(1) - expected)
        return torch.stack(losses).mean()


def cosine_weights(x_a: Tensor, x_b: Tensor, *, temperature: float) -> Tensor:
    """Weights for soft targets from the vectors themselves, ``exp((cosine - 1) / T)``, ``(n, n)``.

    Scaled to sum 1 they are the softmax of the cosines over the teacher temperature T.

    Args:
        x_a: The teacher's vectors of one side ``(n, h)``.
        x_b: Those of the other side ``(n, h)``.
        temperature: Above 0. The lower, the nearer to the nearest alone.

    Example:
        >>> cosine_weights(torch.eye(2), torch.eye(2), temperature=1.0)
        tensor([[1.0000, 0.3679],
                [0.3679, 1.0000]])
    """
    check_temperature(temperature)
    with torch.autocast(x_a.device.type, enabled=False):
        x_a, x_b = (unit_rows(x, shortest=MIN_LENGTH) for x in (x_a, x_b))
        return ((x_a @ x_b.T - 1) / temperature).exp()


def group_weights(groups_a: Tensor, groups_b: Tensor) -> Tensor:
    """Weights for soft targets that are 1 within a group, as for the captions of one image.

    Args:
        groups_a: Whole numbers ``(n,)``.
        groups_b: Whole numbers ``(m,)``.

    Example:
        >>> group_weights(torch.tensor([0, 1]), torch.tensor([1, 1, 0]))
        tensor([[0., 0., 1.],
                [1., 1., 0.]])
    """
    return (groups_a[:, None] == groups_b).float()


def _check_targets(n: int, weights: Tensor, partner_rate: float) -> None:
    if weights.shape != (n, n):
        raise ValueError(
            f"weights must be ({n}, {n}), one for each row of z_a and of z_b, got shape "
            f"{tuple(weights.shape)}"
        )
    if not bool((weights >= 0).all() & weights.isfinite().all()):
        raise ValueError("weights must be finite and at least 0")
    if not 0 <= partner_rate <= 1:
        raise ValueError(f"partner_rate is a share, in [0, 1], got {partner_rate:g}")
