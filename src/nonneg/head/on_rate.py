"""On-rates: thresholds that set, or bound, how often features are on."""

import numpy as np
import torch
from torch import Tensor, nn

from nonneg.rows import unit_rows

# Features that are looked at together: there may be very many, and as many samples.
AT_ONCE = 1024


def thresholds(scores: Tensor, n_on: Tensor) -> Tensor:
    """Halfway between the last score that is to be on and the next, ``(d,)``.

    Where these two are equal, the threshold is just above them, and neither is on.

    Args:
        scores: ``(n, d)``, of samples.
        n_on: How many are to be on, ``(d,)``, each from 1 to n - 1.

    Example:
        >>> scores = torch.tensor([[4.0, 1.0], [2.0, 7.0], [1.0, 5.0]])
        >>> thresholds(scores, torch.tensor([1, 2]))
        tensor([3., 3.])
    """
    highest = scores.topk(int(n_on.max()) + 1, dim=0).values
    last_on, first_off = highest.gather(0, torch.stack([n_on - 1, n_on]))
    # One that lies just on the edge would be on or off by rounding.
    above = last_on + 1e-5 * last_on.abs().clamp_min(1e-5)
    return torch.where(last_on > first_off, (last_on + first_off) / 2, above)


@torch.no_grad()
def bound_on_rate(
    last: nn.Linear, inputs: Tensor, *, least: float = 0.0, most: float = 1.0
) -> None:
    """Move the bias of each score that is above zero for too few or too many of the samples.

    Args:
        last: Makes the scores; its bias changes in place, and only where it has to.
        inputs: Its inputs for the samples ``(n, h)``.
        least: The smallest share of the samples that a score is to be above zero for; where scores
            are equal at the edge, it may be fewer.
        most: The largest; one sample is always allowed.
    """
    # 0.29 · 100 is a little less than 29 in floating point.
    n_least, n_most = (int(round(rate * len(inputs), 6)) for rate in (least, most))
    n_most = max(1, n_most)
    n_least = min(n_least, n_most, len(inputs) - 1)
    if n_least <= 0 and n_most >= len(inputs):
        return
    for rows in torch.arange(len(last.bias), device=last.bias.device).split(AT_ONCE):
        scores = nn.functional.linear(inputs, last.weight[rows], last.bias[rows])
        n_on = (scores > 0).sum(dim=0)
        bounded = n_on.clamp(n_least, n_most)
        moved = bounded != n_on
        # Thresholds are of one sample or more: where none is needed, that of one is not used.
        found = thresholds(scores, torch.where(moved, bounded, 1))
        last.bias[rows] -= torch.where(moved, found, 0.0)


@torch.no_grad()
def raise_bias(
    last: nn.Linear, scores: Tensor, target_active: float, *, share: float = 1.0
) -> float:
    """Raise all biases by one number, towards the target, if too few scores are above zero.

    Args:
        last: The layer that makes the scores; its bias changes in place.
        scores: Of samples like those to come, ``(n, d)``.
        target_active: Mean number of scores above zero per sample.
        share: How much of the way to go, up to 1.

    Returns:
        What was added to every bias: 0 where enough are on already.

    Example:
        >>> layer, scores = nn.Linear(1, 3), torch.tensor([[1.0, -2.0, -4.0]])
        >>> raise_bias(layer, scores, target_active=2)
        3.0
    """
    shift = share * max(0.0, -_border(scores, target_active))
    last.bias.add_(shift)
    return shift


def row_threshold(features: Tensor, target_active: float) -> float:
    """The size, in rows scaled to length 1, above which the target's number of entries lies.

    Dropping by one bias for all would empty the rows of weak samples; relative to the length of
    the row, each sample keeps its strongest.

    Args:
        features: Of samples like those to come, non-negative ``(n, d)``.
        target_active: Mean number of entries to keep per sample.

    Returns:
        0 where no more are on than that.

    Example:
        >>> round(row_threshold(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), target_active=1), 6)
        0.7
    """
    return min(1.0, max(0.0, _border(unit_rows(features), target_active)))


def _border(values: Tensor, per_row: float) -> float:
    """Halfway between the last value that belongs to the largest ones and the next."""
    flat = values.flatten().cpu().numpy()
    n_kept = max(1, min(round(per_row * len(values)), len(flat) - 1))
    places = (len(flat) - n_kept - 1, len(flat) - n_kept)
    ordered = np.partition(flat, places)
    return float(ordered[places[0]] + ordered[places[1]]) / 2
