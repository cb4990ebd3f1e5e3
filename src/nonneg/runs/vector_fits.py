"""Fits of vectors as experiments: their settings, and the sets they learn from or are tested on."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, JsonValue
from scipy import sparse

from nonneg.data.arrays import (
    DAMAGED,
    NpzFile,
    check_is_file,
    npy_array,
    numbered,
    read_labels,
)
from nonneg.data.checking import check_labels
from nonneg.data.dataset import Data, Subset, split_off, whole_of
from nonneg.data.fragments import DrawnFrom
from nonneg.data.text_table import TABLE_KINDS, TextTable, read_table
from nonneg.data.vectors import KINDS, VectorData, read_vectors
from nonneg.io import digest_of_file
from nonneg.settings import Settings, with_overrides
from nonneg.texts import EncoderFacts

# Arguments of the estimator that do not change what it learns.
_MACHINE = ("device", "sparse_output", "verbose")
_FILES = {
    "vectors": KINDS,
    "labels": ".npy or text",
    "test": KINDS,
    "test_labels": ".npy or text",
    "graph": ".npz",
    "index_pairs": ".npy",
}


class TextFile(Settings):
    """The table of texts that the vectors of a run are of, and what embedded them."""

    table: str
    """Its absolute path."""
    digest: str
    """SHA-256 of it."""
    text: str | None = None
    """The column of the texts; absent for a file with one per line."""
    label: str | None = None
    """That of their labels, if any."""
    date: str | None = None
    """That of their dates, if any."""
    encoder: EncoderFacts | None = None
    """Absent where the vectors were given, and nothing is known of their encoder."""

    @classmethod
    def at(cls, table: str | Path, **given: Any) -> Self:  # noqa: ANN401
        """The table of a command line: its absolute path, with its digest."""
        path = Path(table).expanduser().resolve()
        return cls(table=str(path), digest=digest_of_file(path), **given)

    def read_texts(self) -> TextTable:
        """The table itself."""
        return read_table(self.table, text=self.text, label=self.label, date=self.date)


class VectorFiles(Settings):
    """Where the data of a fitted run lies, as absolute paths."""

    vectors: str
    """What is learnt from."""
    column: str | None = None
    """The array or column that holds the vectors; found where absent."""
    labels: str | None = None
    """One per vector, where the file of vectors has none."""
    test: str | None = None
    """Vectors to measure on; where absent, a share of the others is held out."""
    test_labels: str | None = None
    """Those of the test vectors."""
    test_share: float = Field(default=0.1, ge=0, lt=1)
    """How large that share is."""
    graph: str | None = None
    """Which samples belong together, as a sparse matrix."""
    index_pairs: str | None = None
    """Which samples belong together, as pairs of their numbers."""
    texts: TextFile | None = None
    """What the vectors are of, row by row, where these are texts."""
    drawn: DrawnFrom | None = None
    """Where the rows come from, if they were drawn from many files."""
    digests: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of each file, so that a run is never measured on changed files."""

    @classmethod
    def at(cls, **given: Any) -> Self:  # noqa: ANN401
        """The files of a command line: absolute paths, with digests.

        Raises:
            OSError: One of them is not there, or a folder.
        """
        paths = {key: _whole(given[key], key) for key in _FILES if given.get(key) is not None}
        files = cls.read({**given, **{key: str(path) for key, path in paths.items()}})
        digests = {key: digest_of_file(path) for key, path in paths.items()}
        return files.model_copy(update={"digests": digests})

    def check_unchanged(self) -> None:
        """Raise an error for the first file that is missing or has changed."""
        rows = Path(self.vectors if self.texts is None else self.texts.table)
        if self.drawn is not None and not rows.is_file():
            raise FileNotFoundError(
                f"the rows drawn from {self.drawn.source} are gone ({rows}); give the nonneg fit "
                "command of this run again, which draws them anew"
            )
        if self.texts is not None and not Path(self.vectors).is_file():
            raise FileNotFoundError(
                f"the vectors of {self.texts.table} are gone ({self.vectors}); give the nonneg fit "
                "command of this run again, which makes them anew"
            )
        known = {_whole(getattr(self, key), key): digest for key, digest in self.digests.items()}
        if self.texts is not None:
            check_is_file(Path(self.texts.table), TABLE_KINDS)
            known[Path(self.texts.table)] = self.texts.digest
        for path, digest in known.items():
            if digest_of_file(path) != digest:
                raise ValueError(
                    f"{path} has changed since the run was fitted to it; fit again, or name other "
                    "data with --data"
                )


