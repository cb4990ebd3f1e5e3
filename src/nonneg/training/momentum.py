"""How does an encoder learn from a queue? A slow copy of it makes keys, and keys are kept."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from nonneg.encoder import Encoded, Encoder
from nonneg.losses import gathered, info_nce_queue
from nonneg.losses.distributed import with_mean_value
from nonneg.pairs import Batch, Pairs, two_views
from nonneg.training.contrastive import Contrastive
from nonneg.training.settings import TrainConfig
from nonneg.training.task import Engine


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
        """Move the slow copy a little towards the encoder; statistics of batches are its own."""
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
        if config.loss.hidden_weight:
            raise ValueError(
                "loss=queue keeps features, not the backbone's output, to compare with; set "
                "loss.hidden_weight=0"
            )
        if config.training.anchor_at:
            raise ValueError(
                "loss=queue keeps keys of the features as they were; set training.anchor_at=0"
            )
        self.both = EncoderWithQueue(encoder, config.loss.queue_size, seed=config.seed)

    @property
    def module(self) -> nn.Module:
        """The encoder with its slow copy and the queue."""
        return self.both

    @property
    def _alike(self) -> tuple[Encoder, ...]:
        """A feature that starts anew has to do so in the keys too, or it dies again."""
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
