"""The sets that the benchmarks of embeddings run on: labelled vectors, and searches.

The variable NONNEG_EMBEDDINGS names a folder of vectors that ``benchmarks.embedding_vectors`` made.
Every set has a validation part, on which settings are chosen, and a test part. Nothing that is
asked in the test part is fitted or asked in the validation part; a corpus is searched in both.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VARIABLE = "NONNEG_EMBEDDINGS"
PARTS = ("validation", "test")
# Of 20 Newsgroups' training posts, those asked in the validation part.
_N_ASKED_POSTS = 2000
_N_CRANFIELD_VALIDATION = 75

Vectors = NDArray[np.float32]
Labels = NDArray[np.int64]


class Labelled(NamedTuple):
    """Vectors ``(n, d)`` to fit and to search in, others to ask with, and the labels of both."""

    train: Vectors
    train_labels: Labels
    queries: Vectors
    query_labels: Labels


class Search(NamedTuple):
    """Vectors of documents, to fit and to search in, and of questions.

    Args:
        corpus: ``(n_documents, d)``.
        queries: ``(n_questions, d)``.
        relevant: For each question the rows of ``corpus`` that it should find, at least one.
    """

    corpus: Vectors
    queries: Vectors
    relevant: list[list[int]]


class EmbeddingSet(NamedTuple):
    """A set by its title, its files, and what reads one of its parts from the folder."""

    title: str
    files: tuple[str, ...]
    read: Callable[[Path, str], Labelled | Search]


def prepared() -> Path:
    """The folder of prepared vectors."""
    return Path(os.environ[VARIABLE])


def missing(files: Sequence[str] = ()) -> str | None:
    """Why files cannot be read, or None if they can; without files, whether there is a folder."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        return f"set {VARIABLE} to a folder made by python -m benchmarks.embedding_vectors"
    absent = [name for name in files if not (Path(folder) / name).exists()]
    return f"{folder} lacks {', '.join(absent)}" if absent else None


def read_set(name: str, part: str) -> Labelled | Search:
    """One part of a set.

    Args:
        name: A key of ``SETS``.
        part: ``"validation"`` or ``"test"``.
    """
    if part not in PARTS:
        raise ValueError(f"unknown part {part!r}; known: {', '.join(PARTS)}")
    return SETS[name].read(prepared(), part)


def divided(n_samples: int, part: str, *, train_rate: float) -> tuple[Labels, Labels]:
    """The rows to fit and those to ask with, of a set without an official division.

    One permutation divides off the test rows; the validation part lies within the others, of which
    the last quarter is asked.

    Example:
        >>> fitted, asked = divided(40, "validation", train_rate=0.5)
        >>> len(fitted), len(asked), set(asked) <= set(divided(40, "test", train_rate=0.5)[0])
        (15, 5, True)
    """
    order = np.random.default_rng(0).permutation(n_samples)
    kept, asked = np.split(order, [int(train_rate * n_samples)])
    if part == "validation":
        kept, asked = np.split(kept, [int(0.75 * len(kept))])
    return kept, asked


def _clinc150(folder: Path, part: str) -> Labelled:
    asked = {"validation": "val", "test": "test"}[part]
    return Labelled(*_labelled(folder, "clinc150_train"), *_labelled(folder, f"clinc150_{asked}"))


def _newsgroups20(folder: Path, part: str) -> Labelled:
    vectors, labels = _labelled(folder, "newsgroups20_train")
    if part == "test":
        return Labelled(vectors, labels, *_labelled(folder, "newsgroups20_test"))
    order = np.random.default_rng(0).permutation(len(vectors))
    asked, kept = np.split(order, [_N_ASKED_POSTS])
    return Labelled(vectors[kept], labels[kept], vectors[asked], labels[asked])


def _undivided(stem: str, train_rate: float) -> Callable[[Path, str], Labelled]:
    def read(folder: Path, part: str) -> Labelled:
        vectors, labels = _labelled(folder, stem)
        kept, asked = divided(len(vectors), part, train_rate=train_rate)
        return Labelled(vectors[kept], labels[kept], vectors[asked], labels[asked])

    return read


def _cranfield(folder: Path, part: str) -> Search:
    first, others = slice(_N_CRANFIELD_VALIDATION), slice(_N_CRANFIELD_VALIDATION, None)
    asked = {"validation": first, "test": others}[part]
    return _search(folder, "cranfield_corpus", "cranfield_queries", asked)


def _scifact(folder: Path, part: str) -> Search:
    asked = {"validation": "train", "test": "test"}[part]
    return _search(folder, "scifact_corpus", f"scifact_queries_{asked}", slice(None))


def _labelled(folder: Path, stem: str) -> tuple[Vectors, Labels]:
    return np.load(folder / f"{stem}.npy"), np.load(folder / f"{stem}_labels.npy")


def _search(folder: Path, corpus: str, questions: str, asked: slice) -> Search:
    ids = json.loads((folder / f"{corpus}_ids.json").read_text())
    rows = {name: number for number, name in enumerate(ids)}
    wanted = [
        [rows[name] for name in question["relevant"] if name in rows]
        for question in json.loads((folder / f"{questions}_raw.json").read_text())[asked]
    ]
    answered = [number for number, found in enumerate(wanted) if found]
    queries = np.load(folder / f"{questions}.npy")[asked]
    return Search(
        np.load(folder / f"{corpus}.npy"), queries[answered], [wanted[n] for n in answered]
    )


def _files(*stems: str) -> tuple[str, ...]:
    return tuple(f"{stem}{end}.npy" for stem in stems for end in ("", "_labels"))


def _search_files(corpus: str, *questions: str) -> tuple[str, ...]:
    return (
        f"{corpus}.npy",
        f"{corpus}_ids.json",
        *(f"{stem}{end}" for stem in questions for end in (".npy", "_raw.json")),
    )


SETS: dict[str, EmbeddingSet] = {
    "clinc150": EmbeddingSet(
        "CLINC150", _files("clinc150_train", "clinc150_val", "clinc150_test"), _clinc150
    ),
    "newsgroups20": EmbeddingSet(
        "20 Newsgroups", _files("newsgroups20_train", "newsgroups20_test"), _newsgroups20
    ),
    "bbc": EmbeddingSet("BBC News", _files("bbc"), _undivided("bbc", 0.7)),
    "cranfield": EmbeddingSet(
        "Cranfield", _search_files("cranfield_corpus", "cranfield_queries"), _cranfield
    ),
    "scifact": EmbeddingSet(
        "SciFact",
        _search_files("scifact_corpus", "scifact_queries_train", "scifact_queries_test"),
        _scifact,
    ),
    "cifar10": EmbeddingSet(
        "CIFAR-10 images", _files("cifar10_test"), _undivided("cifar10_test", 0.5)
    ),
    "fashion-mnist": EmbeddingSet(
        "Fashion-MNIST images",
        _files("fashion_mnist_test"),
        _undivided("fashion_mnist_test", 0.5),
    ),
}