class VectorExperiment(Settings):
    """All settings of a fitted run. What it shares with trained runs has the same names there."""

    task: Literal["fit"] = "fit"
    """Tells it from trained runs."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Of the fit."""
    data: VectorFiles
    encoder: dict[str, JsonValue]
    """Only ``nonnegative``: ``identity`` is ordinary contrastive learning."""
    loss: dict[str, JsonValue]
    """Name and temperature."""
    ncl: dict[str, JsonValue]
    """The other arguments of :class:`nonneg.NCL`."""

    @property
    def estimator_arguments(self) -> dict[str, Any]:
        """What :class:`nonneg.NCL` is made with."""
        return {
            **self.ncl,
            "nonnegative": self.encoder["nonnegative"],
            "temperature": self.loss["temperature"],
            "random_state": self.seed,
        }


def vector_experiment(
    files: VectorFiles, assignments: Iterable[str] = ()
) -> tuple[VectorExperiment, dict[str, Any]]:
    """The experiment of some files and ``key=value`` settings, and the settings of the machine.

    Keys are the arguments of :class:`nonneg.NCL`, with ``seed`` for ``random_state``. Without
    ``pairs``, a graph or index pairs are used where they are given, and neighbours otherwise.

    Args:
        files: Where the data lies.
        assignments: Such as ``["temperature=0.2", "seed=1"]``.

    Raises:
        ValueError: For an unknown key, with the nearest known one, or a value out of range.
    """
    # Imported on use: scikit-learn takes a third of the time of all imports.
    from nonneg.estimators.inputs import NCLSettings
    from nonneg.estimators.ncl import NCL

    class FitSettings(NCLSettings):
        seed: int = Field(ge=0, lt=2**31)

    default: dict[str, Any] = NCL().get_params() | {"seed": 0}
    default["pairs"] = "graph" if files.graph else "index" if files.index_pairs else "neighbors"
    del default["random_state"]
    values = with_overrides(default, assignments)
    if "random_state" in values:
        raise ValueError("random_state is called seed here; set seed to a whole number from 0 on")
    checked = FitSettings.of(values)
    settings = checked.model_dump(mode="json", exclude={"autos"}) | dict.fromkeys(
        sorted(checked.autos), "auto"
    )
    seed = settings.pop("seed")
    machine = {key: settings.pop(key) for key in _MACHINE}
    experiment = VectorExperiment(
        seed=seed,
        data=files,
        encoder={"nonnegative": settings.pop("nonnegative")},
        loss={"name": "info_nce", "temperature": settings.pop("temperature")},
        ncl=settings,
    )
    return experiment, machine


def _whole(path: str | Path, key: str) -> Path:
    given = Path(path).expanduser()
    check_is_file(given, _FILES[key])
    return given.resolve()


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


def vector_sets(files: VectorFiles, test: VectorData | None = None) -> tuple[Data, Data | None]:
    """The training set and the test set; None where nothing was held out.

    Without a test file, a fixed random share of the vectors, at most 10,000, is kept out of the
    first set; empty texts are in neither.

    Args:
        files: Where they lie.
        test: Takes the place of what they say of test vectors.

    Raises:
        ValueError: If files do not fit each other, or hold entries that are not numbers.
    """
    whole = read_vectors(files.vectors, column=files.column)
    is_empty = None
    if files.texts is not None:
        table = files.texts.read_texts()
        whole, is_empty = of_texts(whole, table), table.is_empty
        if is_empty.all():
            raise ValueError(f"all {len(table):,} texts of {table.path} are empty")
    if test is None and files.test:
        test = read_vectors(files.test, column=files.column)
    _check_finite(files, whole, test)
    if test is not None and test.sample_shape != whole.sample_shape:
        raise ValueError(
            f"{files.test} has {test.sample_shape[0]} columns, {files.vectors} has "
            f"{whole.sample_shape[0]}; test vectors come from the same model"
        )
    if files.test_labels and test is None:
        raise ValueError("test labels were given without test vectors; add --test")
    whole, test = _with_labels(files, whole, test)
    n_kept_out = min(round(files.test_share * len(whole)), MOST_KEPT_OUT)
    if test is not None:
        n_kept_out = 0
    if not n_kept_out:
        return _without(whole, is_empty), test
    train, kept_out = (_without(part, is_empty) for part in split_off(whole, n_kept_out))
    return train, kept_out if len(kept_out) else None


