"""CSR on embeddings: the parts of sentence-transformers, applied to given vectors."""

from functools import partial
from importlib import import_module
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor

from benchmarks.embedding_sets import Vectors
from nonneg.estimators.fit import rate_factor
from nonneg.pairs import nearest_neighbors

# Dead features that learn at a time, which is sentence-transformers' own number.
_MOST_DEAD = 512


def parts() -> tuple[Any, Any]:
    """The class of the module, and the loss classes, of sentence-transformers.

    Raises:
        ImportError: It is not there, or too old, or does not go with the installed PyTorch.
    """
    try:
        losses = import_module("sentence_transformers.sparse_encoder.losses")
        modules = import_module("sentence_transformers.sparse_encoder.modules")
        return modules.SparseAutoEncoder, losses
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        raise ImportError(
            f"CSR needs sentence-transformers ≥ 6.2, which cannot be imported: {error}"
        ) from error


class CSR(TransformerMixin, BaseEstimator):
    """Contrastive Sparse Representation (Wen et al., 2025) with neighbours as positives.

    The module is sentence-transformers' ``SparseAutoEncoder`` and the loss its ``CSRLoss``:
    reconstruction from k and from 4k features, an auxiliary part for dead features, and
    ``SparseMultipleNegativesRankingLoss`` over pairs. The module stands where a whole
    ``SparseEncoder`` would, because the vectors are already there.

    Args:
        n_active: The most features that are on in a sample.
        n_components: Number of features.
        learning_rate: Of AdamW at its peak, after a warm-up and before a cosine.
        scale: What cosines are multiplied by in the ranking loss; None for its own default, dot
            products as they are.
        gamma: Weight of the ranking loss.
        n_neighbors: How many of the nearest vectors by cosine are positives.
        n_steps: Optimiser steps.
        batch_size: Pairs a step.
        random_state: Seed of everything drawn.
    """

    def __init__(
        self,
        n_active: int,
        *,
        n_components: int = 1024,
        learning_rate: float = 1e-3,
        scale: float | None = None,
        gamma: float = 1.0,
        n_neighbors: int = 10,
        n_steps: int = 300,
        batch_size: int = 256,
        random_state: int = 0,
    ) -> None:
        self.n_active = n_active
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.scale = scale
        self.gamma = gamma
        self.n_neighbors = n_neighbors
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: Vectors, y: None = None) -> Self:
        """Learn from X ``(n, d)`` and the neighbours in it."""
        autoencoder, losses = parts()
        samples = torch.from_numpy(X)
        neighbors = nearest_neighbors(samples, self.n_neighbors)
        generator = torch.Generator().manual_seed(self.random_state)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            model = autoencoder(
                X.shape[1],
                self.n_components,
                k=self.n_active,
                k_aux=min(_MOST_DEAD, self.n_components),
            )
        ranking = losses.SparseMultipleNegativesRankingLoss(model)
        if self.scale is not None:
            ranking = losses.SparseMultipleNegativesRankingLoss(
                model, scale=self.scale, similarity_fct=_cosines
            )
        loss = losses.CSRLoss(model, ranking, gamma=self.gamma)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.learning_rate)
        rate = partial(rate_factor, n_steps=self.n_steps)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        model.train()
        for _ in range(self.n_steps):
            anchors = torch.randint(len(samples), (self.batch_size,), generator=generator)
            drawn = torch.randint(self.n_neighbors, (self.batch_size,), generator=generator)
            sides = (samples[anchors], samples[neighbors[anchors, drawn]])
            terms = loss([{"sentence_embedding": side} for side in sides])
            optimizer.zero_grad()
            sum(terms.values()).backward()
            optimizer.step()
            schedule.step()
        self.model_ = model.eval()
        return self

    def transform(self, X: Vectors) -> Vectors:
        """Features ``(n, n_components)``, at least 0."""
        with torch.inference_mode():
            encoded = self.model_({"sentence_embedding": torch.from_numpy(X)})
        return np.array(encoded["sentence_embedding"])


def _cosines(a: Tensor, b: Tensor) -> Tensor:
    return F.normalize(a) @ F.normalize(b).T
