"""How does a batch teach that does not fit into memory? In chunks, with the whole gradient."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nonneg.training.task import Engine


class Losses(NamedTuple):
    """What a batch is judged by."""

    shown: Tensor
    """That of the features, which history tells of."""
    minimised: Tensor


LossesOf = Callable[[Tensor, Tensor], Losses]
"""From the backbone's output ``(n, h)`` and the features ``(n, d)`` of all views."""


def learn_in_chunks(
    module: nn.Module,
    views: Tensor,
    chunk_size: int,
    losses_of: LossesOf,
    engine: Engine,
    *,
    detached: bool = False,
) -> Tensor:
    """Add the gradients of a whole batch, with the activations of one chunk at a time in memory.

    The features of all chunks are computed without a graph, the loss gives their gradient, and
    each chunk is encoded once more to carry its part of it to the weights (gradient caching, Gao
    et al. 2021). Up to rounding it is the gradient of the whole batch, for layers that treat
    samples one by one. Batch normalisation does not: its statistics are those of a chunk. Layers
    that draw, such as dropout, draw the same both times, and running statistics move once.

    Args:
        module: What learns.
        views: ``(n, ...)``.
        chunk_size: Rows at once, at most; chunks are as even as can be.
        losses_of: Of the outputs of all views.
        engine: Gives an ``Encoded`` for ``(n, ...)``, and takes the gradients.
        detached: Whether the gradients of features end at the projector.

    Returns:
        The loss that is shown, without gradient.
    """
    n_chunks = math.ceil(len(views) / chunk_size)
    chunks = views.tensor_split(n_chunks)
    drawn_from, parts = [], []
    with _buffers_kept(module), torch.no_grad():
        for chunk in chunks:
            drawn_from.append(_generator_state(views.device))
            encoded = engine.forward(chunk, detached=detached)
            parts.append((encoded.hidden, encoded.features))
    hidden, features = (torch.cat(part).requires_grad_() for part in zip(*parts, strict=True))
    losses = losses_of(hidden, features)
    # The backbone's output may be no part of the loss.
    slopes = torch.autograd.grad(losses.minimised, (hidden, features), materialize_grads=True)
    parted = (slope.tensor_split(n_chunks) for slope in slopes)
    again = zip(chunks, *parted, drawn_from, strict=True)
    for number, (chunk, of_hidden, of_features, state) in enumerate(again, start=1):
        _set_generator_state(state, views.device)
        with nullcontext() if number == len(chunks) else engine.of_this_process():
            encoded = engine.forward(chunk, detached=detached)
            carried = (encoded.hidden * of_hidden).sum() + (encoded.features * of_features).sum()
            engine.backward(carried)
    return losses.shown.detach()


@contextmanager
def _buffers_kept(module: nn.Module) -> Iterator[None]:
    """Put buffers back afterwards, such as running statistics."""
    kept = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in kept:
            buffer.copy_(value)


def _generator_state(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return states


def _set_generator_state(states: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
