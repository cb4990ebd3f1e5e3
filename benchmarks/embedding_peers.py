"""The methods that features of embeddings are compared with: a table of transformers.

All are fitted on the training vectors alone, without labels. Autoencoders and CSR have 1,024
features, as NCL has. Constants were chosen on CLINC150's validation texts with 8 active features by
``benchmarks.embedding_tuning``; rows with 32 use the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import NMF, PCA, FastICA, MiniBatchDictionaryLearning
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from benchmarks.contrastive_autoencoder import CSR, parts
from benchmarks.embedding_sets import Vectors
from benchmarks.sparse_autoencoders import SparseAutoencoder
from nonneg import NCL

# Chosen by trials on CLINC150's validation texts, one seed; in brackets the mean of precision@10,
# 1-NN and purity, which is .857 for NCL. PCA 32 (.712), 48 (.717), 64 (.706), 96 (.693), 128
# (.680); FastICA 64 (.822), 96 (.796), 128 (.776), 192 (.719); NMF 32 (.650), 64 (.584).
# Learning rates 1e-4 (.709), 3e-4 (.777), 1e-3 (.763), 3e-3 (.746), 1e-2 (.736).
SAE: dict[str, Any] = {"learning_rate": 3e-4}
# On denoised vectors: learning rates 1e-3 (.718), 3e-3 (.761), 1e-2 (.762).
DENOISED_SAE: dict[str, Any] = {"learning_rate": 1e-2}
# Learning rates 3e-4 (.766), 1e-3 (.749), 3e-3 (.727).
BATCH_SAE: dict[str, Any] = {"learning_rate": 3e-4, "across": "batch"}
# Its own dot products with rates 1e-3 (.752), 3e-3 (.774), 1e-2 (.787); five times the cosine with
# 3e-3 (.811), 1e-2 (.822); twenty times the cosine with 3e-3 (.762).
CONTRASTIVE: dict[str, Any] = {"learning_rate": 1e-2, "scale": 5.0}
# One trial (.695); another with alpha 0.1 was stopped unfinished after two minutes.
DICTIONARY: dict[str, Any] = {
    "n_components": 512,
    "alpha": 0.2,
    "batch_size": 512,
    "max_iter": 1,
}


@dataclass(frozen=True)
class Method:
    """How a method is made.

    Args:
        make: From a seed, something with ``fit`` and ``transform``.
        seeded: Whether to run it with every seed; a seed changes little or nothing of the others.
    """

    make: Callable[[int], Any]
    seeded: bool = True


class Shifted(TransformerMixin, BaseEstimator):
    """Vectors above the smallest value that each column has in training; at least 0."""

    def fit(self, X: Vectors, y: None = None) -> Self:
        """Find the smallest value of each column."""
        self.lowest_ = X.min(axis=0)
        return self

    def transform(self, X: Vectors) -> Vectors:
        """Shifted vectors of the same shape."""
        shifted: Vectors = np.maximum(X - self.lowest_, 0)
        return shifted


class Denoised(TransformerMixin, BaseEstimator):
    """What NCL's head sees, of length 1: centred vectors on the axes that neighbours agree on."""

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Vectors, y: None = None) -> Self:
        """Choose the axes, as NCL does with its defaults."""
        # Noise needs no search for neighbours; the head is not used.
        ncl = NCL(2, pairs="noise", hidden=0, max_steps=1, random_state=self.random_state)
        self.projection_ = ncl.fit(X).encoder_.backbone
        return self

    @torch.no_grad()
    def transform(self, X: Vectors) -> Vectors:
        """Directions ``(n, n_axes)``."""
        return F.normalize(self.projection_(torch.from_numpy(X))).numpy()


def largest_entries(Z: Vectors, k: int) -> Vectors:
    """Z with all but the k entries of largest absolute value of each row set to 0."""
    kept = np.argpartition(-np.abs(Z), k - 1, axis=1)[:, :k]
    out = np.zeros_like(Z)
    np.put_along_axis(out, kept, np.take_along_axis(Z, kept, axis=1), axis=1)
    return out


def kept_to(k: int, method: Any) -> Pipeline:  # noqa: ANN401
    """A method whose features are cut to the k largest of each row."""
    return make_pipeline(method, FunctionTransformer(largest_entries, kw_args={"k": k}))


def dictionary(k: int, seed: int, **settings: Any) -> Pipeline:  # noqa: ANN401
    """Online dictionary learning of centred vectors, coded by k atoms (matching pursuit)."""
    learnt = MiniBatchDictionaryLearning(
        transform_algorithm="omp", transform_n_nonzero_coefs=k, random_state=seed, **settings
    )
    return make_pipeline(StandardScaler(with_std=False), learnt)


def contrastive(k: int, seed: int) -> CSR:
    """CSR with its tuned settings; an ImportError before anything is timed if it cannot run."""
    parts()
    return CSR(k, random_state=seed, **CONTRASTIVE)


def _ica(seed: int) -> FastICA:
    return FastICA(64, whiten="unit-variance", random_state=seed)


def _nmf(seed: int) -> Pipeline:
    return make_pipeline(Shifted(), NMF(32, init="nndsvda", random_state=seed))


METHODS: dict[str, Method] = {
    "dense": Method(lambda _: FunctionTransformer(), seeded=False),
    "PCA 48": Method(lambda _: PCA(48), seeded=False),
    "PCA 64": Method(lambda _: PCA(64), seeded=False),
    "PCA 64, 8 largest": Method(lambda _: kept_to(8, PCA(64)), seeded=False),
    "FastICA 64": Method(_ica, seeded=False),
    "FastICA 64, 8 largest": Method(lambda seed: kept_to(8, _ica(seed)), seeded=False),
    "NMF 32, shifted": Method(_nmf, seeded=False),
    "NMF 32, shifted, 8 largest": Method(lambda seed: kept_to(8, _nmf(seed)), seeded=False),
    "dictionary learning, 8": Method(lambda seed: dictionary(8, seed, **DICTIONARY)),
    "TopK autoencoder, 8": Method(lambda seed: SparseAutoencoder(8, random_state=seed, **SAE)),
    "TopK autoencoder, 32": Method(lambda seed: SparseAutoencoder(32, random_state=seed, **SAE)),
    "TopK autoencoder, 8, denoised": Method(
        lambda seed: make_pipeline(
            Denoised(seed), SparseAutoencoder(8, random_state=seed, **DENOISED_SAE)
        )
    ),
    "BatchTopK autoencoder, 8": Method(
        lambda seed: SparseAutoencoder(8, random_state=seed, **BATCH_SAE)
    ),
    "CSR, 8": Method(lambda seed: contrastive(8, seed)),
    "CSR, 32": Method(lambda seed: contrastive(32, seed)),
    "CSR, 8, denoised": Method(lambda seed: make_pipeline(Denoised(seed), contrastive(8, seed))),
    "CSR, 32, denoised": Method(lambda seed: make_pipeline(Denoised(seed), contrastive(32, seed))),
    "NCL": Method(lambda seed: NCL(random_state=seed)),
    "NCL, 32": Method(lambda seed: NCL(target_active=32, random_state=seed)),
}
