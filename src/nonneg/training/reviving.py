"""When do dead features start anew in a run, and how do all processes and copies agree on it?"""

import math
from collections.abc import Iterable

import torch
from torch.optim import Optimizer

from nonneg.pairs import Batch
from nonneg.revival import forget, last_layer, revive_dead
from nonneg.training.task import Revival

# As shares of all steps: early enough to learn after it.
_REVIVALS = (1 / 6, 1 / 3, 1 / 2, 2 / 3)
_MAX_DEAD_RATE = 0.05
# Views that a feature has to be off for to count as dead.
_N_VIEWS = 4096


def revival_steps(n_steps: int) -> set[int]:
    """After which steps of a run dead features are looked for; never after the last.

    Example:
        >>> sorted(revival_steps(60)), revival_steps(1)
        ([10, 20, 30, 40], set())
    """
    steps = {round(share * n_steps) for share in _REVIVALS}
    return {step for step in steps if 0 < step < n_steps}


def n_looked_at(batch_size: int) -> int:
    """How many batches of pairs have 4,096 views.

    Example:
        >>> n_looked_at(256)
        8
    """
    return math.ceil(_N_VIEWS / (2 * batch_size))


@torch.no_grad()
def revive_alike(
    revival: Revival,
    batches: Iterable[Batch],
    optimizer: Optimizer,
    *,
    seed: int,
    decides: bool,
    n_processes: int,
) -> None:
    """Let the dead features of an encoder start anew, in all processes and copies alike.

    Args:
        revival: The encoder and its copies.
        batches: What is looked at; only read where it is decided.
        optimizer: Of the encoder.
        seed: Of the samples that features start at.
        decides: Whether this is the process that looks; the others take over what it did.
        n_processes: In all.
    """
    encoder, *copies = revival.encoders
    last = last_layer(encoder)
    revived = torch.zeros(encoder.n_features, dtype=torch.bool, device=last.weight.device)
    if decides:
        hidden = torch.cat([encoder.encode(revival.views(batch)).hidden for batch in batches])
        generator = torch.Generator().manual_seed(seed)
        looked_at = [(encoder, hidden.to(last.weight.device))]
        revived = revive_dead(looked_at, generator, max_dead_rate=_MAX_DEAD_RATE)
    if n_processes > 1:
        marks = revived.to(last.weight.dtype)
        for tensor in (last.weight.data, last.bias.data, marks):
            torch.distributed.broadcast(tensor, src=0)
        revived = marks > 0
    for copy in map(last_layer, copies):
        copy.weight[revived], copy.bias[revived] = last.weight[revived], last.bias[revived]
    forget(optimizer, last, revived)
