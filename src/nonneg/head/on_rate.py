"""On-rates: thresholds that set, or cap, the share of samples for which a feature is on."""

import torch
from torch import Tensor, nn

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
def cap_on_rate(last: nn.Linear, inputs: Tensor, max_on_rate: float) -> None:
    """Lower the bias of each score that is above zero for more than a share of the samples.

    Args:
        last: Makes the scores; its bias changes in place, and only where it has to.
        inputs: Its inputs for the samples ``(n, h)``.
        max_on_rate: The share; one sample is always allowed.
    """
    # 0.29 · 100 is a little less than 29 in floating point.
    n_max = max(1, int(round(max_on_rate * len(inputs), 6)))
    if n_max >= len(inputs):
        return
    for rows in torch.arange(len(last.bias), device=last.bias.device).split(AT_ONCE):
        scores = nn.functional.linear(inputs, last.weight[rows], last.bias[rows])
        n_on = (scores > 0).sum(dim=0)
        highest = thresholds(scores, torch.full_like(n_on, n_max))
        last.bias[rows] -= torch.where(n_on > n_max, highest, 0.0)