def of_texts(vectors: VectorData, table: TextTable) -> VectorData:
    """Vectors with what a table says of their texts; those of empty texts are rows of zeros.

    Raises:
        ValueError: There are more or fewer vectors than texts.
    """
    if len(vectors) != len(table):
        raise ValueError(
            f"{vectors.name} has {len(vectors):,} rows for the {len(table):,} texts of "
            f"{table.path}; give one vector per text, in the same order"
        )
    rows = vectors.vectors
    if table.is_empty.any():
        is_sparse: bool = sparse.issparse(rows)
        if is_sparse:
            kept = (~table.is_empty).astype(rows.dtype)
            rows = sparse.csr_array(sparse.diags_array(kept) @ rows)
        else:
            rows[table.is_empty] = 0  # of a mapped file, in memory only
    labels, names = vectors.labels, vectors.class_names
    if table.labels is not None:
        labels, names = table.labels, table.class_names
    return VectorData(rows, labels, table.path.name, names, table.texts, table.dates)


def _without(train: Data, is_empty: NDArray[np.bool_] | None) -> Data:
    """The training set without the samples that have no text."""
    if is_empty is None or not is_empty.any():
        return train
    rows = train.indices.numpy() if isinstance(train, Subset) else np.arange(len(train))
    return Subset(whole_of(train), torch.from_numpy(rows[~is_empty[rows]]))


def check_pairs(pairs: str, files: VectorFiles, train: Data) -> None:
    """Raise an error that names the option to add or leave out, unless pairs have all they need.

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
    whole = whole_of(train)
    assert isinstance(whole, VectorData)
    rows = train.indices.numpy() if isinstance(train, Subset) else None
    graph, index_pairs, notes = None, None, []
    if files.graph:
        graph = _graph(Path(files.graph), len(whole))
        if rows is not None:
            n_edges = graph.nnz
            graph = graph[rows][:, rows]
            notes.append(_note_on_left_out("edges", n_edges - graph.nnz, n_edges))
    if files.index_pairs:
        index_pairs = npy_array(Path(files.index_pairs))
        if rows is not None:
            n_pairs = len(index_pairs)
            index_pairs = _pairs_among(index_pairs, rows, len(whole))
            notes.append(_note_on_left_out("pairs", n_pairs - len(index_pairs), n_pairs))
    vectors = whole.vectors if rows is None else whole.vectors[rows]
    labels = None if train.labels is None else train.labels.numpy()
    notes.append(_note_on_empty(files))
    return LearntFrom(vectors, labels, graph, index_pairs, tuple(filter(None, notes)))


def _check_finite(files: VectorFiles, whole: VectorData, test: VectorData | None) -> None:
    # Imported on use: scikit-learn takes a third of the time of all imports.
    from nonneg.estimators.inputs import check_finite

    check_finite(whole.vectors, files.vectors)
    if test is not None:
        check_finite(test.vectors, str(files.test))


def _with_labels(
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
    """Whether one side has words, the other numbers, and they share no class."""
    if (first.dtype.kind in "UO") == (second.dtype.kind in "UO"):
        return False
    return not set(map(str, first)) & set(map(str, second))


def _as_written(data: VectorData | None) -> NDArray[Any] | None:
    """Labels as the file has them: names of classes where there are any, else numbers."""
    if data is None or data.labels is None:
        return None
    numbers = data.labels.numpy()
    return np.array(data.class_names, dtype=object)[numbers] if data.class_names else numbers


def _graph(path: Path, n_samples: int) -> sparse.csr_array:
    try:
        # Its sizes before SciPy takes memory for them, whatever the format.
        arrays = NpzFile(path)
        shape = tuple(arrays["shape"].tolist())
        if all(array is not None for array in arrays.values()) and shape == (n_samples, n_samples):
            shape = (graph := sparse.csr_array(sparse.load_npz(path))).shape
            graph.check_format()
    except DAMAGED as error:
        raise ValueError(
            f"{path} cannot be read as a sparse matrix: it is something else, cut short or "
            "damaged; write one with scipy.sparse.save_npz"
        ) from error
    if shape != (n_samples, n_samples):
        raise ValueError(
            f"{path} has shape {shape} for {n_samples} samples; give one node per sample"
        )
    return graph


def _pairs_among(pairs: NDArray[Any], rows: NDArray[Any], n_samples: int) -> NDArray[np.int64]:
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


def _note_on_empty(files: VectorFiles) -> str:
    if files.texts is None:
        return ""
    table = files.texts.read_texts()
    n = int(table.is_empty.sum())
    verb = "is" if n == 1 else "are"
    return f"{n:,} of {len(table):,} texts {verb} empty: kept, with no feature on" if n else ""


def _note_on_left_out(what: str, n: int, of: int) -> str:
    if 0 < n == of:
        raise ValueError(
            f"all {of:,} {what} touch samples that are kept for testing; use --test-share 0 or "
            "--test to keep none"
        )
    return f"{n:,} of {of:,} {what} touch samples that are kept for testing: left out" if n else ""
