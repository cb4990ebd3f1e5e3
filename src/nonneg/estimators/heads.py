"""How do heads learn on fixed vectors? A small loop in memory: two views, compare, step."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from nonneg.encoder import Encoder
from nonneg.estimators.schedule import rate_factor
from nonneg.estimators.steering import active_per_sample, raise_bias
from nonneg.head.revival import forget, last_layer, revive_dead
from nonneg.losses import info_nce

Record = dict[str, float]
Progress = Callable[[Record], None]

_WEIGHT_DECAY = 1e-4
# When dead features are revived, as shares of all steps: early enough to learn after it.
_REVIVALS = (0.25, 0.5)
# Some dead features are no harm: reviving all of them gives more features that say the same.
_MAX_DEAD_RATE = 0.5
# Samples that a feature has to be off for to count as dead while training.
_N_SAMPLES = 4096
# From this share of all steps on, biases go so much of the way to a target that is not met.
_STEER_FROM = 0.2
_STEER_SHARE = 0.1
_N_RECORDS = 20


@dataclass(frozen=True)
class FitSettings:
    """What the loop needs besides encoders and views.

    Args:
        n_steps: Optimiser steps in all.
        batch_size: Pairs a step, at most the number of samples.
        learning_rate: At its peak.
        temperature: Of InfoNCE.
        target_active: Mean number of active features a sample; with fewer, biases are raised.
        seed: Of the order of the samples and of the pairs.
    """

    n_steps: int
    batch_size: int
    learning_rate: float
    temperature: float
    target_active: float | None
    seed: int


class Head(NamedTuple):
    """An encoder whose projector learns, and what it learns from."""

    encoder: Encoder
    """Its backbone is not called; its projector learns in place."""
    hidden: Tensor
    """Backbone outputs of all samples, ``(n, h)``, on the encoder's device."""


class Views(NamedTuple):
    """What is compared in one step: n pairs."""

    inputs: tuple[Tensor, ...]
    """Hidden vectors for each head, 2 n rows in all; row i and row n + i belong together."""
    groups: Tensor | None = None
    """``(n,)``: pairs of the same number are no negatives of each other."""


def fit_heads(
    heads: Sequence[Head],
    views: Iterable[Views],
    settings: FitSettings,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> list[Record]:
    """Train the projectors of one encoder for both views, or of one for each.

    Negatives are the partners of the other samples ("cross"): as good as both sides of all pairs
    and a quarter of the products.

    Args:
        heads: One, or two with as many features.
        views: One for each step.
        settings: Steps, rates, temperature.
        generator: Draws the samples at which dead features start anew.
        progress: Called after each step with its record.

    Returns:
        About twenty records with ``step``, and ``loss`` and ``active_per_sample`` of its batch.

    Raises:
        FloatingPointError: If the loss is no number.
    """
    encoders = [head.encoder for head in heads]
    parameters = [p for encoder in encoders for p in encoder.projector.train().parameters()]
    optimizer = torch.optim.AdamW(parameters, weight_decay=_WEIGHT_DECAY)
    revivals = {int(share * settings.n_steps) for share in _REVIVALS}
    every = max(1, settings.n_steps // _N_RECORDS)
    history: list[Record] = []
    for step, (inputs, groups) in enumerate(views):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * rate_factor(step, settings.n_steps)
        scores = [e.projector(part) for e, part in zip(encoders, inputs, strict=True)]
        features = torch.cat([e.nonnegative(s) for e, s in zip(encoders, scores, strict=True)])
        loss = info_nce(
            *features.chunk(2), temperature=settings.temperature, negatives="cross", groups=groups
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if settings.target_active is not None and step >= _STEER_FROM * settings.n_steps:
            for encoder, of_side in zip(encoders, scores, strict=True):
                target = settings.target_active
                raise_bias(last_layer(encoder), of_side.detach(), target, share=_STEER_SHARE)
        if step in revivals:
            some = torch.randperm(len(heads[0].hidden), generator=generator)[:_N_SAMPLES]
            looked_at = [(encoder, hidden[some.to(hidden.device)]) for encoder, hidden in heads]
            revived = revive_dead(looked_at, generator, max_dead_rate=_MAX_DEAD_RATE)
            for encoder in encoders:
                forget(optimizer, last_layer(encoder), revived)
        record = {
            "step": step + 1,
            "loss": _finite(loss.item(), step + 1, settings),
            "active_per_sample": active_per_sample(features.detach()),
        }
        if step % every == 0 or step + 1 == settings.n_steps:
            history.append(record)
        if progress is not None:
            progress(record)
    for encoder in encoders:
        encoder.projector.eval()
    return history


def _finite(loss: float, step: int, settings: FitSettings) -> float:
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the fit diverged: the loss is {loss} at step {step}; lower learning_rate "
            f"({settings.learning_rate:g})"
        )
    return loss
