"""How does one head learn from pairs of vectors? Draw samples, ask for their partners, compare."""

from collections.abc import Iterator

import torch
from torch import Tensor

from nonneg.encoder import Encoder
from nonneg.estimators.heads import FitSettings, Head, Progress, Record, Views, fit_heads
from nonneg.pairs import Batch, Draws, Pairs


def fit_head(
    encoder: Encoder,
    hidden: Tensor,
    pairs: Pairs,
    settings: FitSettings,
    progress: Progress | None = None,
) -> list[Record]:
    """Train the encoder's projector on hidden vectors that are already there.

    Args:
        encoder: Its backbone is not called; its projector learns in place.
        hidden: Backbone outputs of all samples, ``(n, h)``, on the encoder's device.
        pairs: Which samples belong together, by their rows in ``hidden``.
        settings: Steps, batch, rates, seed.
        progress: Called after each step with its record.

    Returns:
        The records of :func:`fit_heads`.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    batches = _batches(hidden, settings, generator)
    views = (Views((torch.cat(pairs(batch)),)) for batch in batches)  # (2 · batch_size, h)
    return fit_heads([Head(encoder, hidden)], views, settings, generator, progress)


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
