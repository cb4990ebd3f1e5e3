"""InfoNCE without each feature in turn, rows re-normalised after the drop.

Without feature i a row has the length ``ρ_r = sqrt(1 - a_ri²)``, so the logit of every pair in
which either has the feature on becomes ``(cos_rc - a_ri c_ci) / (ρ_r ρ_c T)``. A row that has no
other active feature becomes a row of zeros. Everything is computed in float64: the difference in
the numerator cancels where ρ is small.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from nonneg.metrics.activity import ACTIVE_THRESHOLD

_TILE_ENTRIES = 1 << 22
# Below this the weight of untouched candidates has lost digits, and the row is summed anew.
_LEAST_REST = 0.25


def drop_each_renormalised(
    a: Tensor, b: Tensor, temperature: float, negatives: str
) -> tuple[float, Tensor]:
    """The log-sum-exp of all anchors, and how much it changes when each feature is dropped.

    Args:
        a: Unit rows of the first view ``(n, d)``.
        b: Unit rows of the second view ``(n, d)``.
        temperature: Of the logits.
        negatives: ``"both"``: the candidates of a row are the 2n - 1 others; ``"cross"``: the n
            rows of the other view.

    Returns:
        The sum over the 2n anchors, and the sum over them of the change, float64 ``(d,)``.
    """
    a, b = a.double(), b.double()
    if negatives == "both":
        both = torch.cat([a, b])
        return _dropped(both, both, temperature, exclude_self=True)
    forth, back = (_dropped(*views, temperature, exclude_self=False) for views in ((a, b), (b, a)))
    return forth[0] + back[0], forth[1] + back[1]


def _dropped(
    anchors: Tensor, candidates: Tensor, temperature: float, *, exclude_self: bool
) -> tuple[float, Tensor]:
    """The same for the anchors of one side."""
    inverse, other_inverse = _inverse_lengths(anchors), _inverse_lengths(candidates)
    change = anchors.new_zeros(anchors.shape[1])
    total = 0.0
    step = max(1, _TILE_ENTRIES // len(candidates))
    for start in range(0, len(anchors), step):
        tile = anchors[start : start + step]
        logits = (tile @ candidates.T).div_(temperature)  # (rows, m)
        if exclude_self:
            logits.diagonal(start).fill_(-torch.inf)
        normaliser = logits.logsumexp(dim=1)
        total += float(normaliser.sum())
        rows = slice(start, start + len(tile))
        for i in range(anchors.shape[1]):
            without = _Without(
                logits=logits,
                before=normaliser,
                own=tile[:, i],
                others=candidates[:, i] / temperature,
                inverse=inverse[rows, i],
                other_inverse=other_inverse[:, i],
            )
            change[i] += (without.normaliser() - normaliser).sum()
    return total, change


def drop_from_positives_renormalised(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """By how much the sum of the positive pairs' logits falls without each feature, ``(d,)``."""
    a, b = a.double(), b.double()
    cosine = (a * b).sum(dim=1, keepdim=True)
    reduced = (cosine - a * b) * _inverse_lengths(a) * _inverse_lengths(b)
    return (cosine - reduced).sum(dim=0) / temperature


def _inverse_lengths(unit: Tensor) -> Tensor:
    """One over the length of each row without each feature, ``(n, d)``; 0 if nothing is left."""
    squared = 1 - unit.square()
    nothing = squared <= ACTIVE_THRESHOLD**2
    return squared.masked_fill(nothing, 1).rsqrt_().masked_fill_(nothing, 0)


@dataclass(frozen=True, kw_only=True)
class _Without:
    """A tile of logits and what turns them into those without one feature.

    Args:
        logits: With all features ``(rows, m)``.
        before: Their log-sum-exp ``(rows,)``.
        own: The feature of the anchors ``(rows,)``.
        others: The feature of the candidates, over the temperature ``(m,)``.
        inverse: One over the anchors' lengths without the feature ``(rows,)``.
        other_inverse: The same for the candidates ``(m,)``.
    """

    logits: Tensor
    before: Tensor
    own: Tensor
    others: Tensor
    inverse: Tensor
    other_inverse: Tensor

    def normaliser(self) -> Tensor:
        """The log-sum-exp of each row without the feature, ``(rows,)``."""
        after = self.before.clone()
        anew = self.own != 0
        touched = (self.other_inverse != 1).nonzero()[:, 0]
        quiet = (~anew).nonzero()[:, 0]
        if len(touched) and len(quiet):
            old = self.logits[quiet[:, None], touched]
            rest = 1 - (old - self.before[quiet, None]).exp().sum(dim=1)
            new = (old * self.other_inverse[touched]).where(old.isfinite(), -torch.inf)
            untouched = self.before[quiet] + rest.clamp(min=_LEAST_REST).log()
            after[quiet] = torch.logaddexp(untouched, new.logsumexp(dim=1))
            anew[quiet] = rest < _LEAST_REST
        rows = anew.nonzero()[:, 0]
        after[rows] = self._summed_anew(rows)
        return after

    def _summed_anew(self, rows: Tensor) -> Tensor:
        logits = self.logits[rows]
        reduced = (logits - torch.outer(self.own[rows], self.others)).mul_(self.other_inverse)
        reduced.mul_(self.inverse[rows, None])
        return reduced.where(logits.isfinite(), -torch.inf).logsumexp(dim=1)
