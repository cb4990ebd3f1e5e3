"""How does a head learn on fixed vectors? A small loop in memory: draw pairs, compare, step."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nonneg.encoder import Encoder
from nonneg.estimators.revival import revive_dead
from nonneg.estimators.steering import active_per_sample, raise_bias
from nonneg.losses import info_nce
from nonneg.pairs import Batch, Draws, Pairs

Record = dict[str, float]
Progress = Callable[[Record], None]

_N_EPOCHS = 10
_MIN_STEPS = 300
_WARMUP_RATE = 0.1
_WEIGHT_DECAY = 1e-4
# When dead features are revived, as shares of all steps: early enough to learn after it.
_REVIVALS = (0.25, 0.5)
# From this share of all steps on, biases go so much of the way to a target that is not met.
_STEER_FROM = 0.2
_STEER_SHARE = 0.1
_N_RECORDS = 20


@dataclass(frozen=True)
class FitSettings:
    """What the loop needs besides encoder, vectors and pairs.

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


def fit_head(
    encoder: Encoder,
    hidden: Tensor,
    pairs: Pairs,
    settings: FitSettings,
    progress: Progress | None = None,
) -> list[Record]:
    """Train the encoder's projector on hidden vectors that are already there.

    Negatives are the partners of the other samples ("cross"): as good as both sides of all pairs
    and a quarter of the products.

    Args:
        encoder: Its backbone is not called; its projector learns in place.
        hidden: Backbone outputs of all samples, ``(n, h)``, on the encoder's device.
        pairs: Which samples belong together, by their rows in ``hidden``.
        settings: Steps, batch, rates, seed.
        progress: Called after each step with its record.

    Returns:
        About twenty records with ``step``, and ``loss`` and ``active_per_sample`` of its batch.
    """
    head, last = encoder.projector.train(), encoder.projector[-1]
    assert isinstance(last, nn.Linear)
    optimizer = torch.optim.AdamW(head.parameters(), weight_decay=_WEIGHT_DECAY)
    generator = torch.Generator().manual_seed(settings.seed)
    revivals = {int(share * settings.n_steps) for share in _REVIVALS}
    every = max(1, settings.n_steps // _N_RECORDS)
    history: list[Record] = []
    for step, batch in enumerate(_batches(hidden, settings, generator)):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * rate_factor(step, settings.n_steps)
        scores = head(torch.cat(pairs(batch)))  # (2 · batch_size, d)
        features = encoder.nonnegative(scores)
        loss = info_nce(*features.chunk(2), temperature=settings.temperature, negatives="cross")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if settings.target_active is not None and step >= _STEER_FROM * settings.n_steps:
            raise_bias(last, scores.detach(), settings.target_active, share=_STEER_SHARE)
        if step in revivals:
            revive_dead(encoder, optimizer, hidden, generator)
        record = {
            "step": step + 1,
            "loss": loss.item(),
            "active_per_sample": active_per_sample(features.detach()),
        }
        if step % every == 0 or step + 1 == settings.n_steps:
            history.append(record)
        if progress is not None:
            progress(record)
    head.eval()
    return history


def step_budget(
    n_samples: int, batch_size: int, *, max_epochs: int | None, max_steps: int | None
) -> int:
    """How many steps to take: ten passes over the samples, but at least 300 steps.

    A limit that is given takes the place of this rule; of two limits the first that is reached.

    Example:
        >>> step_budget(15_000, 512, max_epochs=None, max_steps=None)
        300
        >>> step_budget(15_000, 512, max_epochs=2, max_steps=1_000)
        58
    """
    n_batches = max(1, n_samples // batch_size)
    if max_epochs is None and max_steps is None:
        return max(_MIN_STEPS, _N_EPOCHS * n_batches)
    limits = [max_steps, None if max_epochs is None else max_epochs * n_batches]
    return min(limit for limit in limits if limit is not None)


def rate_factor(step: int, n_steps: int) -> float:
    """The share of the peak learning rate: up over the first tenth, then half a cosine down.

    Example:
        >>> [round(rate_factor(step, 20), 3) for step in (0, 1, 2, 11, 19)]
        [0.5, 1.0, 1.0, 0.5, 0.008]
    """
    n_warmup = _WARMUP_RATE * n_steps
    if step < n_warmup:
        return min(1.0, (step + 1) / n_warmup)
    return 0.5 * (1 + math.cos(math.pi * (step - n_warmup) / (n_steps - n_warmup)))


def _batches(hidden: Tensor, settings: FitSettings, generator: torch.Generator) -> Iterator[Batch]:
    """Batches of one size in an order drawn anew each epoch; what is left over waits a turn."""
    n_batches = len(hidden) // settings.batch_size
    for step in range(settings.n_steps):
        epoch, number = divmod(step, n_batches)
        if number == 0:
            order = torch.randperm(len(hidden), generator=generator)
        start = number * settings.batch_size
        indices = order[start : start + settings.batch_size].to(hidden.device)
        draws = Draws(settings.seed, epoch, indices)
        yield Batch(hidden[indices], indices, draws, fetch=hidden.__getitem__)
