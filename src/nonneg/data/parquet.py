"""Vectors of a parquet file, from a column of lists or from one column per dimension."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f"reading {path} needs pyarrow; install it with: pip install pyarrow"
        ) from error
    with _naming(path, arrow), parquet.ParquetFile(path) as file:
        name = _column(path, file.schema_arrow, column)
        names = [name] if name else _without_index(file.schema_arrow)
        n_rows, start = _n_rows(path, file.metadata), 0
        vectors = np.empty((n_rows, 0), dtype=np.float32)
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            part = _rows(path, name, batch.column(0), start) if name else _stacked(batch)
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
def _naming(path: Path, arrow: Any) -> Iterator[None]:  # noqa: ANN401
    """What pyarrow raises for a damaged file becomes one sentence that names the file."""
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system, not of the content
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a readable parquet file: {reason}") from error


def _n_rows(path: Path, metadata: Any) -> int:  # noqa: ANN401
    """The promised number of rows; memory is asked for only where both promises agree."""
    n_rows = int(metadata.num_rows)
    groups = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    if groups != n_rows:
        raise _miscounted(path, n_rows, f"{groups:,}")
    return n_rows


def _miscounted(path: Path, promised: int, found: str) -> ValueError:
    return ValueError(
        f"{path} is damaged: its footer promises {promised:,} rows, but it holds {found}; "
        "write or copy it again"
    )


def _column(path: Path, schema: Any, wanted: str | None) -> str | None:  # noqa: ANN401
    """The column of lists to read; None for all columns, each a dimension."""
    lists = [field.name for field in schema if _is_list_of_numbers(field.type)]
    if wanted is None and len(lists) == 1:
        return str(lists[0])
    if wanted in lists:
        return str(wanted)
    types = import_module("pyarrow.types")
    alone = [schema.field(name).type for name in _without_index(schema)]
    if not lists and wanted is None and all(types.is_floating(kind) for kind in alone):
        return None
    if not lists:
        raise ValueError(
            f"{path} has no column of lists of numbers; put the numbers of a row into one list, or "
            "keep only columns of floats, one a dimension"
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
    pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in schema.names if name not in pandas.get("index_columns", [])]


def _stacked(batch: Any) -> NDArray[Any]:  # noqa: ANN401
    """All columns side by side; missing numbers become NaN."""
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    return np.stack(columns, axis=1)


def _rows(path: Path, name: str, lists: Any, start: int) -> NDArray[Any]:  # noqa: ANN401
    """Some rows of the column as an array ``(rows, d)``, ``start`` being the number of the first.

    Missing numbers become NaN, which whoever uses the vectors refuses with their rows.
    """
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


def _uneven(path: Path, name: str, row: int, length: int, expected: int) -> ValueError:
    return ValueError(
        f"{path}: row {row} of column {name!r} has {length} numbers, the rows before it "
        f"{expected}; vectors have one length"
    )
