"""Re-initialisation of features at samples: of dead ones, or of all."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nonneg.head.nonnegative import NonNegative
from nonneg.head.on_rate import AT_ONCE
from nonneg.inference import evaluation_mode
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.rows import unit_rows

# The share of samples that a feature is on for when it starts: one of the few that were dead, or
# one of all. All together have to leave no sample without features.
_REVIVED_ON_RATE = 0.01
_REINIT_ON_RATE = 0.05


class Headed(Protocol):
    """An object with a head: a projector that gives scores, and their transform."""

    projector: nn.Sequential
    nonnegative: NonNegative


@torch.no_grad()
def revive_dead(
    heads: Sequence[tuple[Headed, Tensor]], generator: torch.Generator, *, max_dead_rate: float
) -> Tensor:
    """Point each dead feature at a sample of its own, drawn at random, unless few are dead.

    A revived feature has weights of the usual length, in the direction of its sample, and is on for
    the 1 % of the samples that lie furthest in this direction. Of two heads, a feature that is dead
    in one is re-initialised in both, at the two sides of the same pair.

    Args:
        heads: Encoders, whose last layers change in place and whose modes are left as they were,
            each with the backbone's outputs of the samples ``(n, h)``. A feature that is off for
            all of them is dead.
        generator: Draws the samples.
        max_dead_rate: Up to this share of dead features, all are left as they are.

    Returns:
        Which features were revived, ``(d,)``; at most one per sample, and none if all are dead.
    """
    inputs = [last_inputs(encoder, hidden) for encoder, hidden in heads]
    alive = [_alive(encoder, part) for (encoder, _), part in zip(heads, inputs, strict=True)]
    dead = ~torch.stack(alive).all(dim=0)  # (d,)
    n_dead = int(dead.sum())
    if n_dead <= max_dead_rate * len(dead) or n_dead == len(dead):
        return torch.zeros_like(dead)
    # Two features of the same sample would have the same weights and gradients for ever.
    chosen = torch.randperm(len(inputs[0]), generator=generator)[:n_dead].to(dead.device)
    rows = dead.nonzero().flatten()[: len(chosen)]
    for (encoder, _), part in zip(heads, inputs, strict=True):
        last = last_layer(encoder)
        length = last.weight[~dead].norm(dim=1).median()
        _point(last, part, rows, chosen, length=length, on_rate=_REVIVED_ON_RATE)
    return torch.zeros_like(dead).index_fill(0, rows, value=True)


@torch.no_grad()
def reinitialise(encoder: Headed, hidden: Tensor, generator: torch.Generator) -> Tensor:
    """Point every feature at a sample of its own, drawn at random, whatever it had learnt.

    It has weights of the usual length, in the direction of its sample, and is on for the 5 % of the
    samples that lie furthest in this direction.

    Args:
        encoder: Whose last layer changes in place.
        hidden: The backbone's outputs of the samples ``(n, h)``.
        generator: Draws the samples.

    Returns:
        Which features were re-initialised, ``(d,)``: all, or the first n of more.
    """
    last, inputs = last_layer(encoder), last_inputs(encoder, hidden)
    n_features = len(last.weight)
    chosen = torch.randperm(len(inputs), generator=generator)[:n_features].to(inputs.device)
    length = last.weight.norm(dim=1).median()
    # In parts: there may be as many samples as features, and very many of both.
    for rows in torch.arange(len(chosen), device=inputs.device).split(AT_ONCE):
        _point(last, inputs, rows, chosen[rows], length=length, on_rate=_REINIT_ON_RATE)
    return torch.arange(n_features, device=inputs.device) < len(chosen)


@torch.no_grad()
def forget(optimizer: Optimizer, layer: nn.Linear, rows: Tensor) -> None:
    """Clear an optimiser's state for some rows of a layer.

    AdamW's first steps of these rows are then several times as long as those of the others.

    Args:
        optimizer: Of any kind: state in the shape of a weight is set to zero there.
        layer: Whose weight and bias it moves.
        rows: Which, ``(d,)``.
    """
    for parameter in (layer.weight, layer.bias):
        for kept in optimizer.state[parameter].values():
            if isinstance(kept, Tensor) and kept.shape == parameter.shape:
                kept[rows] = 0


def last_layer(encoder: Headed) -> nn.Linear:
    """The layer that makes the scores."""
    last = encoder.projector[-1]
    assert isinstance(last, nn.Linear)
    return last


def last_inputs(encoder: Headed, hidden: Tensor) -> Tensor:
    """The inputs of the last layer ``(n, width)`` for hidden ``(n, h)``, in evaluation mode."""
    with evaluation_mode(encoder.projector):
        inputs: Tensor = encoder.projector[:-1](hidden)
    return inputs


def _alive(encoder: Headed, inputs: Tensor) -> Tensor:
    features = encoder.nonnegative(last_layer(encoder)(inputs))
    return (unit_rows(features).abs() > ACTIVE_THRESHOLD).any(dim=0)


def _point(
    last: nn.Linear,
    inputs: Tensor,
    rows: Tensor,
    chosen: Tensor,
    *,
    length: Tensor,
    on_rate: float,
) -> None:
    """Point some features of one layer at the chosen rows of its inputs."""
    weight = unit_rows(inputs[chosen] - inputs.mean(dim=0)) * length
    n_on = max(1, round(on_rate * len(inputs)))
    values = (inputs @ weight.T).topk(min(n_on + 1, len(inputs)), dim=0).values
    best = values[0]
    # Between two samples: one that lies just on the edge would be on or off by rounding.
    least = values[-2:].mean(dim=0)
    # Where many samples are equal, the strongest may be no stronger than the rest.
    least = torch.minimum(least, best - 1e-3 * best.abs().clamp_min(1e-6))
    last.weight[rows], last.bias[rows] = weight, -least
