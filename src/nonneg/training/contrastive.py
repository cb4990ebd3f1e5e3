"""How does an encoder learn from pairs? Two views, their features, the loss."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor, nn

from nonneg.encoder import Encoded, Encoder
from nonneg.head.revival import last_layer
from nonneg.losses.distributed import centred
from nonneg.pairs import Batch, Pairs, two_views
from nonneg.training.chunks import Losses, learn_in_chunks
from nonneg.training.monitor import collapse_warning, measurements, progress_rate
from nonneg.training.objectives import objective
from nonneg.training.settings import TrainConfig
from nonneg.training.task import Engine, Prepare, Upkeep
from nonneg.training.upkeep import can_keep_angles


class Contrastive:
    """An encoder that learns from pairs: CL or NCL, as its transform says.

    Args:
        encoder: What learns.
        pairs: Which two views belong together.
        config: Its ``loss`` says what is minimised.
        labels: Class numbers of all training samples ``(n,)``; only the supervised contrastive loss
            learns from them.
    """

    def __init__(
        self, encoder: Encoder, pairs: Pairs, config: TrainConfig, *, labels: Tensor | None = None
    ) -> None:
        self.encoder, self.pairs, self.config = encoder, pairs, config
        self.labels = labels if config.loss.name == "supervised_contrastive" else None
        if config.loss.name == "supervised_contrastive" and labels is None:
            raise ValueError("loss=supervised_contrastive learns from labels; the data has none")
        if encoder.gate is not None and config.training.chunk_size is not None:
            raise ValueError("training.chunk_size does not go with encoder.gate; leave one out")
        if config.training.keep_angles and can_keep_angles(encoder):
            n_inputs = last_layer(encoder).in_features
            if encoder.n_features < n_inputs:
                raise ValueError(
                    "training.keep_angles needs at least as many features as the last layer has "
                    f"inputs ({n_inputs}), got {encoder.n_features}; raise "
                    "encoder.projector.n_features or set training.keep_angles=false"
                )
        if encoder.settings.frozen and config.loss.hidden_weight:
            raise ValueError(
                "loss.hidden_weight teaches the backbone, which encoder.frozen keeps as it is; set "
                "loss.hidden_weight=0"
            )

    @property
    def module(self) -> nn.Module:
        """The encoder."""
        return self.encoder

    @property
    def prepare(self) -> Prepare | None:
        """That of the pairs, where they have one."""
        return getattr(self.pairs, "prepare", None)

    @property
    def upkeep(self) -> Upkeep | None:
        """None with a gate: a feature may be off because its gate is shut."""
        return Upkeep(self._alike, self._views) if self.encoder.gate is None else None

    @property
    def _alike(self) -> tuple[Encoder, ...]:
        return (self.encoder,)

    def _views(self, batch: Batch) -> Tensor:
        return torch.cat(two_views(self.pairs, batch))

    def learn(self, batch: Batch, engine: Engine) -> Tensor:
        """Add the gradients of a batch; gives its loss, without gradient."""
        views = self._views(batch)
        labels = None
        if self.labels is not None:
            labels = self.labels[batch.indices.cpu()].to(batch.indices.device)
        compared = objective(self.config.loss)
        weight = self.config.loss.hidden_weight
        # The backbone then learns from its own output alone, and the projector beside it.
        detached = weight == 1
        rest = 1.0 if detached else 1 - weight

        def loss_of(outputs: Tensor) -> Tensor:
            a, b = outputs.chunk(2)
            return compared(a, b, labels)

        def losses_of(hidden: Tensor, features: Tensor) -> Losses:
            shown = loss_of(features)
            if weight == 0:
                return Losses(shown, shown)
            return Losses(shown, rest * shown + weight * loss_of(centred(hidden)))

        chunk_size = self.config.training.chunk_size
        if chunk_size is not None and chunk_size < len(views):
            return learn_in_chunks(
                self.module, views, chunk_size, losses_of, engine, detached=detached
            )
        encoded = engine.forward(views, detached=detached)
        losses = losses_of(encoded.hidden, encoded.features)
        # As much beside the features' loss as it is without the backbone's.
        engine.backward(losses.minimised + rest * self.gate_penalty(encoded))
        return losses.shown.detach()

    def gate_penalty(self, encoded: Encoded) -> Tensor | float:
        """What the encoder's gate adds to the loss; 0 without one."""
        return 0.0 if self.encoder.gate is None else self.encoder.gate.penalty(encoded.hidden)

    def measured(self, loss: float, inputs: Tensor, labels: Tensor | None) -> dict[str, Any]:
        """How far the loss has come, and sparsity, alive features and consistency."""
        progress = progress_rate(
            loss,
            batch_size=self.config.training.batch_size,
            is_nonnegative=self.encoder.is_nonnegative,
            config=self.config,
        )
        return {
            **({} if progress is None else {"progress_rate": progress}),
            **measurements(self.encoder.encode(inputs).features, labels),
        }

    def warning(self, record: dict[str, Any]) -> str | None:
        """One sentence if the features have collapsed."""
        projector = self.encoder.settings.projector
        return collapse_warning(
            record,
            self.encoder.n_features,
            max_on_rate=self.config.training.max_on_rate,
            can_be_normed=bool(projector.hidden) and projector.norm != "batch",
        )

    def save(self, folder: Path) -> None:
        """Write the encoder."""
        self.encoder.save(folder)

    def identity(self) -> dict[str, Any]:
        """The encoder's settings and the pairs."""
        return {**self.encoder.identity(), "pairs": described(self.pairs)}


def described(views: object) -> dict[str, Any]:
    """The name of a ``Pairs`` or of a function or method, and its settings if it has some.

    Settings are a pydantic model or a mapping; of a value that JSON does not have its type is kept.
    """
    settings = getattr(owner(views), "settings", None)
    name = getattr(views, "__qualname__", type(views).__qualname__)
    if isinstance(settings, BaseModel):
        return {"name": name, **settings.model_dump(mode="json")}
    if not isinstance(settings, Mapping):
        return {"name": name}
    plain = json.dumps(dict(settings), default=lambda value: type(value).__name__)
    return {"name": name, **json.loads(plain)}


def owner(views: object) -> object:
    """The object of a method; anything else is its own."""
    return getattr(views, "__self__", views)
