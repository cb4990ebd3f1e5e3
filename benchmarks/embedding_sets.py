"""The vectors that the benchmarks of embeddings run on: prepared files, as the model gave them.

The variable NONNEG_EMBEDDINGS names a folder with MiniLM vectors: ``clinc150_{train,val,test}.npy``
and ``newsgroups20_train.npy`` with their ``…_labels.npy``; ``scifact_corpus.npy`` and
``scifact_queries_test.npy`` with ``scifact_corpus_ids.json`` and ``scifact_queries_test_raw.json``
(each claim with its relevant ids).
"""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VARIABLE = "NONNEG_EMBEDDINGS"
FILES = [
    *(f"clinc150_{part}{end}.npy" for part in ("train", "val", "test") for end in ("", "_labels")),
    *(f"newsgroups20_train{end}.npy" for end in ("", "_labels")),
    *(f"scifact_{part}.npy" for part in ("corpus", "queries_test")),
    *(f"scifact_{part}.json" for part in ("corpus_ids", "queries_test_raw")),
]
_N_HELD_OUT = 1000

Vectors = NDArray[np.float32]
Labels = NDArray[np.int64]


class Labelled(NamedTuple):
    """Vectors ``(n, d)`` to fit and to search in, others to ask with, and the labels of both."""

    train: Vectors
    train_labels: Labels
    test: Vectors
    test_labels: Labels


class Claims(NamedTuple):
    """Vectors of abstracts and of claims, and for each claim the rows of its abstracts."""

    corpus: Vectors
    queries: Vectors
    relevant: list[list[int]]


def missing(files: Sequence[str] = FILES) -> str | None:
    """Why the sets cannot be read, or None if they can."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        return f"set {VARIABLE} to a folder of prepared vectors"
    absent = [name for name in files if not (Path(folder) / name).exists()]
    return f"{folder} lacks {', '.join(absent)}" if absent else None


def prepared() -> Path:
    """The folder of prepared vectors."""
    return Path(os.environ[VARIABLE])


def clinc150(part: str = "test") -> Labelled:
    """15,000 requests of 150 intents, and the 4,500 of ``test`` or the 3,000 of ``val``."""
    names = (f"clinc150_{name}{end}.npy" for name in ("train", part) for end in ("", "_labels"))
    return Labelled(*(np.load(prepared() / name) for name in names))


def newsgroups20() -> Labelled:
    """4,000 posts of 20 groups, and 1,000 others, drawn by chance."""
    names = (f"newsgroups20_train{end}.npy" for end in ("", "_labels"))
    vectors, labels = (np.load(prepared() / name) for name in names)
    order = np.random.default_rng(0).permutation(len(vectors))
    asked, kept = order[:_N_HELD_OUT], order[_N_HELD_OUT:]
    return Labelled(vectors[kept], labels[kept], vectors[asked], labels[asked])


def scifact() -> Claims:
    """5,183 abstracts and the 300 test claims."""
    folder = prepared()
    ids = json.loads((folder / "scifact_corpus_ids.json").read_text())
    claims = json.loads((folder / "scifact_queries_test_raw.json").read_text())
    row = {name: number for number, name in enumerate(ids)}
    return Claims(
        np.load(folder / "scifact_corpus.npy"),
        np.load(folder / "scifact_queries_test.npy"),
        [[row[name] for name in claim["relevant"]] for claim in claims],
    )


def ndcg_at_10(queries: Vectors, corpus: Vectors, relevant: list[list[int]]) -> float:
    """The mean over queries of the discounted gain of the ten nearest, as a share of the best.

    Args:
        queries: Features ``(n, d)``, compared by cosine; one of zeros finds nothing.
        corpus: Features to search in ``(n_corpus, d)``.
        relevant: For each query the rows that it should find, at least one.
    """
    cosine = _unit(queries) @ _unit(corpus).T
    nearest = np.argsort(-cosine, axis=1, kind="stable")[:, :10]
    nearest[~queries.any(axis=1)] = -1
    discounts = [1 / math.log2(place + 2) for place in range(10)]
    gains = []
    for found, wanted in zip(nearest.tolist(), relevant, strict=True):
        gain = sum(discounts[place] for place, row in enumerate(found) if row in wanted)
        gains.append(gain / sum(discounts[: len(wanted)]))
    return sum(gains) / len(gains)


def _unit(features: Vectors) -> Vectors:
    lengths: Vectors = np.linalg.norm(features, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return features / lengths
