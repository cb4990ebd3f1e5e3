"""InfoNCE against a queue: the negatives are rows of earlier batches."""

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.losses.info_nce import check_temperature
from nonneg.losses.rows import check_two_views, unit_rows


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
        anchors = unit_rows(z)
        partner = (anchors * unit_rows(keys.detach())).sum(1) / temperature  # (n,)
        others = (anchors @ unit_rows(queue.detach()).T / temperature).logsumexp(1)  # (n,)
        return F.softplus(others - partner, threshold=50).mean()
