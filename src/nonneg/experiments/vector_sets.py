"""Which vectors does a fit learn from, and on which is it measured? Two sets that share nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg.data import Data, Subset, VectorData, numbered, read_labels, read_vectors, split_off
from nonneg.data.arrays import DAMAGED, npy_array
from nonneg.data.checking import check_labels
from nonneg.experiments.vector_settings import VectorFiles

MOST_KEPT_OUT = 10_000
# The options of the command line that say what belongs together.
_OPTIONS = {"labels": "--labels", "graph": "--graph", "index": "--index-pairs"}


class LearntFrom(NamedTuple):
    """What ``NCL.fit`` is given."""

    vectors: Any
    """``(n, d)``, mapped where the file is large and all of it is used."""
    y: Any
    graph: sparse.csr_array | None
    index_pairs: NDArray[np.int64] | None
    notes: tuple[str, ...]
    """What was left out, one sentence each."""


def vector_sets(files: VectorFiles) -> tuple[Data, Data | None]:
    """The set to learn from and the one to measure on; None where nothing was kept for that.

    Without a test file, a fixed random share of the vectors, at most 10,000, is kept out of the
    first set.

    Raises:
        ValueError: If files do not fit each other, or hold what is no number.
    """
    whole = read_vectors(files.vectors, column=files.column)
    test = read_vectors(files.test, column=files.column) if files.test else None
    _check_finite(files, whole, test)
    if test is not None and test.sample_shape != whole.sample_shape:
        raise ValueError(
            f"{files.test} has {test.sample_shape[0]} columns, {files.vectors} has "
            f"{whole.sample_shape[0]}; test vectors come from the same model"
        )
    if files.test_labels and test is None:
        raise ValueError("test labels were given without test vectors; add --test")
    whole, test = _labelled(files, whole, test)
    n_kept_out = min(round(files.test_share * len(whole)), MOST_KEPT_OUT)
    if test is not None:
        n_kept_out = 0
    return split_off(whole, n_kept_out) if n_kept_out else (whole, test)


def check_pairs(pairs: str, files: VectorFiles, train: Data) -> None:
    """Raise a sentence with the option to add or to leave out, unless all that pairs need is there.

    Args:
        pairs: What belongs together, see :class:`nonneg.NCL`.
        files: Where graph and index pairs lie.
        train: The first of :func:`vector_sets`, with labels where there are any.
    """
    is_given = {
        "labels": train.labels is not None,
        "graph": files.graph is not None,
        "index": files.index_pairs is not None,
    }
    if not is_given.get(pairs, True):
        raise ValueError(f"--pairs {pairs} needs a file: add {_OPTIONS[pairs]} FILE")
    for other in ("graph", "index"):
        if is_given[other] and other != pairs:
            raise ValueError(
                f"{_OPTIONS[other]} was given, but --pairs {pairs} does not use it; write --pairs "
                f"{other} or leave it out"
            )


def learnt_from(files: VectorFiles, train: Data) -> LearntFrom:
    """What to fit to: the vectors of the training set with the labels, edges or pairs among them.

    Args:
        files: Where graph and index pairs lie.
        train: The first of :func:`vector_sets`; a part of a file is copied into memory.
    """
    whole = train.data if isinstance(train, Subset) else train
    assert isinstance(whole, VectorData)
    rows = train.indices.numpy() if isinstance(train, Subset) else None
    graph, index_pairs, notes = None, None, []
    if files.graph:
        graph = _graph(Path(files.graph), len(whole))
        if rows is not None:
            n_edges = graph.nnz
            graph = graph[rows][:, rows]
            notes.append(_left_out("edges", n_edges - graph.nnz, n_edges))
    if files.index_pairs:
        index_pairs = npy_array(Path(files.index_pairs))
        if rows is not None:
            n_pairs = len(index_pairs)
            index_pairs = _renumbered(index_pairs, rows, len(whole))
            notes.append(_left_out("pairs", n_pairs - len(index_pairs), n_pairs))
    vectors = whole.vectors if rows is None else whole.vectors[rows]
    labels = None if train.labels is None else train.labels.numpy()
    return LearntFrom(vectors, labels, graph, index_pairs, tuple(filter(None, notes)))


def _check_finite(files: VectorFiles, whole: VectorData, test: VectorData | None) -> None:
    # Imported on use: scikit-learn takes a third of the time of all imports.
    from nonneg.estimators.vectors import check_finite

    check_finite(whole.vectors, files.vectors)
    if test is not None:
        check_finite(test.vectors, str(files.test))


def _labelled(
    files: VectorFiles, whole: VectorData, test: VectorData | None
) -> tuple[VectorData, VectorData | None]:
    """The sets with the labels of their files; a class has one number in both."""
    first = read_labels(files.labels) if files.labels else _as_written(whole)
    if first is None:
        return whole, test
    second = read_labels(files.test_labels) if files.test_labels else _as_written(test)
    if second is not None and _are_strangers(first, second):
        raise ValueError(
            f"the labels of {files.labels or files.vectors} and of "
            f"{files.test_labels or files.test} are words on one side and numbers on the other; "
            "write both alike"
        )
    numbers, names = numbered(first, *([] if second is None else [second]))
    check_labels(files.labels or files.vectors, numbers[0], len(whole), names)
    whole = replace(whole, labels=numbers[0], class_names=names)
    if test is None or second is None:
        return whole, test
    check_labels(files.test_labels or files.test or "", numbers[1], len(test), names)
    return whole, replace(test, labels=numbers[1], class_names=names)


def _are_strangers(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether one side has words, the other numbers, and no class is in both."""
    if (first.dtype.kind == "U") == (second.dtype.kind == "U"):
        return False
    return not set(map(str, first)) & set(map(str, second))


def _as_written(data: VectorData | None) -> NDArray[Any] | None:
    """Labels as the file has them: names of classes where there are any, else numbers."""
    if data is None or data.labels is None:
        return None
    numbers = data.labels.numpy()
    return np.array(data.class_names)[numbers] if data.class_names else numbers


def _graph(path: Path, n_samples: int) -> sparse.csr_array:
    try:
        with path.open("rb") as file:
            graph = sparse.csr_array(sparse.load_npz(file))
    except (ValueError, KeyError, TypeError, *DAMAGED) as error:
        raise ValueError(
            f"{path} cannot be read as a sparse matrix: it is something else, cut short or "
            "damaged; write one with scipy.sparse.save_npz"
        ) from error
    if graph.shape != (n_samples, n_samples):
        raise ValueError(
            f"{path} has shape {graph.shape} for {n_samples} samples; give one node a sample"
        )
    return graph


def _renumbered(pairs: NDArray[Any], rows: NDArray[Any], n_samples: int) -> NDArray[np.int64]:
    """The pairs of which both samples are among the rows, by their places there."""
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        return pairs  # refused by the estimator, in its own words
    wrong = pairs[(pairs < 0) | (pairs >= n_samples)]
    if wrong.size:
        raise ValueError(
            f"index pairs name sample {wrong[0]}, but samples are numbered 0 to {n_samples - 1}"
        )
    place = np.full(n_samples, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    found: NDArray[np.int64] = place[pairs]
    return found[(found >= 0).all(axis=1)]


def _left_out(what: str, n: int, of: int) -> str:
    if 0 < n == of:
        raise ValueError(
            f"all {of:,} {what} touch samples that are kept for testing; use --test-share 0 or "
            "--test to keep none"
        )
    return f"{n:,} of {of:,} {what} touch samples that are kept for testing: left out" if n else ""
