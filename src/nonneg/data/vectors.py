"""A user's vectors, from npy (memory-mapped where large), npz (also sparse) and parquet."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from nonneg.data.arrays import NpzFile, check_is_file, npy_array, numbered, numbered_words
from nonneg.data.checking import check_labels
from nonneg.data.dataset import Array
from nonneg.data.feature_file import sparse_of_arrays
from nonneg.untrusted import json_value

_BATCH_ROWS = 16_384


def parquet_vectors(path: Path, column: str | None = None) -> NDArray[np.float32]:
    """The vectors of a file, float32 ``(n, d)``.

    Lists may be of fixed size or not, but all have the same length. Only what is needed is read,
    and only some rows of it are held besides the result.

    Args:
        path: The file.
        column: The name of a column of lists of numbers; None for the only one, or for all columns
            of a file that has floats only (besides the index of a data frame).

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: No such column, rows that are missing or of different lengths, or a file that is
            damaged: one with other than the promised number of rows, for instance.
    """
    with parquet_file(path) as file:
        names = vector_columns(path, file.schema_arrow, column)
        n_rows, start = stated_rows(path, file.metadata), 0
        vectors = np.empty((n_rows, 0), dtype=np.float32)
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            part = batch_vectors(path, batch, start)
            if start == 0:
                vectors = np.empty((n_rows, part.shape[1]), dtype=np.float32)
            if part.shape[1] != vectors.shape[1]:
                raise _uneven(path, names[0], start, part.shape[1], vectors.shape[1])
            if start + len(part) > n_rows:
                raise _miscounted(path, n_rows, "more")
            vectors[start : start + len(part)] = part
            start += len(part)
    if start < n_rows:
        raise _miscounted(path, n_rows, f"{start:,}")
    return vectors


@contextmanager
def parquet_file(path: str | Path, **options: Any) -> Iterator[Any]:  # noqa: ANN401
    """The open file; what pyarrow raises for a damaged one is one sentence that names it.

    Args:
        path: Of the file.
        options: Of ``pyarrow.parquet.ParquetFile``, such as another file system.

    Raises:
        ImportError: pyarrow is not installed.
    """
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f"reading {path} needs pyarrow; install it with: pip install 'nonneg[parquet]'"
        ) from error
    try:
        with parquet.ParquetFile(path, **options) as file:
            yield file
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system, not of the content
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a readable parquet file: {reason}") from error


def stated_rows(path: str | Path, metadata: Any) -> int:  # noqa: ANN401
    """The stated number of rows; memory is allocated only if both places that state it agree."""
    n_rows = int(metadata.num_rows)
    groups = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    if groups != n_rows:
        raise _miscounted(path, n_rows, f"{groups:,}")
    return n_rows


def _miscounted(path: str | Path, promised: int, found: str) -> ValueError:
    return ValueError(
        f"{path} is damaged: its footer promises {promised:,} rows, but it holds {found}; "
        "write or copy it again"
    )


def vector_columns(path: str | Path, schema: Any, wanted: str | None = None) -> list[str]:  # noqa: ANN401
    """The column of lists that holds the vectors, or all columns of floats, each a dimension.

    Args:
        path: What errors name.
        schema: Of the Arrow table.
        wanted: A column of lists; None for the only one.

    Raises:
        ValueError: There is no such column, or there are several.
    """
    lists = [field.name for field in schema if _is_list_of_numbers(field.type)]
    if wanted is None and len(lists) == 1:
        return [str(lists[0])]
    if wanted in lists:
        return [str(wanted)]
    types = import_module("pyarrow.types")
    alone = _without_index(schema)
    kinds = [schema.field(name).type for name in alone]
    if alone and not lists and wanted is None and all(map(types.is_floating, kinds)):
        return alone
    if not lists:
        raise ValueError(
            f"{path} has no column of lists of numbers; put the numbers of a row into one list, or "
            "keep only columns of floats, one per dimension"
        )
    several = ", ".join(lists)
    if wanted is None:
        raise ValueError(f"{path} has several columns of lists: {several}; choose with --column")
    raise ValueError(f"{path} has no column {wanted!r} of lists of numbers; choose of: {several}")


def _is_list_of_numbers(kind: Any) -> bool:  # noqa: ANN401
    types = import_module("pyarrow.types")
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list) and bool(
        types.is_floating(kind.value_type) or types.is_integer(kind.value_type)
    )


def _without_index(schema: Any) -> list[str]:  # noqa: ANN401
    """All columns but those that pandas keeps the index of a data frame in."""
    try:
        pandas = json_value((schema.metadata or {}).get(b"pandas", b"{}"))
        index = list(pandas.get("index_columns", []))
    except (AttributeError, TypeError, ValueError):  # not written by pandas
        index = []
    return [name for name in schema.names if name not in index]


def batch_vectors(path: str | Path, batch: Any, start: int = 0) -> NDArray[Any]:  # noqa: ANN401
    """The vectors of a record batch ``(rows, d)`` that has the columns of :func:`vector_columns`.

    Missing numbers become NaN, which later checks refuse, naming the rows.

    Args:
        path: What errors name.
        batch: A ``pyarrow.RecordBatch``.
        start: The number of its first row.
    """
    field = batch.schema.field(0)
    if batch.num_columns == 1 and _is_list_of_numbers(field.type):
        return _rows(path, field.name, batch.column(0), start)
    return _stacked(batch)


def _stacked(batch: Any) -> NDArray[Any]:  # noqa: ANN401
    """All columns side by side."""
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    return np.stack(columns, axis=1)


def _rows(path: str | Path, name: str, lists: Any, start: int) -> NDArray[Any]:  # noqa: ANN401
    """Some rows of a column of lists ``(rows, d)``, ``start`` being the number of the first."""
    compute = import_module("pyarrow.compute")
    lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    if lists.null_count:
        row = start + int(np.flatnonzero(np.isnan(lengths))[0])
        raise ValueError(f"{path}: row {row} of column {name!r} is missing; remove or repair it")
    uneven = np.flatnonzero(lengths != lengths[0])
    if len(uneven):
        row = int(uneven[0])
        raise _uneven(path, name, start + row, int(lengths[row]), int(lengths[0]))
    values: NDArray[Any] = lists.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(lists), int(lengths[0]))


def _uneven(path: str | Path, name: str, row: int, length: int, expected: int) -> ValueError:
    return ValueError(
        f"{path}: row {row} of column {name!r} has {length} numbers, the rows before it "
        f"{expected}; vectors have one length"
    )


SUFFIXES = (".npy", ".npz", ".parquet")
KINDS = ".npy, .npz or .parquet"

# What SciPy calls the parts of a sparse array in its files.
_SPARSE_PARTS = ("data", "indices", "indptr", "shape")
# Arrays of an npz file that are not the vectors; the first two may go with them.
_BESIDE = ("labels", "class_names", "format", "_is_array", "hidden")
# Where vectors lie in an npz file, unless a name is given.
_USUAL = ("inputs", "features")


@dataclass(frozen=True)
class VectorData:
    """Vectors as a data set: in memory, mapped from a file, or sparse.

    Args:
        vectors: ``(n, d)`` of any real type: an array, a memory map or SciPy CSR.
        labels: int64 ``(n,)``.
        name: What to call it in tables.
        class_names: One for each class number.
        texts: What the vectors are of, one each.
        dates: Their days, datetime64[D] ``(n,)``.

    Example:
        >>> data = VectorData(sparse.csr_array(np.eye(3)))
        >>> data.sample_shape, data.fetch(torch.tensor([2]))
        ((3,), tensor([[0., 0., 1.]]))
    """

    vectors: Any
    labels: Tensor | None = None
    name: str = "vectors"
    class_names: tuple[str, ...] = field(default=())
    texts: Sequence[str] | None = None
    dates: NDArray[np.datetime64] | None = None

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample, ``(d,)``."""
        return (int(self.vectors.shape[1]),)

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    def fetch(self, indices: Tensor) -> Tensor:
        """The vectors with these numbers, float32 ``(len(indices), d)``."""
        rows = self.vectors[indices.numpy()]
        is_sparse: bool = sparse.issparse(rows)
        return torch.from_numpy(np.array(rows.toarray() if is_sparse else rows, dtype=np.float32))


