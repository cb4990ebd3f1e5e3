"""Tasks: what the training loop needs from a method, and batches learnt in chunks."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from nonneg.data.dataset import Data
from nonneg.encoder import Encoder
from nonneg.pairs.protocol import Batch, Draws
from nonneg.training.settings import TrainConfig

Prepare = Callable[[Data, Tensor, Draws], Tensor]


class Engine(Protocol):
    """How a task uses its module, on whatever device, precision and number of processes."""

    def forward(self, inputs: Tensor, **options: Any) -> Any:  # noqa: ANN401
        """What the module gives for some inputs and options, with gradient."""
        ...

    def backward(self, loss: Tensor) -> None:
        """In place of ``loss.backward()``."""
        ...

    def of_this_process(self) -> AbstractContextManager[None]:
        """Forward and backward passes within it are not averaged over processes yet.

        The last one of a batch has to be outside: it averages all that was added.
        """
        ...


class Upkeep(NamedTuple):
    """What the upkeep of features needs, during a run and at its end."""

    encoders: tuple[Encoder, ...]
    """The first is inspected; the others are copies, re-initialised along with it."""
    views: Callable[[Batch], Tensor]
    """The views of a batch that the encoder learns from."""


class Task(Protocol):
    """What is learnt, and how, from a batch. The loop has order, steps, checkpoints and display."""

    @property
    def module(self) -> nn.Module:
        """What learns, and what checkpoints hold."""
        ...

    @property
    def prepare(self) -> Prepare | None:
        """Reads the inputs of a batch where the data is, in a worker if there are any."""
        ...

    @property
    def upkeep(self) -> Upkeep | None:
        """Of the learnt features; None where they need none."""
        ...

    def learn(self, batch: Batch, engine: Engine) -> Tensor:
        """Add the gradients of a batch; gives its loss, without gradient.

        Args:
            batch: The share of this process.
            engine: Forward and backward passes go through it.
        """
        ...

    def measured(self, loss: float, inputs: Tensor, labels: Tensor | None) -> dict[str, Any]:
        """The figures of an epoch for the history, besides loss and time.

        Args:
            loss: The mean of the epoch.
            inputs: Held-out samples ``(n, ...)``.
            labels: Theirs, ``(n,)``, or None.
        """
        ...

    def warning(self, record: dict[str, Any]) -> str | None:
        """One sentence if an epoch's record shows that the run has failed; None if all is well."""
        ...

    def save(self, folder: Path) -> None:
        """Write what was learnt."""
        ...

    def identity(self) -> dict[str, Any]:
        """All that determines the result, besides data and configuration, as plain values."""
        ...


def run_identity(task: Task, data: Data, config: TrainConfig) -> dict[str, Any]:
    """All that determines the result of a run, as plain values: the identity of its folder."""
    return {"n_samples": len(data), **task.identity(), **config.model_dump(mode="json")}


class Losses(NamedTuple):
    """The losses of a batch."""

    shown: Tensor
    """The loss of the features, which goes into the history."""
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
        chunk_size: The most rows at once; chunks are as even as possible.
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
    """Restore buffers afterwards, such as running statistics."""
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
