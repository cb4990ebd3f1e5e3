"""Can features compare samples as the backbone does? With weights that keep its angles.

Scores are a linear map of what the last layer reads. A loss that pulls views together makes this
map long in a few directions and short in all others, and neighbours by features are then those
along the long ones. The nearest map that is equally long in all directions leaves each feature
close to what it has learnt, and the angles between samples as they were.
"""

import torch
from torch import Tensor, nn

_AT_ONCE = 4096


@torch.no_grad()
def nearest_frame(weight: Tensor) -> Tensor:
    """The nearest weights of equal singular values, as long altogether as the given ones.

    They are a tight frame: ``WᵀW`` is a multiple of the identity, so that ``Wx`` and ``Wy`` have
    the angle of x and y. Directions that the given weights do not see stay unseen: there may be
    such, always with fewer rows than columns.

    Args:
        weight: ``(d, h)``.

    Example:
        >>> nearest_frame(torch.tensor([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        tensor([[2.2361, 0.0000],
                [0.0000, 2.2361],
                [0.0000, 0.0000]])
    """
    left, lengths, right = torch.linalg.svd(weight.double(), full_matrices=False)
    # Of a length that is only rounding the sign is too; the same tolerance as for a matrix's rank.
    seen = lengths > max(weight.shape) * torch.finfo(weight.dtype).eps * lengths[0]
    length = (lengths[seen].square().sum() / seen.sum().clamp_min(1)).sqrt()
    frame: Tensor = left[:, seen] @ right[seen] * length
    return frame.to(weight)


@torch.no_grad()
def keep_angles(last: nn.Linear, inputs: Tensor | None) -> None:
    """Give a layer the nearest weights that keep angles, and features the on-rates that they had.

    Args:
        last: Changes in place.
        inputs: What it reads of some samples ``(n, h)``: each score is then above zero for as many
            of them as before. None for signed scores, whose bias stays as it is.
    """
    if not torch.isfinite(last.weight).all():
        return  # the run has diverged, and says so where it measures
    before = last.weight.clone()
    last.weight.copy_(nearest_frame(before))
    if inputs is None:
        return
    for rows in torch.arange(len(before), device=before.device).split(_AT_ONCE):
        n_on = (inputs @ before[rows].T + last.bias[rows] > 0).sum(dim=0)
        last.bias[rows] = -_thresholds(inputs @ last.weight[rows].T, n_on)


def _thresholds(scores: Tensor, n_on: Tensor) -> Tensor:
    """Halfway between the last score that is on and the next: ``(d,)`` for scores ``(n, d)``."""
    ordered = scores.sort(dim=0, descending=True).values
    margin = 1e-3 * scores.abs().amax(dim=0, keepdim=True).clamp_min(1e-6)
    edged = torch.cat([ordered[:1] + margin, ordered, ordered[-1:] - margin])  # (n + 2, d)
    places = torch.stack([n_on, n_on + 1])  # (2, d)
    return edged.gather(0, places).mean(dim=0)
