"""Tight frames: last-layer weights that keep the angles between samples.

Scores are a linear map of what the last layer reads. A loss that pulls views together makes this
map long in a few directions and short in all others, and neighbours by features are then those
along the long ones. The nearest map that is equally long in all directions leaves each feature
close to what it has learnt, and the angles between samples as they were.
"""

import torch
from torch import Tensor, nn

from nonneg.head.on_rate import AT_ONCE, thresholds


@torch.no_grad()
def nearest_frame(weight: Tensor) -> Tensor:
    """The nearest weights of equal singular values, as long altogether as the given ones.

    They are a tight frame: ``WᵀW`` is a multiple of the identity, so that ``Wx`` and ``Wy`` have
    the angle of x and y. Directions in the null space of the given weights stay there; with fewer
    rows than columns there always are some.

    Args:
        weight: ``(d, h)``.

    Example:
        >>> nearest_frame(torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        tensor([[2.2361, 0.0000],
                [0.0000, 2.2361],
                [0.0000, 0.0000]])
    """
    # Not every device has float64.
    left, lengths, right = torch.linalg.svd(weight.cpu().double(), full_matrices=False)
    # A singular value that is only rounding error has a direction that is rounding error too.
    seen = lengths > 32 * torch.finfo(torch.float32).eps * lengths.norm()
    length = (lengths[seen].square().sum() / seen.sum().clamp_min(1)).sqrt()
    frame: Tensor = left[:, seen] @ right[seen] * length
    return frame.to(weight)


@torch.no_grad()
def make_tight_frame(last: nn.Linear, inputs: Tensor | None) -> None:
    """Give a layer the nearest tight frame as weights, with the on-rates of its features unchanged.

    Args:
        last: Changes in place. The bias is not part of the frame.
        inputs: Its inputs for some samples ``(n, h)``, two or more: each score is then above zero
            for as many of them as before, or for fewer where several are equal at the edge. Scores
            that are above zero for none keep their weights and bias. None for signed scores, which
            all get new weights and keep their bias.
    """
    if not torch.isfinite(last.weight).all():
        return  # the run has diverged, and says so where it measures
    if inputs is None:
        last.weight.copy_(nearest_frame(last.weight))
        return
    if len(inputs) < 2:
        raise ValueError(f"on-rates are kept by at least two samples, got {len(inputs)}; give more")
    every = torch.arange(len(last.weight), device=last.weight.device)
    n_on = torch.cat(
        [(_scores(last, inputs, rows) > 0).sum(dim=0) for rows in every.split(AT_ONCE)]
    )
    alive = every[n_on > 0]
    if len(alive) == 0:
        return
    before = last.weight[alive]
    after = nearest_frame(before)
    growth = after.norm(dim=1) / before.norm(dim=1).clamp_min(torch.finfo(before.dtype).tiny)
    for part in torch.arange(len(alive), device=alive.device).split(AT_ONCE):
        rows = alive[part]
        least = _scores(last, inputs, rows).amin(dim=0)
        last.weight[rows], last.bias[rows] = after[part], 0.0
        scores = _scores(last, inputs, rows)
        # What is on for all stays as far above zero as it was.
        for_all = scores.amin(dim=0) - least * growth[part]
        for_some = thresholds(scores, n_on[rows].clamp_max(len(inputs) - 1))
        last.bias[rows] = -torch.where(n_on[rows] == len(inputs), for_all, for_some)


def _scores(last: nn.Linear, inputs: Tensor, rows: Tensor) -> Tensor:
    """The scores of some features ``(n, len(rows))``."""
    return nn.functional.linear(inputs, last.weight[rows], last.bias[rows])
