"""The index of a run: its features of a data set on disk, with texts and labels beside them."""

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg.data.arrays import npy_array
from nonneg.data.dataset import Data
from nonneg.data.text_records import MissingColumnError
from nonneg.data.text_table import has_columns, is_table, read_table
from nonneg.data.vectors import parquet_file
from nonneg.io import clear_leftovers, read_json, replaced
from nonneg.runs.embedding import run_features
from nonneg.runs.record import model_digest
from nonneg.search.ranking import idf_weights
from nonneg.search.sparse_index import BESIDE, INDEX_FILE, SparseIndex, check_index_folder
from nonneg.training.run_folder import locked

# Where the index of a run lies, unless a place is named.
INDEX_FOLDER = "index"
_TEXT_ENDS, _TEXT_BYTES = "text-ends", "text-bytes"
# What each array beside an index is made of, as NumPy calls it.
_KINDS = {"labels": "iu", _TEXT_ENDS: "iu", _TEXT_BYTES: "u", "ids": "U"}


@dataclass(frozen=True)
class IndexedRun:
    """What ``index_run`` has written.

    Args:
        out: The folder of the index.
        n_samples: That are in it.
        n_features: Columns of the features.
        active: Features per sample, on average.
        n_bytes: Of the lists and ids.
        note: What a reader of the features should know; None for nothing.
    """

    out: Path
    n_samples: int
    n_features: int
    active: float
    n_bytes: int
    note: str | None = None


def index_run(
    run: str | Path,
    source: str,
    *,
    out: str | Path | None = None,
    ids: str | None = None,
    dtype: str = "float32",
    idf: bool = False,
    watch: Callable[[int, int], None] = lambda n_done, n_samples: None,
    **chosen: Any,  # noqa: ANN401
) -> IndexedRun:
    """Write an index of the features of a data set, with its texts and labels beside it.

    Args:
        run: A run folder, or any folder with an encoder.
        source: See :func:`nonneg.runs.embed_run`.
        out: The folder of the index; None for ``index`` in the run folder. An index that is there
            is replaced, once the new one is whole.
        ids: The column of a table of texts, or of a parquet file, that says what samples are
            called; None for their row numbers.
        dtype: ``"float32"``, or ``"float16"`` for values of half the size.
        idf: Whether features count the more the rarer they are; see
            :func:`nonneg.search.idf_weights`.
        watch: Called with the number of samples that are done, and with that of all.
        chosen: ``split``, ``column``, ``text``, ``encoder``, ``batch_size``, ``data_dir``.

    Raises:
        ValueError: The data does not fit the run, or ids are missing or not distinct.
        FileExistsError: The folder holds something else.
    """
    run = Path(run)
    out = run / INDEX_FOLDER if out is None else Path(out)
    check_index_folder(out)
    if not run.is_dir():
        raise FileNotFoundError(f"there is no run {run}; give the folder of one")
    names = None if ids is None else _column_of_ids(source, ids, chosen.get("text"))
    with locked(out):
        digest = model_digest(run)
        found = run_features(run, source, watch=watch, **chosen)
        parts = [sparse.csr_array(part) for part in found.parts]
        rows: Any = sparse.vstack(parts, format="csr")
        if model_digest(run) != digest:
            raise ValueError(f"{run} has been fitted or curated meanwhile; give the command again")
        weights = idf_weights(rows) if idf else None
        index = SparseIndex.of(rows, names, dtype=dtype, weights=weights)
        index.about = {"run": digest, "source": str(source), "ids": ids}
        try:
            index.about |= _write_beside(out, found.samples, found.texts, names)
            index.save(out)
        finally:
            _sweep(out)
    active = rows.nnz / rows.shape[0]
    return IndexedRun(out, len(index), index.n_features, active, index.n_bytes, found.note)


