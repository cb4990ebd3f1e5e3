"""When are the features of a run put right, and how do all processes and copies agree on it?

Dead features start anew while the run goes on; after it, those that are on too often are limited.
"""

import math
from collections.abc import Iterable

import torch
from torch.optim import Optimizer

from nonneg.pairs import Batch
from nonneg.revival import excess, forget, last_layer, revive_dead
from nonneg.training.task import Upkeep

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
    upkeep: Upkeep,
    batches: Iterable[Batch],
    optimizer: Optimizer,
    *,
    seed: int,
    decides: bool,
    n_processes: int,
) -> None:
    """Let the dead features of an encoder start anew, in all processes and copies alike.

    Args:
        upkeep: The encoder and its copies.
        batches: What is looked at; only read where it is decided.
        optimizer: Of the encoder.
        seed: Of the samples that features start at.
        decides: Whether this is the process that looks; the others take over what it did.
        n_processes: In all.
    """
    encoder, *copies = upkeep.encoders
    last = last_layer(encoder)
    revived = torch.zeros(encoder.n_features, dtype=torch.bool, device=last.weight.device)
    if decides:
        hidden = torch.cat([encoder.encode(upkeep.views(batch)).hidden for batch in batches])
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


@torch.no_grad()
def limit_alike(
    upkeep: Upkeep,
    batches: Iterable[Batch],
    *,
    max_on_rate: float,
    decides: bool,
    n_processes: int,
) -> None:
    """Let no feature be on for more than a share of the views, in all processes alike.

    Features that are never exactly zero are left as they are.

    Args:
        upkeep: The encoder; copies are left as they are.
        batches: What is looked at; only read where it is decided.
        max_on_rate: The share.
        decides: Whether this is the process that looks; the others take over what it did.
        n_processes: In all.
    """
    encoder = upkeep.encoders[0]
    if not encoder.nonnegative.gives_zeros:
        return
    bias = last_layer(encoder).bias
    if decides:
        scores = torch.cat([encoder.encode(upkeep.views(batch)).scores for batch in batches])
        bias.sub_(excess(scores, max_on_rate).to(bias))
    if n_processes > 1:
        torch.distributed.broadcast(bias.data, src=0)
