"""The methods that the benchmarks of embeddings compare: vectors as they are, NCL and its peers.

All learn from the vectors to search in, without labels; what is called transductive learns from the
questions' vectors too. Peers have as many active numbers as NCL has on the same set and, where
they are sparse, as many features. Learning rates of autoencoders and CSR were chosen on CLINC150's
validation texts with 8 active of 1,024 features, by ``benchmarks.embedding_tuning``.
"""

import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA, FastICA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import FunctionTransformer

from benchmarks.contrastive_autoencoder import CSR, parts
from benchmarks.embedding_figures import Features
from benchmarks.embedding_sets import Vectors
from benchmarks.sparse_autoencoders import SparseAutoencoder
from nonneg import NCL

# Chosen by trials on CLINC150's validation texts, one seed; in brackets the mean of precision@10,
# 1-NN and purity. Learning rates 1e-4 (.709), 3e-4 (.777), 1e-3 (.763), 3e-3 (.746), 1e-2 (.736).
SAE: dict[str, Any] = {"learning_rate": 3e-4}
# Learning rates 3e-4 (.766), 1e-3 (.749), 3e-3 (.727).
BATCH_SAE: dict[str, Any] = {"learning_rate": 3e-4, "across": "batch"}
# Its own dot products with rates 1e-3 (.752), 3e-3 (.774), 1e-2 (.787); five times the cosine with
# 3e-3 (.811), 1e-2 (.822); twenty times the cosine with 3e-3 (.762).
CONTRASTIVE: dict[str, Any] = {"learning_rate": 1e-2, "scale": 5.0}
# Of SensTopic, for time: each of its up to 200 iterations on CLINC150's training texts takes 3.5 s
# of one core with 1,024 topics, 0.6 s with 256.
MOST_TOPICS = 1024

TURFTOPIC = 'needs turftopic: pip install "turftopic>=0.28"'

Represent = Callable[[Vectors, Vectors], Features]


class Size(NamedTuple):
    """How large NCL's features are on a set, which those of its peers are too."""

    n_active: int
    n_features: int


@dataclass(frozen=True)
class Method:
    """How a method is made.

    Args:
        title: In tables.
        make: From a size and a seed, what makes features of vectors to fit and vectors to ask with.
        group: ``"dense"``, ``"ncl"`` or ``"peer"``: peers are given the size of NCL, the others
            ignore it.
        is_seeded: Whether to run it with every seed; a seed changes little or nothing of the
            others, or they take too long.
        why_not: Why it cannot run here, or None if it can.
    """

    title: str
    make: Callable[[Size, int], Represent]
    group: str = "peer"
    is_seeded: bool = True
    why_not: Callable[[], str | None] = lambda: None


def inductive(estimator: Any) -> Represent:  # noqa: ANN401
    """Features of something with ``fit`` and ``transform``, fitted on the first vectors only."""

    def represent(train: Vectors, queries: Vectors) -> Features:
        began = time.process_time()  # others may use the machine too
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ICA that has not converged in 200 iterations
            estimator.fit(train)
        seconds = time.process_time() - began
        gallery, asked = (np.asarray(estimator.transform(X)) for X in (train, queries))
        return Features(gallery, asked, seconds)

    return represent


def largest_entries(Z: Vectors, k: int) -> Vectors:
    """Z with all but the k entries of largest absolute value of each row set to 0.

    Example:
        >>> largest_entries(np.array([[3.0, -4.0, 1.0]]), 2)
        array([[ 3., -4.,  0.]])
    """
    if k >= Z.shape[1]:
        return Z
    kept = np.argpartition(-np.abs(Z), k - 1, axis=1)[:, :k]
    out = np.zeros_like(Z)
    np.put_along_axis(out, kept, np.take_along_axis(Z, kept, axis=1), axis=1)
    return out


class _Words:
    """Stands where turftopic has an encoder of words, which its topics of samples do not use."""

    def __init__(self, n_numbers: int) -> None:
        self.n_numbers = n_numbers

    def encode(self, words: list[str], **_: Any) -> Vectors:  # noqa: ANN401
        rng = np.random.default_rng(0)
        return rng.standard_normal((len(words), self.n_numbers)).astype(np.float32)


def n_directions(X: Vectors) -> int:
    """In how many directions vectors vary; ICA makes noise of any other, and finds nothing then.

    Example:
        >>> n_directions(np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 4.0], [1.0, 5.0, 1.0]]))
        2
    """
    centred = X.astype(np.float64) - X.mean(axis=0)
    return int(np.linalg.matrix_rank(centred.T @ centred, hermitian=True))