@dataclass(frozen=True)
class Beside:
    """What is kept beside an index: texts and labels of its samples as they were numbered."""

    ids: NDArray[Any] | None
    text_ends: NDArray[np.int64] | None
    text_bytes: NDArray[np.uint8] | None
    labels: NDArray[np.int64] | None
    class_names: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path, about: dict[str, Any]) -> Self:
        """Mapped from the files that the index names."""
        arrays: dict[str, Any] = {}
        files, class_names = about.get("files"), about.get("class_names")
        if (
            not isinstance(files, dict)
            or not isinstance(class_names, list)
            or not all(isinstance(name, str) for name in (*files.values(), *class_names))
        ):
            raise ValueError(
                f"{folder / INDEX_FILE} does not say what lies beside the index; build it again "
                "with nonneg index"
            )
        for key, name in files.items():
            path = folder / name
            try:
                if not re.fullmatch(r"[\w.-]+", name) or not name.startswith(BESIDE):
                    raise ValueError("no index has a file of this name")
                arrays[key] = npy_array(path, mapped=True)
                if arrays[key].ndim != 1 or arrays[key].dtype.kind not in _KINDS.get(key, "U"):
                    raise ValueError(f"it holds {arrays[key].dtype} {arrays[key].shape}")
            except (OSError, ValueError) as error:
                raise ValueError(
                    f"{path} cannot be read ({error}); build the index again with nonneg index"
                ) from error
        return cls(
            arrays.get("ids"),
            arrays.get(_TEXT_ENDS),
            arrays.get(_TEXT_BYTES),
            arrays.get("labels"),
            tuple(class_names),
        )

    def number(self, name: int | str) -> int | None:
        """The number that a sample had in its data; None for one that was added later."""
        if self.ids is None:
            return int(name)
        found = np.flatnonzero(self.ids == name)
        return int(found[0]) if len(found) else None

    def text(self, number: int | None) -> str | None:
        """What a sample says; None where that is not known."""
        if self.text_ends is None or self.text_bytes is None or number is None:
            return None
        if number >= len(self.text_ends):
            return None
        begin = self.text_ends[number - 1] if number else 0
        return self.text_bytes[begin : self.text_ends[number]].tobytes().decode()

    def label(self, number: int | None) -> str | None:
        """The class of a sample; None where that is not known."""
        if self.labels is None or number is None or number >= len(self.labels):
            return None
        label = int(self.labels[number])
        if self.class_names and not 0 <= label < len(self.class_names):
            raise ValueError(
                f"the index gives sample {number} the label {label} of {len(self.class_names)}; "
                "build it again with nonneg index"
            )
        return self.class_names[label] if self.class_names else str(label)

    def ids_of_label(self, folder: Path, label: str) -> NDArray[Any]:
        """The samples of a class."""
        if self.labels is None:
            raise ValueError(f"samples of {folder} have no labels; leave the label out")
        names = self.class_names or tuple(map(str, np.unique(self.labels)))
        if label not in names:
            some = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            raise ValueError(f"no sample of {folder} has the label {label!r}; known: {some}")
        number = self.class_names.index(label) if self.class_names else int(label)
        rows = np.flatnonzero(self.labels == number)
        return rows if self.ids is None else self.ids[rows]


def _write_beside(
    out: Path, samples: Data, texts: Sequence[str] | None, ids: NDArray[np.str_] | None
) -> dict[str, Any]:
    """Write what goes with the samples, under names that no index knows yet."""
    arrays: dict[str, NDArray[Any]] = {} if ids is None else {"ids": ids}
    token = secrets.token_hex(8)
    files = {}
    if samples.labels is not None:
        arrays["labels"] = samples.labels.numpy()
    if texts is not None:
        files[_TEXT_BYTES] = name = f"{BESIDE}{token}-{_TEXT_BYTES}.npy"
        arrays[_TEXT_ENDS] = _write_texts(out / name, texts)
    for key, array in arrays.items():
        files[key] = name = f"{BESIDE}{token}-{key}.npy"
        with replaced(out / name) as file:
            np.save(file, array)
    return {"files": files, "class_names": list(samples.class_names)}


def _write_texts(path: Path, texts: Sequence[str]) -> NDArray[np.int64]:
    """Write the bytes of all texts into an npy file, one by one; where each ends ``(n,)``."""
    ends = np.zeros(len(texts), dtype=np.int64)
    n_bytes = sum(len(text.encode(errors="replace")) for text in texts)
    with replaced(path) as file:
        description = {"descr": "|u1", "fortran_order": False, "shape": (n_bytes,)}
        np.lib.format.write_array_header_1_0(file, description)
        end = 0
        for number, text in enumerate(texts):
            content = text.encode(errors="replace")
            file.write(content)
            end += len(content)
            ends[number] = end
    return ends


def _sweep(out: Path) -> None:
    """Remove what belongs to no index: to one that was replaced, or that could not be written."""
    try:
        kept = set(read_json(out / INDEX_FILE)["about"]["files"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # there is no whole one
        kept = set()
    clear_leftovers(out)  # their names are drawn, so that no writer has them again
    for path in out.glob(f"{BESIDE}*"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def _column_of_ids(source: str, name: str, text: str | None) -> NDArray[np.str_]:
    """The ids of samples, as texts ``(n,)``."""
    if is_table(source) and has_columns(source):
        try:
            table = read_table(source, text=text or name, label=name)
        except MissingColumnError as error:
            if error.args[1] == "text" and text is not None:
                raise
            raise ValueError(f"{source} has no column {name!r} to take ids from") from error
        assert table.labels is not None
        named: NDArray[np.str_] = np.array(table.class_names)[table.labels.numpy()]
        return named
    if Path(source).suffix == ".parquet" and Path(source).is_file():
        with parquet_file(Path(source)) as file:
            if name not in file.schema_arrow.names:
                known = ", ".join(file.schema_arrow.names)
                raise ValueError(
                    f"{source} has no column {name!r} to take ids from; it has: {known}"
                )
            return np.array(list(map(str, file.read(columns=[name]).column(0).to_pylist())))
    raise ValueError(f"{source} has no columns to take ids from; leave --id out")
