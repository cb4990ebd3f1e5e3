"""The figures of features of embeddings: retrieval, search, readability and size.

Figures of one run are plain numbers, so that a run can be kept as a line of JSON; a search has its
score for each question too, for comparisons that are paired over questions.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.embedding_sets import Labelled, Search, Vectors
from nonneg import metrics

Figures = dict[str, Any]

TWIN_COSINE = 0.9
_N_STRONGEST = 20
# Per stored number of a CSR matrix a float32 and an int16, and an int32 per row.
_VALUE_BYTES, _COLUMN_BYTES, _ROW_BYTES = 4, 2, 4
_INT16_COLUMNS = 1 << 15


class Features(NamedTuple):
    """What a method made of a set.

    Args:
        gallery: Features of the rows that were fitted and are searched in, ``(n, n_features)``.
        queries: Of those that are asked with, ``(n_queries, n_features)``.
        seconds: Processor time of the fit.
    """

    gallery: Vectors
    queries: Vectors
    seconds: float


def figures(features: Features, data: Labelled | Search) -> Figures:
    """Every figure of the features of one part of a set."""
    if isinstance(data, Labelled):
        return labelled_figures(features, data)
    return search_figures(features, data)


def labelled_figures(features: Features, data: Labelled) -> Figures:
    """Retrieval of the fitted samples by the asked ones, and readability on the asked ones."""
    searched = (features.gallery, data.train_labels)
    at_10, at_1 = (
        metrics.precision_at_k(features.queries, data.query_labels, k, gallery=searched)
        for k in (10, 1)
    )
    purity = metrics.top_purity(features.queries, data.query_labels, m=_N_STRONGEST)
    return {
        "p10": float(at_10),
        "nn1": float(at_1),
        "purity": float(purity),
        "n_pure": purity.averaged_over,
        **_sizes(features, features.queries),
    }


def search_figures(features: Features, data: Search) -> Figures:
    """nDCG@10 of the questions; twins and alive features are those of the documents."""
    per_question = ndcg_per_query(features.queries, features.gallery, data.relevant)
    return {
        "ndcg": float(per_question.mean()),
        "ndcg_per_question": [round(float(score), 6) for score in per_question],
        **_sizes(features, features.gallery),
    }


def _sizes(features: Features, read: Vectors) -> Figures:
    n_empty = int((~features.queries.any(axis=1)).sum())
    return {
        "active": float(metrics.active_per_sample(features.queries)),
        "twins": twin_rate(read),
        "alive": int(metrics.alive_features(read).sum()),
        "n_features": features.queries.shape[1],
        "empty": n_empty,
        "bytes": stored_bytes(features.gallery),
        "seconds": features.seconds,
    }


def twin_rate(Z: Vectors) -> float:
    """The share of alive features with another whose column has a cosine above 0.9.

    NaN if no feature is alive.

    Example:
        >>> twin_rate(np.array([[1, 2, 0, 0], [1, 2, 1, 0]], dtype=np.float32))
        0.6666666666666666
    """
    columns = Z[:, metrics.alive_features(Z)]
    if not columns.shape[1]:
        return math.nan
    columns = columns / np.linalg.norm(columns, axis=0)
    cosine = columns.T @ columns
    np.fill_diagonal(cosine, -1)
    return float((cosine.max(axis=1) > TWIN_COSINE).mean())


def stored_bytes(Z: Vectors) -> float:
    """Bytes per sample: dense float32, or CSR of float32 values and int16 columns if that is less.

    Example:
        >>> stored_bytes(np.eye(4, 100, dtype=np.float32))  # one number, and the row's end
        10.0
    """
    assert Z.shape[1] <= _INT16_COLUMNS, Z.shape
    n_stored = np.count_nonzero(Z) / len(Z)
    sparse = n_stored * (_VALUE_BYTES + _COLUMN_BYTES) + _ROW_BYTES
    return float(min(sparse, _VALUE_BYTES * Z.shape[1]))


def ndcg_at_10(queries: Vectors, corpus: Vectors, relevant: list[list[int]]) -> float:
    """The mean of :func:`ndcg_per_query`."""
    return float(ndcg_per_query(queries, corpus, relevant).mean())


def ndcg_per_query(
    queries: Vectors, corpus: Vectors, relevant: list[list[int]]
) -> NDArray[np.float64]:
    """The discounted gain of each query's ten nearest, as a share of the best, ``(n,)``.

    Args:
        queries: Features ``(n, d)``, compared by cosine; one of zeros finds nothing.
        corpus: Features to search in ``(n_corpus, d)``; one of zeros is never found.
        relevant: For each query the rows that it should find, at least one.

    Example:
        >>> ndcg_per_query(np.eye(2), np.array([[1.0, 0.5], [0.5, 1.0]]), [[0], [0]]).round(3)
        array([1.   , 0.631])
    """
    cosine = _unit(queries) @ _unit(corpus).T
    cosine[:, ~corpus.any(axis=1)] = -np.inf
    nearest = np.argsort(-cosine, axis=1, kind="stable")[:, :10]
    nearest[np.isneginf(np.take_along_axis(cosine, nearest, axis=1))] = -1
    nearest[~queries.any(axis=1)] = -1
    discounts = [1 / math.log2(place + 2) for place in range(10)]
    scores = []
    for found, wanted in zip(nearest.tolist(), map(set, relevant), strict=True):
        gain = sum(discounts[place] for place, row in enumerate(found) if row in wanted)
        scores.append(gain / sum(discounts[: len(wanted)]))
    return np.array(scores)


def bootstrap_interval(
    differences: NDArray[np.float64], *, n_draws: int = 10_000
) -> tuple[float, float]:
    """The 95 % interval of the mean of paired differences ``(n,)``, by drawing them anew.

    Example:
        >>> bootstrap_interval(np.full(5, 0.25))
        (0.25, 0.25)
    """
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(differences), size=(n_draws, len(differences)))
    low, high = np.quantile(differences[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def _unit(features: Vectors) -> Vectors:
    lengths: Vectors = np.linalg.norm(features, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return features / lengths
