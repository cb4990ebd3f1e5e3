"""How does a batch teach that does not fit into memory? In chunks, with the whole gradient."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from nonneg.training.task import Engine


def learn_in_chunks(
    module: nn.Module,
    views: Tensor,
    chunk_size: int,
    loss_of: Callable[[Tensor], Tensor],
    engine: Engine,
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
        chunk_size: Rows at once.
        loss_of: From features ``(n, d)`` to the loss.
        engine: Gives an ``Encoded`` for ``(n, ...)``, and takes the gradients.

    Returns:
        The loss, without gradient.
    """
    chunks = views.split(chunk_size)
    drawn_from, parts = [], []
    with _buffers_kept(module), torch.no_grad():
        for chunk in chunks:
            drawn_from.append(_generator_state(views.device))
            parts.append(engine.forward(chunk).features)
    features = torch.cat(parts).requires_grad_()
    loss = loss_of(features)
    (slopes,) = torch.autograd.grad(loss, features)
    again = zip(chunks, slopes.split(chunk_size), drawn_from, strict=True)
    for number, (chunk, slope, state) in enumerate(again, start=1):
        _set_generator_state(state, views.device)
        with nullcontext() if number == len(chunks) else engine.of_this_process():
            engine.backward((engine.forward(chunk).features * slope).sum())
    return loss.detach()


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