def read_vectors(path: str | Path, *, column: str | None = None) -> VectorData:
    """The vectors of a file, with the labels of an npz file that has them.

    A large npy file is mapped, not read. An npz file holds SciPy's sparse layout, or ``inputs``,
    ``features`` or one array of any name. A parquet file has them in a column of lists, or has
    nothing but columns of floats, one per dimension.

    Args:
        path: Ends in ``.npy``, ``.npz`` or ``.parquet``.
        column: The array of the npz file or the column of the parquet file; None finds it.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It holds no vectors ``(n, d)``, or several arrays that could be meant.
    """
    path = Path(path).expanduser()
    check_is_file(path, KINDS)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"cannot read vectors from {path}; give a {KINDS} file")
    if column is not None and path.suffix == ".npy":
        raise ValueError(f"{path} holds one array without a name; leave out --column {column}")
    beside: Mapping[str, Array] = {}
    if path.suffix == ".npy":
        vectors: Any = npy_array(path)
    elif path.suffix == ".parquet":
        vectors = parquet_vectors(path, column)
    else:
        beside = NpzFile(path)
        vectors = _from_npz(path, beside, column)
    _check(path, vectors)
    if "labels" not in beside:
        return VectorData(vectors, name=path.name)
    class_names = tuple(str(name) for name in beside.get("class_names", ()))
    labels, class_names = _classes(path, beside["labels"], class_names)
    check_labels(str(path), labels, vectors.shape[0], class_names)
    return VectorData(vectors, labels, name=path.name, class_names=class_names)


def _classes(
    path: Path, labels: Array, class_names: tuple[str, ...]
) -> tuple[Tensor, tuple[str, ...]]:
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    if labels.dtype.kind == "U":
        return numbered_words(str(path), labels, class_names)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"{path} has labels that are NaN; give each sample a number or a word")
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels % 1 == 0).all():
        labels = labels.astype(np.int64)
    (numbers,), found = numbered(labels)
    if found and class_names:
        raise ValueError(
            f"{path} has class_names, whose places are the numbers from 0 on, but the label "
            f"{found[0]}; number the labels so, or leave out class_names"
        )
    return numbers, class_names or found


def _from_npz(path: Path, arrays: Mapping[str, Array], column: str | None) -> Any:  # noqa: ANN401
    if column is None and set(_SPARSE_PARTS) <= set(arrays):
        return sparse_of_arrays(path, arrays)
    names = [name for name in arrays if name not in _BESIDE]
    usual = [name for name in _USUAL if name in names]
    chosen = column or (usual[0] if usual else names[0] if len(names) == 1 else None)
    if chosen is None or chosen not in arrays:
        wrong = f"no array {column!r}" if column else "no array called inputs or features"
        held = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path} has {wrong}; it holds {held}: choose with --column")
    return arrays[chosen]


def _check(path: Path, vectors: Any) -> None:  # noqa: ANN401
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ValueError(f"{path} holds an array of shape {vectors.shape}; give vectors (n, d)")
    if vectors.dtype.kind not in "fiub":
        raise ValueError(f"{path} holds {vectors.dtype.name}; give vectors of real numbers")
