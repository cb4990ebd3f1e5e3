"""What does the loop ask of that which is learnt? Gradients of a batch, and a word on how it is."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from nonneg.data import Data
from nonneg.encoder import Encoder
from nonneg.pairs import Batch, Draws

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
    """What it takes to put features right, in a run and at its end."""

    encoders: tuple[Encoder, ...]
    """The first is looked at; what starts anew in it does so in the others, its copies."""
    views: Callable[[Batch], Tensor]
    """What the encoder is given to learn from a batch."""


class Task(Protocol):
    """What is learnt from a batch. The loop owns order, steps, checkpoints and display."""

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
        """Of the features that are learnt; None where they are left as they come out."""
        ...

    def learn(self, batch: Batch, engine: Engine) -> Tensor:
        """Add the gradients of a batch; gives its loss, without gradient.

        Args:
            batch: The share of this process.
            engine: Forward and backward passes go through it.
        """
        ...

    def measured(self, loss: float, inputs: Tensor, labels: Tensor | None) -> dict[str, Any]:
        """What the history says at the end of an epoch, besides loss and time.

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
        """All that decides the result, besides data and configuration, as plain values."""
        ...
