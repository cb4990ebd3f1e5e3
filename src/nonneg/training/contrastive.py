"""Contrastive training: two views, their features, the loss; with or without a queue of keys."""

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from rich.console import Console
from torch import Tensor, nn

from nonneg.data.dataset import Samples, as_data
from nonneg.encoder import Encoded, Encoder
from nonneg.head.revival import last_layer
from nonneg.losses.distributed import centred, gathered, with_mean_value
from nonneg.losses.info_nce import info_nce_queue
from nonneg.pairs.protocol import Batch, Pairs, two_views
from nonneg.training.monitor import collapse_warning, measurements, progress_rate
from nonneg.training.objectives import objective
from nonneg.training.settings import TrainConfig
from nonneg.training.task import Engine, Losses, Prepare, Upkeep, learn_in_chunks
from nonneg.training.trainer import TrainResult, run_task
from nonneg.training.upkeep import can_be_tight


class Contrastive:
    """An encoder that learns from pairs: CL or NCL, depending on its transform.

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
        if config.training.keep_angles and can_be_tight(encoder):
            n_inputs = last_layer(encoder).in_features
            if encoder.n_features < n_inputs:
                raise ValueError(
                    "training.keep_angles needs at least as many features as the last layer has "
                    f"inputs ({n_inputs}), got {encoder.n_features}; raise "
                    "encoder.projector.n_features or set training.keep_angles=false"
                )
        if encoder.settings.frozen and config.loss.backbone_weight:
            raise ValueError(
                "loss.backbone_weight teaches the backbone, which encoder.frozen keeps as it is; "
                "set loss.backbone_weight=0"
            )
        if config.loss.name == "soft_info_nce" and config.loss.backbone_weight:
            raise ValueError(
                "loss=soft_info_nce learns from the backbone's own cosines, so they cannot teach "
                "the backbone itself; set loss.backbone_weight=0"
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
        weight = self.config.loss.backbone_weight
        # The backbone then learns from its own output alone, and the projector beside it.
        detached = weight == 1
        rest = 1.0 if detached else 1 - weight

        def loss_of(outputs: Tensor, learnt_from: Tensor | None) -> Tensor:
            a, b = outputs.chunk(2)
            return compared(a, b, learnt_from)

        def losses_of(hidden: Tensor, features: Tensor) -> Losses:
            is_soft = self.config.loss.name == "soft_info_nce"
            shown = loss_of(features, centred(hidden.detach()) if is_soft else labels)
            if weight == 0:
                return Losses(shown, shown)
            return Losses(shown, rest * shown + weight * loss_of(centred(hidden), labels))

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

    Settings are a pydantic model or a mapping; of a value that JSON cannot hold, the type is kept.
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


class EncoderWithQueue(nn.Module):
    """An encoder, its slow copy, and the last keys that the copy has made.

    All of it is state of the run: a checkpoint holds it.

    Args:
        encoder: What learns; the module itself is used.
        n_keys: Length of the queue, at least a batch.
        seed: Of the random rows that the queue begins with.
    """

    def __init__(self, encoder: Encoder, n_keys: int, *, seed: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.slow = deepcopy(encoder).requires_grad_(False)
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(n_keys, encoder.n_features, generator=generator)
        self.queue: Tensor
        self.register_buffer("queue", rows.abs() if encoder.is_nonnegative else rows)
        self.oldest: Tensor
        self.register_buffer("oldest", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs: Tensor) -> Encoded:
        """What the encoder gives."""
        encoded: Encoded = self.encoder(inputs)
        return encoded

    @torch.no_grad()
    def follow(self, momentum: float) -> None:
        """Move the slow copy a little towards the encoder; its batch statistics are its own."""
        for slow, fast in zip(self.slow.parameters(), self.encoder.parameters(), strict=True):
            slow.lerp_(fast.to(slow), 1 - momentum)

    @torch.no_grad()
    def keys(self, inputs: Tensor) -> Tensor:
        """The features of a batch by the slow copy, ``(n, d)``."""
        features: Tensor = self.slow(inputs).features
        return features

    @torch.no_grad()
    def enqueue(self, keys: Tensor) -> None:
        """Put keys ``(n, d)`` in the place of the oldest ones."""
        places = (int(self.oldest) + torch.arange(len(keys))) % len(self.queue)
        self.queue[places.to(self.queue.device)] = keys.to(self.queue)
        self.oldest.add_(len(keys)).remainder_(len(self.queue))


class MomentumQueue(Contrastive):
    """Momentum contrast: the negatives of a sample are keys of earlier batches (He et al. 2020).

    Args:
        encoder: What learns.
        pairs: Which two views belong together: one is the anchor, the other its key.
        config: Its ``loss`` has the temperature, the length of the queue and the momentum.
    """

    def __init__(self, encoder: Encoder, pairs: Pairs, config: TrainConfig) -> None:
        super().__init__(encoder, pairs, config)
        if config.loss.queue_size < config.training.batch_size:
            raise ValueError(
                f"loss.queue_size={config.loss.queue_size} is below "
                f"training.batch_size={config.training.batch_size}; a queue holds at least a batch"
            )
        if config.training.chunk_size is not None:
            raise ValueError(
                "training.chunk_size does not go with loss=queue, whose negatives are no part of "
                "the batch: use a smaller training.batch_size"
            )
        if config.loss.backbone_weight:
            raise ValueError(
                "loss=queue keeps features, not the backbone's output, to compare with; set "
                "loss.backbone_weight=0"
            )
        if config.training.reinit_at:
            raise ValueError(
                "loss=queue keeps keys of the features as they were; set training.reinit_at=0"
            )
        self.both = EncoderWithQueue(encoder, config.loss.queue_size, seed=config.seed)

    @property
    def module(self) -> nn.Module:
        """The encoder with its slow copy and the queue."""
        return self.both

    @property
    def _alike(self) -> tuple[Encoder, ...]:
        """A feature that is re-initialised must be so in the keys too, or it dies again."""
        return (self.encoder, self.both.slow)

    def learn(self, batch: Batch, engine: Engine) -> Tensor:
        """Add the gradients of a batch; gives its loss, without gradient."""
        anchors, others = two_views(self.pairs, batch)
        self.both.follow(self.config.loss.momentum)
        keys = self.both.keys(others)
        encoded = engine.forward(anchors)
        loss = with_mean_value(
            info_nce_queue(
                encoded.features, keys, self.both.queue, temperature=self.config.loss.temperature
            )
        )
        engine.backward(loss + self.gate_penalty(encoded))
        # After the gradient: the queue of this step must not change under it.
        self.both.enqueue(gathered(keys).flatten(0, 1))
        return loss.detach()


def train(
    encoder: Encoder,
    data: Samples,
    pairs: Pairs,
    config: TrainConfig | None = None,
    *,
    out: str | Path,
    held_out: Samples | None = None,
    resume: bool = False,
    console: Console | None = None,
    **settings: Any,  # noqa: ANN401
) -> TrainResult:
    """Train an encoder in place, and save it with its history in a run folder.

    The folder gets ``run.json`` (settings), ``history.jsonl`` (one line per epoch), ``checkpoints``
    (the last two), and at the end ``config.json`` and ``model.safetensors``: the encoder.

    Args:
        encoder: What learns. With the identity as its transform, this is ordinary CL.
        data: The training set, or bare samples ``(n, *sample_shape)``. Labels serve measurements;
            only the supervised contrastive loss learns from them.
        pairs: Which two views belong together.
        config: Loss, optimiser, schedule and machine; all defaults where absent.
        out: The run folder. One that holds another run is refused.
        held_out: Measured after each epoch; a draw of the training data where absent.
        resume: Continue from the last checkpoint; starts at the beginning if there is none.
        console: Where progress is shown; standard output by default.
        settings: Single settings that differ from ``config``, without their group: ``epochs=2``,
            ``lr=1e-3``, ``temperature=0.2``.
    """
    config = TrainConfig() if config is None else config
    if not isinstance(config, TrainConfig):
        raise TypeError(
            f"config must be a TrainConfig, got {type(config).__name__}; make one with "
            "nonneg.TrainConfig.read"
        )
    config = config.changed(**settings) if settings else config
    samples = as_data(data)
    measured = samples if held_out is None else as_data(held_out)
    encoder.check_shape(measured.sample_shape)  # views of the others may have another shape
    return run_task(
        contrastive_task(encoder, pairs, config, labels=samples.labels),
        samples,
        config,
        out=out,
        held_out=None if held_out is None else measured,
        resume=resume,
        console=console,
    )


def contrastive_task(
    encoder: Encoder, pairs: Pairs, config: TrainConfig, *, labels: Tensor | None = None
) -> Contrastive:
    """How an encoder learns from pairs with the loss of the settings.

    Args:
        encoder: What learns.
        pairs: Which two views belong together.
        config: Its ``loss`` says how.
        labels: Of all training samples ``(n,)``, where there are some.
    """
    if config.loss.name == "queue":
        return MomentumQueue(encoder, pairs, config)
    return Contrastive(encoder, pairs, config, labels=labels)
