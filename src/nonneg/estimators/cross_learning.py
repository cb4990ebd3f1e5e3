"""What happens in the ``fit`` of two kinds of vectors? Two heads learn to agree on pairs."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nonneg.estimators.denoising import fitted_projection
from nonneg.estimators.grouping import grouped_batches
from nonneg.estimators.heads import FitSettings, Head, Record, Views, fit_heads
from nonneg.estimators.learning import (
    LearntSide,
    fit_settings,
    hidden_vectors,
    learnt_side,
    new_encoder,
)
from nonneg.estimators.progress import progress_bar
from nonneg.estimators.settings import CrossSettings


def learn_across(
    X: Any,  # noqa: ANN401
    y: Any,  # noqa: ANN401
    groups: Tensor,
    settings: CrossSettings,
    seed: int,
) -> tuple[tuple[LearntSide, LearntSide], list[Record]]:
    """Features that mean the same on both sides of pairs, and records of the training.

    Args:
        X: Checked vectors ``(n, d)``: an array, a memory map or SciPy CSR.
        y: Their partners ``(n, d_y)``.
        groups: ``(n,)``; pairs of the same number are no negatives of each other.
        settings: How.
        seed: Of everything drawn; torch's own generator is left alone.
    """
    heads = []
    for name, vectors, of_side in (("X", X, seed), ("y", y, seed + 1)):
        projection = fitted_projection(vectors, settings.denoise, seed, name)
        encoder = new_encoder(projection, settings, of_side)
        heads.append(Head(encoder, hidden_vectors(vectors, projection, settings)))
    steps = fit_settings(settings, len(groups), seed)
    generator = torch.Generator().manual_seed(seed)
    views = _views(heads, groups, steps, settings.noise, generator)
    with progress_bar(steps.n_steps, shown=settings.verbose > 0) as progress:
        history = fit_heads(heads, views, steps, generator, progress)
    target = settings.target_active
    x_side, y_side = (learnt_side(head.encoder, head.hidden, target, seed) for head in heads)
    return (x_side, y_side), history


def _views(
    heads: list[Head],
    groups: Tensor,
    settings: FitSettings,
    noise: float,
    generator: torch.Generator,
) -> Iterator[Views]:
    """Both sides of the pairs of each step, disturbed by noise."""
    batches = grouped_batches(groups, settings.batch_size, settings.n_steps, generator)
    for indices in batches:
        inputs = []
        for head in heads:
            part = head.hidden[indices.to(head.hidden.device)]
            if noise > 0:
                part = part + noise * torch.randn(part.shape, generator=generator).to(part.device)
            inputs.append(part)
        yield Views(tuple(inputs), groups[indices].to(inputs[0].device))
