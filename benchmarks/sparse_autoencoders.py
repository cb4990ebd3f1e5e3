"""Sparse autoencoders of embeddings: TopK and BatchTopK, as scikit-learn transformers.

TopK (Gao et al., 2024) keeps the k largest features of a sample; BatchTopK (Bussmann et al., 2024)
the largest of a whole batch, k per sample on average, and at inference those above one threshold.
"""

from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor

from benchmarks.embedding_sets import Vectors
from nonneg.estimators.fit import rate_factor

# A feature that was off for so many steps is dead and learns from what the others leave over.
_DEAD_AFTER = 30
_DEAD_WEIGHT = 1 / 32


class SparseAutoencoder(TransformerMixin, BaseEstimator):
    """Features of which few rebuild a vector.

    Inputs are centred and scaled so that entries are of size 1. Encoder and decoder start equal;
    rows of the decoder have length 1. Dead features learn to rebuild the residual.

    Args:
        n_active: Features that are on in a sample; on average, across a batch.
        across: ``"sample"`` for TopK, ``"batch"`` for BatchTopK.
        n_components: Number of features.
        learning_rate: Of Adam at its peak, after a warm-up and before a cosine.
        n_steps: Optimiser steps.
        batch_size: Samples a step.
        random_state: Seed of everything drawn.
    """

    def __init__(
        self,
        n_active: int,
        *,
        across: str = "sample",
        n_components: int = 1024,
        learning_rate: float = 3e-3,
        n_steps: int = 600,
        batch_size: int = 512,
        random_state: int = 0,
    ) -> None:
        self.n_active = n_active
        self.across = across
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Vectors, y: None = None) -> Self:
        """Learn to rebuild X ``(n, d)``."""
        generator = torch.Generator().manual_seed(self.random_state)
        keep = _KEPT[self.across]
        samples = torch.from_numpy(X)
        self.center_ = samples.mean(dim=0)
        self.scale_ = 1 / (samples - self.center_).square().mean().sqrt()
        samples = self._placed(X)  # (n, d)
        shape = self.n_components, X.shape[1]
        decoder = F.normalize(torch.randn(shape, generator=generator)).requires_grad_()
        encoder = decoder.detach().clone().requires_grad_()
        biases = [torch.zeros(size).requires_grad_() for size in shape]
        optimizer = torch.optim.Adam([encoder, decoder, *biases], lr=self.learning_rate)
        rate = partial(rate_factor, n_steps=self.n_steps)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        steps_off = torch.zeros(self.n_components)
        for _ in range(self.n_steps):
            batch = samples[torch.randint(len(samples), (self.batch_size,), generator=generator)]
            scores = (batch - biases[1]) @ encoder.T + biases[0]  # (b, n_components)
            features = keep(scores.relu(), self.n_active)
            steps_off = torch.where((features > 0).any(dim=0), 0, steps_off + 1)
            left_over = batch - biases[1] - features @ decoder  # (b, d)
            loss = left_over.square().mean()
            dead = (steps_off >= _DEAD_AFTER).nonzero()[:, 0]
            if len(dead):
                some = min(len(dead), X.shape[1] // 2)
                revived = _largest_of_sample(scores[:, dead].relu(), some) @ decoder[dead]
                loss = loss + _DEAD_WEIGHT * (left_over.detach() - revived).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                decoder.copy_(F.normalize(decoder))
        self.encoder_, self.bias_ = encoder.detach(), (biases[0] - encoder @ biases[1]).detach()
        self.threshold_ = self._threshold(samples)
        return self

    def transform(self, X: Vectors) -> Vectors:
        """Features ``(n, n_components)``, at least 0."""
        scores = (self._placed(X) @ self.encoder_.T + self.bias_).relu_()
        if self.across == "sample":
            return _largest_of_sample(scores, self.n_active).numpy()
        return scores.where(scores > self.threshold_, 0).numpy()

    def _placed(self, X: Vectors) -> Tensor:
        return (torch.from_numpy(X) - self.center_) * self.scale_

    def _threshold(self, samples: Tensor) -> float:
        """What leaves ``n_active`` features on in a training sample, on average."""
        scores = (samples @ self.encoder_.T + self.bias_).relu_()
        return float(scores.flatten().topk(self.n_active * len(samples)).values[-1])


def _largest_of_sample(values: Tensor, k: int) -> Tensor:
    found = values.topk(k, dim=1, sorted=False)
    return torch.zeros_like(values).scatter(1, found.indices, found.values)


def _largest_of_batch(values: Tensor, k: int) -> Tensor:
    found = values.flatten().topk(k * len(values), sorted=False)
    kept = torch.zeros_like(values).flatten().scatter(0, found.indices, found.values)
    return kept.view_as(values)


_KEPT = {"sample": _largest_of_sample, "batch": _largest_of_batch}
