"""InfoNCE: how well a sample picks its partner out of a batch.

The textbook form comes first, and is what runs for batches of ordinary size without weights and
groups. Below it come the loss with all its options, its relatives, and what they are made of.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses._tiled import Keys, tiled_log_sums
from nonneg.losses.checks import (
    check_has_negatives,
    check_pairs,
    check_temperature,
    check_two_views,
)
from nonneg.metrics.inputs import checked_choice
from nonneg.rows import MIN_LENGTH, unit_rows


def textbook_info_nce(
    z_a: Tensor, z_b: Tensor, temperature: float | Tensor, negatives: str = "both"
) -> Tensor:
    """InfoNCE as in the papers: cosines over T, cross entropy towards the partner.

    The arguments are those of ``info_nce``; batches may be of any size.
    """
    z_a, z_b = unit_rows(torch.cat([z_a, z_b]), shortest=MIN_LENGTH).chunk(2)  # (n, d) each
    mask = torch.diag(z_a.new_full((len(z_a),), -math.inf))  # (n, n), 0 off the diagonal
    partner = (z_a * z_b).sum(1) / temperature  # (n,)
    across = z_a @ z_b.T / temperature + mask  # (n, n), row a against row b of other pairs
    others_a, others_b = across.logsumexp(1), across.logsumexp(0)  # (n,)
    if negatives == "both":
        within_a, within_b = (z @ z.T / temperature + mask for z in (z_a, z_b))  # (n, n)
        others_a = others_a.logaddexp(within_a.logsumexp(1))
        others_b = others_b.logaddexp(within_b.logsumexp(1))
    # Cross entropy, -log(e^partner / (e^partner + e^others)), exact also where it is tiny.
    return F.softplus(torch.stack([others_a, others_b]) - partner, threshold=50).mean()


NEGATIVES = ("both", "cross")
SAME_GROUP = ("ignored", "positive")
# From this number of similarities on, tiles are faster than whole matrices.
TILED_FROM = 1024**2


def info_nce(
    z_a: Tensor,
    z_b: Tensor,
    *,
    temperature: float | Tensor,
    negatives: str = "both",
    weights: Tensor | None = None,
    groups: Tensor | None = None,
    same_group: str = "ignored",
) -> Tensor:
    """The mean InfoNCE loss of a batch of pairs, in nats.

    ``-log( exp(s_ij / T) / (exp(s_ij / T) + sum_k exp(s_ik / T)) )`` with ``s`` the cosine, j the
    partner of the anchor i and k its negatives (van den Oord et al. 2018), averaged over all rows
    as anchors. Rows are normalised here; half-precision input is computed in float32. The features
    of NCL and the scores of ordinary contrastive learning go through the same function: the
    transform belongs to the encoder.

    Large batches are computed in tiles: the same value and gradient, in memory that grows with n.
    Tiles, from 512 pairs on (1024 with ``negatives="cross"``), have first derivatives by
    ``backward`` or ``torch.autograd.grad`` only: second ones, ``torch.func.grad`` and forward mode
    raise. Smaller batches have them all.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``; row i belongs to row i of ``z_a``.
        temperature: Above 0; may be a tensor that learns.
        negatives: ``"both"``: all other rows of both views, 2n - 2 for each of the 2n anchors
            (NT-Xent, Chen et al. 2020). ``"cross"``: the rows of the other side only, n - 1 for
            each of the 2n anchors (CLIP, Radford et al. 2021).
        weights: ``(n,)``, at least 0: how much the two anchors of a pair count in the mean.
        groups: ``(n,)`` whole numbers; pairs with the same number are about the same thing, such
            as the captions of one image. Without it every pair is a group of its own.
        same_group: What the other pairs of an anchor's group are. ``"ignored"``: no negatives,
            left out of the sum over k. ``"positive"``: positives as the partner is; the loss of
            an anchor is the mean over its positives j of ``-log( exp(s_ij / T) /
            sum_k exp(s_ik / T) )``, k over all that it is compared with except itself (supervised
            contrastive learning, Khosla et al. 2020, eq. 2).

    An all-zero row has cosine 0 with everything; its loss is finite and its gradient bounded. So
    has a row no longer than 1e-6, whose gradient would not be: multiply features of that scale. An
    anchor that has no negatives, because all are in its group, has loss 0.

    Example:
        Equal rows leave nothing to choose by: the loss is ``log(2n - 1)``, here log 3.

        >>> info_nce(torch.ones(2, 4), torch.ones(2, 4), temperature=0.2)
        tensor(1.0986)
    """
    check_two_views(z_a, z_b)
    check_temperature(temperature)
    check_pairs(len(z_a), weights=weights, groups=groups)
    checked_choice(negatives, NEGATIVES, "negatives")
    checked_choice(same_group, SAME_GROUP, "same_group")
    n_rows = 2 * len(z_a) if negatives == "both" else len(z_a)
    # Autocast would round the similarities to half precision just before they are divided by T.
    with torch.autocast(z_a.device.type, enabled=False):
        if weights is None and groups is None and n_rows**2 < TILED_FROM:
            return textbook_info_nce(z_a, z_b, temperature, negatives)
        pairs = scaled_pairs(z_a, z_b, temperature=temperature, groups=groups)
        losses = anchor_losses(pairs, pairs, negatives=negatives, same_group=same_group)
        return pair_mean(losses, weights)


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
    check_temperature(temperature)
    with torch.autocast(z_a.device.type, enabled=False):
        pairs = scaled_pairs(z_a, z_b, temperature=temperature)
        others, partner = others_and_partner(pairs, pairs, negatives="both")
        return (others - partner).mean()


def info_nce_queue(z: Tensor, keys: Tensor, queue: Tensor, *, temperature: float) -> Tensor:
    """The mean InfoNCE loss of anchors against their keys and a queue (He et al. 2020, eq. 1).

    Args:
        z: The anchors ``(n, d)``.
        keys: Their partners ``(n, d)``; no gradient flows to them.
        queue: The negatives of all anchors ``(k, d)``; none either.
        temperature: Above 0.

    Example:
        All rows are equal: the loss is ``log(1 + k)``, here log 4.

        >>> info_nce_queue(torch.ones(2, 5), torch.ones(2, 5), torch.ones(3, 5), temperature=0.2)
        tensor(1.3863)
    """
    check_two_views(z, keys)
    check_temperature(temperature)
    if queue.ndim != 2 or queue.shape[1] != z.shape[1] or not len(queue):
        raise ValueError(
            f"the queue must be (n_negatives, {z.shape[1]}), got shape {tuple(queue.shape)}"
        )
    with torch.autocast(z.device.type, enabled=False):
        rows = (z, keys.detach(), queue.detach())
        z, keys, queue = (unit_rows(part, shortest=MIN_LENGTH) for part in rows)
        partner = (z * keys).sum(1) / temperature  # (n,)
        others = (z @ queue.T / temperature).logsumexp(1)  # (n,)
        return F.softplus(others - partner, threshold=50).mean()


class PairRows(NamedTuple):
    """Both views of n pairs; the dot product of two rows is their similarity divided by T."""

    rows: Tensor
    """``(2 n, d)``: row a and row b of the first pair, of the second, and so on."""
    numbers: Tensor
    """``(n,)``: which pair of the whole batch each is."""
    groups: Tensor
    """``(n,)``: pairs with the same number are about the same thing."""

    def views(self) -> tuple[Tensor, ...]:
        """Both views, ``(n, d)`` each: row i of the one belongs to row i of the other."""
        return self.rows.view(len(self.numbers), 2, -1).unbind(1)

    def numbered_from(self, first: int) -> "PairRows":
        """The same pairs as a part of a larger batch, in which ``first`` pairs come before."""
        numbers = self.numbers + first
        return PairRows(self.rows, numbers, numbers if self.groups is self.numbers else self.groups)

    def keys(self, *, of_groups: bool) -> Tensor:
        """For each row the number of its group, or one of its own; ``(2 n,)``."""
        if of_groups:
            return self.groups.repeat_interleave(2)
        return torch.stack([2 * self.numbers, 2 * self.numbers + 1], dim=1).flatten()


def scaled_pairs(
    z_a: Tensor, z_b: Tensor, *, temperature: float | Tensor, groups: Tensor | None = None
) -> PairRows:
    """Rows of length ``1 / sqrt(T)``: their dot products are cosines divided by T.

    Args:
        z_a: ``(n, d)``.
        z_b: ``(n, d)``.
        temperature: Above 0; a gradient flows to it if it is a tensor that learns.
        groups: ``(n,)``; None makes every pair a group of its own.
    """
    numbers = torch.arange(len(z_a), device=z_a.device)
    rows = torch.stack([z_a, z_b], dim=1).flatten(0, 1)  # (2n, d), partners side by side
    rows = unit_rows(rows, length=temperature**-0.5, shortest=MIN_LENGTH)
    return PairRows(rows, numbers, numbers if groups is None else groups)


def pair_mean(losses: Tensor, weights: Tensor | None, *, total: Tensor | None = None) -> Tensor:
    """The mean of the losses of both anchors of each pair, weighted if there are weights.

    Args:
        losses: ``(n, 2)``.
        weights: ``(n,)``, at least 0.
        total: The sum of the weights, where it is not just that of these.

    Example:
        >>> pair_mean(torch.tensor([[1.0, 1.0], [2.0, 4.0]]), torch.tensor([1, 3]))
        tensor(2.5000)
    """
    if weights is None:
        return losses.mean()
    total = weights.sum() if total is None else total
    if not total > 0:
        raise ValueError("all weights are 0: there is nothing to average")
    return (losses.mean(1) * weights.to(losses)).sum() / total.to(losses)


def anchor_losses(own: PairRows, everyone: PairRows, *, negatives: str, same_group: str) -> Tensor:
    """The loss of both anchors of each pair, ``(n, 2)``.

    Args:
        own: The anchors.
        everyone: All pairs that they are compared with, their own among them.
        negatives: As for ``info_nce``.
        same_group: As for ``info_nce``.
    """
    if same_group == "positive":
        candidates = _log_sums(own, everyone, negatives, but_groups=False)
        return candidates - mean_positive(own, everyone, negatives)
    others, partner = others_and_partner(own, everyone, negatives=negatives)
    # log(1 + exp(others - partner)), which is exact also where the loss is tiny.
    return F.softplus(others - partner, threshold=50)


def others_and_partner(
    own: PairRows, everyone: PairRows, *, negatives: str
) -> tuple[Tensor, Tensor]:
    """The log-sum-exp over the negatives of each anchor ``(n, 2)``, and its partner ``(n, 1)``.

    Args:
        own: The anchors.
        everyone: All pairs that they are compared with; those of the same group are no negatives.
        negatives: As for ``info_nce``.
    """
    if everyone.groups is not everyone.numbers:
        check_has_negatives(everyone.groups)
    a, b = own.views()
    others = _log_sums(own, everyone, negatives, but_groups=True)
    return others, (a * b).sum(1, keepdim=True)


def mean_positive(own: PairRows, everyone: PairRows, negatives: str) -> Tensor:
    """The mean similarity of each anchor to all positives of its group, ``(n, 2)``.

    By sums over groups: no matrix of similarities is needed.

    Args:
        own: The anchors.
        everyone: Those they are compared with, the anchors among them.
        negatives: ``"both"``: all other rows of the group are positives; ``"cross"``: those of
            the other side.
    """
    groups, inverse, sizes = everyone.groups.unique(return_inverse=True, return_counts=True)
    place = torch.searchsorted(groups, own.groups)
    empty = everyone.rows.new_zeros(len(groups), everyone.rows.shape[1])
    sum_a, sum_b = (empty.index_add(0, inverse, view)[place] for view in everyone.views())
    a, b = own.views()
    count = sizes[place]
    if negatives == "both":
        of_group = sum_a + sum_b
        sum_b, sum_a, count = of_group - a, of_group - b, 2 * count - 1
    return torch.stack([(a * sum_b).sum(1), (b * sum_a).sum(1)], dim=1).div(count[:, None])


def _log_sums(own: PairRows, everyone: PairRows, negatives: str, *, but_groups: bool) -> Tensor:
    """The log-sum-exp over what each anchor is compared with, ``(n, 2)``; never with itself."""
    if negatives == "both":
        row_keys = Keys(own.keys(of_groups=but_groups), everyone.keys(of_groups=but_groups))
        columns = None if own is everyone else everyone.rows
        return log_sums(own.rows, columns, row_keys)[0].view(-1, 2)
    keys = Keys(own.groups, everyone.groups) if but_groups else None
    (a, b), (all_a, all_b) = own.views(), everyone.views()
    if own is everyone:
        return torch.stack(log_sums(a, b, keys), dim=1)
    return torch.stack([log_sums(a, all_b, keys)[0], log_sums(b, all_a, keys)[0]], dim=1)


def log_sums(rows: Tensor, columns: Tensor | None, keys: Keys | None) -> tuple[Tensor, Tensor]:
    """The plain form of ``tiled_log_sums``, or that itself where the matrix would be large."""
    n_columns = len(rows if columns is None else columns)
    if len(rows) * n_columns >= TILED_FROM:
        return tiled_log_sums(rows, columns, keys)
    logits = rows @ (rows if columns is None else columns).T  # (n_rows, n_columns)
    if keys is not None:
        logits = logits.masked_fill(keys.of_rows[:, None] == keys.of_columns, -math.inf)
    of_rows = logits.logsumexp(1)
    return of_rows, of_rows if columns is None else logits.logsumexp(0)
