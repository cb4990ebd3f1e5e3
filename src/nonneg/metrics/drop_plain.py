"""What does InfoNCE lose without a feature? All features at once, rows not re-normalised.

With ``e_rc = exp(cos_rc / T)``, dropping feature i changes the log-sum-exp of anchor r by
``log(1 + s_ri / Σ_c e_rc)``, ``s_ri = Σ_c e_rc (exp(-a_ri c_ci / T) - 1)``. One pass over the
matrix of e serves all features, and both directions: anchors in rows and anchors in columns.
"""

import torch
from torch import Tensor

from nonneg.metrics.drop_plan import cheapest_plan
from nonneg.metrics.drop_strip import Anchors, Strip

_STRIP_ENTRIES = 1 << 24
# Outside these a ratio has lost digits or overflows, and the anchor is summed anew.
_LEAST_RATIO, _LARGEST_RATIO = 0.25, 1e4
# If logits differ by more than this, or a sum of e is below that, terms may have underflowed.
_LARGEST_SPREAD = {torch.float32: 80, torch.float64: 600}
_LEAST_SUM = {torch.float32: 1e-25, torch.float64: 1e-250}


def drop_each(a: Tensor, b: Tensor, temperature: float, negatives: str) -> tuple[float, Tensor]:
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
    if negatives == "both":
        a = b = torch.cat([a, b])
    plan = cheapest_plan(a, b, temperature)
    rows = Anchors.of(a, plan.least_anchor, plan.alone)
    columns = rows if b is a else Anchors.of(b, plan.least_candidate, plan.alone)
    step = max(1, _STRIP_ENTRIES // len(b))
    for start in range(0, len(a), step):
        Strip(rows, columns, slice(start, min(start + step, len(a))), temperature).add(plan)
    total, change = _log_sums(rows, columns, temperature)
    if columns is not rows:
        total_back, change_back = _log_sums(columns, rows, temperature)
        total, change = total + total_back, change + change_back
    return total, change


def drop_from_positives(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """How much of the sum of the positive pairs' logits each feature holds, float64 ``(d,)``."""
    return (a * b).sum(dim=0, dtype=torch.float64) / temperature


def _log_sums(anchors: Anchors, candidates: Anchors, temperature: float) -> tuple[float, Tensor]:
    """The log-sum-exp of the anchors and its changes, each summed over the anchors."""
    dtype, device = anchors.values.dtype, anchors.values.device
    kept = anchors.total >= _LEAST_SUM[dtype]
    if 2 / temperature > _LARGEST_SPREAD[dtype]:
        kept = torch.zeros_like(kept)
    total = anchors.total.where(kept, 1)
    logs = total.log() + 1 / temperature
    ratio = (anchors.series + torch.from_numpy(anchors.pairs).to(device)) / total.to(dtype)
    sound = (ratio >= _LEAST_RATIO - 1) & (ratio <= _LARGEST_RATIO) & kept
    change = ratio.where(sound, 0).log1p_().sum(dim=1, dtype=torch.float64)
    anew = (~sound).any(dim=0).nonzero()[:, 0]
    for some in anew.split(max(1, _STRIP_ENTRIES // len(candidates.total))):
        logits = anchors.values[:, some].T @ candidates.values / temperature
        if candidates is anchors:
            logits[torch.arange(len(some)), some] = -torch.inf
        logs[some] = logits.logsumexp(dim=1).double()
        change += _summed_anew(
            logits, ~sound[:, some], anchors.values[:, some], candidates.values / temperature
        )
    return float(logs.sum()), change


def _summed_anew(logits: Tensor, wanted: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """The change of the log-sum-exp where it is wanted ``(d, rows)``, summed over the rows."""
    change = torch.zeros(len(wanted), dtype=torch.float64, device=logits.device)
    before = logits.logsumexp(dim=1)
    for i in wanted.any(dim=1).nonzero()[:, 0].tolist():
        rows = wanted[i].nonzero()[:, 0]
        reduced = logits[rows] - torch.outer(own[i, rows], others[i])
        change[i] = (reduced.logsumexp(dim=1) - before[rows]).sum(dtype=torch.float64)
    return change