def topics(
    name: str, n_topics: int, n_active: int, seed: int, *, is_transductive: bool
) -> Represent:
    """Topics of one of turftopic's models, the ``n_active`` largest of each sample.

    Inductive: fitted on the vectors to search in; then ``transform`` of all vectors in one call,
    because SensTopic gives the same row other topics in other company. Transductive: fitted on all
    vectors.

    Args:
        name: The class in turftopic.
        n_topics: How many; S³ has at most ``n_directions``, SensTopic ``MOST_TOPICS``.
        n_active: How many are kept per sample.
        seed: Of everything drawn.
        is_transductive: Whether questions are fitted too.
    """

    def represent(train: Vectors, queries: Vectors) -> Features:
        everything = np.concatenate([train, queries])
        fitted = everything if is_transductive else train
        most = MOST_TOPICS if name == "SensTopic" else n_directions(fitted)
        began = time.process_time()
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            model = getattr(import_module("turftopic"), name)(
                min(n_topics, most),
                encoder=_Words(train.shape[1]),
                random_state=seed,
                vectorizer=CountVectorizer(),
            )
            found = model.fit_transform(["word"] * len(fitted), embeddings=fitted)
            seconds = time.process_time() - began
            if not is_transductive:
                found = model.transform(["word"] * len(everything), embeddings=everything)
        # A row that SensTopic divides by zero has no topic, and is counted as empty.
        found = np.nan_to_num(np.asarray(found, dtype=np.float32))
        found = largest_entries(found, n_active)
        return Features(*np.split(found, [len(train)]), seconds)

    return represent


def _without_turftopic() -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module("turftopic")
    except (ImportError, RuntimeError, OSError):
        return TURFTOPIC
    return None


def _without_csr() -> str | None:
    try:
        parts()
    except ImportError as error:
        return str(error)
    return None


def _turftopic(title: str, name: str, *, is_transductive: bool) -> Method:
    way = "transductive" if is_transductive else "inductive"
    return Method(
        f"{title} of turftopic, {way}",
        lambda size, seed: topics(
            name, size.n_features, size.n_active, seed, is_transductive=is_transductive
        ),
        is_seeded=False,
        why_not=_without_turftopic,
    )


def _ncl(title: str, **settings: Any) -> Method:  # noqa: ANN401
    return Method(title, lambda _, seed: inductive(NCL(random_state=seed, **settings)), group="ncl")


METHODS: dict[str, Method] = {
    "dense": Method(
        "the vectors themselves", lambda *_: inductive(FunctionTransformer()), "dense", False
    ),
    "ncl": _ncl("NCL"),
    "concepts": _ncl('NCL, detail="concepts"', detail="concepts"),
    "full": _ncl('NCL, detail="full"', detail="full"),
    "pca": Method(
        "PCA, as many numbers as are active",
        lambda size, _: inductive(PCA(size.n_active)),
        is_seeded=False,
    ),
    "fastica": Method(
        "FastICA, as many numbers as are active",
        lambda size, seed: inductive(
            FastICA(size.n_active, whiten="unit-variance", random_state=seed)
        ),
        is_seeded=False,
    ),
    "topk": Method(
        "TopK autoencoder",
        lambda size, seed: inductive(
            SparseAutoencoder(size.n_active, n_components=size.n_features, random_state=seed, **SAE)
        ),
    ),
    "batchtopk": Method(
        "BatchTopK autoencoder",
        lambda size, seed: inductive(
            SparseAutoencoder(
                size.n_active, n_components=size.n_features, random_state=seed, **BATCH_SAE
            )
        ),
    ),
    "csr": Method(
        "CSR of sentence-transformers",
        lambda size, seed: inductive(
            CSR(
                size.n_active,
                # Its loss wants four times as many features as are active.
                n_components=max(size.n_features, 4 * size.n_active),
                random_state=seed,
                **CONTRASTIVE,
            )
        ),
        why_not=_without_csr,
    ),
    "s3": _turftopic("S³", "SemanticSignalSeparation", is_transductive=False),
    "s3-transductive": _turftopic("S³", "SemanticSignalSeparation", is_transductive=True),
    "senstopic": _turftopic("SensTopic", "SensTopic", is_transductive=False),
    "senstopic-transductive": _turftopic("SensTopic", "SensTopic", is_transductive=True),
}
