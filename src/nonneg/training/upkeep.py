"""The upkeep of features during a run, alike in all processes and copies.

All features may be re-initialised once while the run goes on, and dead ones several times; after it
the last layer may become a tight frame, and features that are on too often are capped.
"""

import math
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from nonneg.encoder import Encoder
from nonneg.head.on_rate import bound_on_rate
from nonneg.head.revival import forget, last_inputs, last_layer, reinitialise, revive_dead
from nonneg.head.tight_frame import make_tight_frame
from nonneg.pairs.protocol import Batch
from nonneg.training.settings import LoopSettings
from nonneg.training.task import Upkeep

# As shares of all steps: early enough to learn after it.
_REVIVALS = (1 / 6, 1 / 3, 1 / 2, 2 / 3)
_MAX_DEAD_RATE = 0.05
# Views that a feature has to be off for to count as dead; each re-initialised one needs a view.
_N_VIEWS = 4096

Which = Literal["dead", "all"]


def restart_steps(n_steps: int, reinit_at: float) -> dict[int, Which]:
    """The features to re-initialise by the step after which it is done; never after the last.

    Before the re-initialisation of all, looking for dead ones is of no use.

    Args:
        n_steps: Of the whole run.
        reinit_at: The share of them after which all features are re-initialised; 0 for never. A
            share that falls on no step between the first and the last also means never.

    Example:
        >>> restart_steps(60, 0), restart_steps(1, 0.5)
        ({10: 'dead', 20: 'dead', 30: 'dead', 40: 'dead'}, {})
        >>> restart_steps(60, 0.5), restart_steps(6, 0.95)
        ({30: 'all', 40: 'dead'}, {1: 'dead', 2: 'dead', 3: 'dead', 4: 'dead'})
    """
    first = round(reinit_at * n_steps)
    first = first if first < n_steps else 0
    steps: dict[int, Which] = {first: "all"}
    steps |= {step: "dead" for step in (round(s * n_steps) for s in _REVIVALS) if step > first}
    return {step: which for step, which in steps.items() if 0 < step < n_steps}


def restarts(upkeep: Upkeep | None, n_steps: int, reinit_at: float) -> dict[int, Which]:
    """``restart_steps`` for the features of a run; signed ones are never re-initialised."""
    transform = upkeep.encoders[0].nonnegative if upkeep else None
    if transform is None or not transform.is_nonnegative:
        return {}
    return restart_steps(n_steps, reinit_at if transform.gives_zeros else 0)


def n_looked_at(batch_size: int, *, n_restarted: int = 0) -> int:
    """The number of batches with 4,096 views, and one view per re-initialised feature.

    Example:
        >>> n_looked_at(256), n_looked_at(256, n_restarted=5000)
        (8, 10)
    """
    return math.ceil(max(_N_VIEWS, n_restarted) / (2 * batch_size))


@torch.no_grad()
def restart_features(
    upkeep: Upkeep,
    batches: Iterable[Batch],
    optimizer: Optimizer,
    *,
    which: Which,
    seed: int,
    decides: bool,
    n_processes: int,
) -> None:
    """Re-initialise the dead features of an encoder, or all, alike in all processes and copies.

    Args:
        upkeep: The encoder and its copies.
        batches: What is inspected; only read by the process that decides.
        optimizer: Of the encoder.
        which: Dead ones, if they are more than a few, or all.
        seed: Of the samples that features are re-initialised at.
        decides: Whether this is the process that looks; the others take over what it did.
        n_processes: In all.
    """
    encoder, *copies = upkeep.encoders
    last = last_layer(encoder)
    new = torch.zeros(encoder.n_features, dtype=torch.bool, device=last.weight.device)
    if decides:
        hidden, generator = _hidden(upkeep, batches), torch.Generator().manual_seed(seed)
        new = (
            reinitialise(encoder, hidden, generator)
            if which == "all"
            else revive_dead([(encoder, hidden)], generator, max_dead_rate=_MAX_DEAD_RATE)
        )
    if n_processes > 1:
        marks = new.to(last.weight.dtype)
        for tensor in (last.weight.data, last.bias.data, marks):
            torch.distributed.broadcast(tensor, src=0)
        new = marks > 0
    for copy in map(last_layer, copies):
        copy.weight[new], copy.bias[new] = last.weight[new], last.bias[new]
    forget(optimizer, last, new)


def can_be_tight(encoder: Encoder) -> bool:
    """Whether features are the scores, or the scores above thresholds that can be adjusted."""
    transform = encoder.nonnegative
    return encoder.gate is None and (transform.gives_zeros or transform.kind == "identity")


def idle_bounds(upkeep: Upkeep | None, loop: LoopSettings) -> str | None:
    """A sentence for bounds that no feature can be held to, as in the CL form of a preset."""
    if not bounds_on_rates(loop):
        return None
    if upkeep is not None and upkeep.encoders[0].nonnegative.gives_zeros:
        return None
    bounds = {"min_on_rate": loop.min_on_rate, "max_on_rate": loop.max_on_rate}
    free = {"min_on_rate": 0, "max_on_rate": 1}
    named = [f"training.{key}={value:g}" for key, value in bounds.items() if value != free[key]]
    have = "has" if len(named) == 1 else "have"
    return (
        f"{' and '.join(named)} {have} no effect here: only the on-rates of relu and rep_relu "
        "without a gate, learnt from pairs, are bounded"
    )


def bounds_on_rates(loop: LoopSettings) -> bool:
    """Whether on-rates are bounded after the last step."""
    return loop.min_on_rate > 0 or loop.max_on_rate < 1


def is_finalised(loop: LoopSettings) -> bool:
    """Whether anything is done to the last layer after the last step."""
    return loop.keep_angles or bounds_on_rates(loop)


@torch.no_grad()
def finalise_features(
    upkeep: Upkeep,
    batches: Iterable[Batch],
    loop: LoopSettings,
    *,
    decides: bool,
    n_processes: int,
) -> None:
    """Finalise the last layer after the last step, alike in all processes.

    Only on-rates of features with exact zeros are bounded; angles are kept where possible.

    Args:
        upkeep: The encoder; copies are left as they are.
        batches: What is inspected; only read by the process that decides, if needed.
        loop: Its ``keep_angles``, ``min_on_rate`` and ``max_on_rate`` say what is done.
        decides: Whether this is the process that looks; the others take over what it did.
        n_processes: In all.
    """
    encoder = upkeep.encoders[0]
    last = last_layer(encoder)
    if decides:
        inputs = None
        if encoder.nonnegative.gives_zeros:
            inputs = last_inputs(encoder, _hidden(upkeep, batches))
            bound_on_rate(last, inputs, least=loop.min_on_rate, most=loop.max_on_rate)
        if loop.keep_angles and can_be_tight(encoder):
            make_tight_frame(last, inputs)
    if n_processes > 1:
        for tensor in (last.weight.data, last.bias.data):
            torch.distributed.broadcast(tensor, src=0)


def _hidden(upkeep: Upkeep, batches: Iterable[Batch]) -> Tensor:
    """The backbone's outputs of the views of some batches ``(n, h)``, where the encoder is."""
    encoder = upkeep.encoders[0]
    hidden = torch.cat([encoder.encode(upkeep.views(batch)).hidden for batch in batches])
    return hidden.to(last_layer(encoder).weight.device)
