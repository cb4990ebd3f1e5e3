"""Batches of Arrow tables to sparse features: one function for every engine that maps batches."""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nonneg.data.text_records import Columns, text_columns
from nonneg.data.vectors import batch_vectors, vector_columns

ID, INDICES, VALUES = "id", "indices", "values"


class SparseModel(Protocol):
    """What gives features, such as a run as ``nonneg.runs.run_model.RunModel``."""

    @property
    def n_features(self) -> int:
        """Columns of the features."""
        ...

    def of_vectors(self, X: ArrayLike) -> sparse.csr_array:
        """Features of vectors ``(n, d)``."""
        ...

    def of_texts(self, texts: list[str]) -> sparse.csr_array:
        """Features of texts."""
        ...


class ArrowFeatures:
    """A function from batches to their features: a table or record batch in, the same kind out.

    A row of the result holds ``id``, ``indices`` (the features that are on, list of int32, in
    order) and ``values`` (their activations, list of float32). It can be pickled: workers load the
    model when their first batch comes. The last digits of values may depend on how rows are cut
    into batches.

    Args:
        load: Makes the model; a function that can be pickled.
        column: That of the vectors, lists of numbers; None for the only one, or for a table that
            has columns of floats only.
        text: The column of texts, instead of vectors.
        id_column: What the rows are known by, copied to ``id``; without it, rows have the numbers
            that a call is given.

    Example:
        ``dataset.map`` of Hugging Face, ``DataFrame.mapInArrow`` of Spark and ``map_batches`` of
        Ray Data take it as it is; ``nonneg.runs.arrow_features`` makes it from a run.
    """

    def __init__(
        self,
        load: Callable[[], SparseModel],
        *,
        column: str | None = None,
        text: str | None = None,
        id_column: str | None = None,
    ) -> None:
        if column is not None and text is not None:
            raise ValueError(
                f"column {column!r} names vectors and text {text!r} names texts; give one of them"
            )
        self.column, self.text, self.id_column = column, text, id_column
        self._load = load
        self._model: SparseModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the model, which each worker loads for itself."""
        return {**self.__dict__, "_model": None}

    @property
    def model(self) -> SparseModel:
        """What gives the features; loaded on first use."""
        if self._model is None:
            self._model = self._load()
        return self._model

    def columns(self, path: str, schema: Any) -> list[str]:  # noqa: ANN401
        """The names of the columns that are read: vectors or texts, and that of the ids.

        Args:
            path: What errors name.
            schema: Of an Arrow table.

        Raises:
            ValueError: One of them is not there, or holds something else.
        """
        if self.id_column is not None and self.id_column not in schema.names:
            raise ValueError(
                f"{path} has no column {self.id_column!r} for the ids; it has: "
                f"{', '.join(schema.names)}"
            )
        ids = [] if self.id_column is None else [self.id_column]
        return [*self._content(path, schema), *ids]

    def __call__(
        self,
        batch: Any,  # noqa: ANN401
        numbers: ArrayLike | None = None,
        *,
        where: str = "the batch",
        start: int = 0,
    ) -> Any:  # noqa: ANN401
        """The features of a batch.

        Args:
            batch: A ``pyarrow.Table`` or ``RecordBatch``, of any number of rows.
            numbers: Whole numbers that the rows are known by, where no column is; what
                ``datasets.map(…, with_indices=True)`` passes.
            where: What errors call the batch.
            start: The number that errors give its first row.

        Raises:
            ValueError: A column is missing or holds something else, a vector is missing, not finite
                or of another length, or there are neither ids nor numbers.
        """
        arrow = import_module("pyarrow")
        is_table = isinstance(batch, arrow.Table)
        ids = self._ids(batch, numbers, where)
        content = _one_batch(batch, self._content(where, batch.schema))
        found = arrow_rows(ids, self._features(content, where, start))
        return arrow.Table.from_batches([found]) if is_table else found

    def each(self, batches: Iterable[Any], *, first: int | None = None) -> Iterator[Any]:
        """The features of batch after batch, as ``mapInArrow`` of Spark asks for them.

        Args:
            batches: Record batches or tables.
            first: The number of the first row, from which rows are numbered through; only where no
                column has ids, and only where one process sees all batches.
        """
        start = first or 0
        for batch in batches:
            end = start + batch.num_rows
            numbers = None if first is None else np.arange(start, end)
            yield self(batch, numbers, start=start)
            start = end

    def _content(self, path: str, schema: Any) -> list[str]:  # noqa: ANN401
        """The columns of the vectors or texts."""
        if self.text is not None:
            return text_columns(path, schema, Columns(self.text))
        if self.id_column in schema.names:
            schema = schema.remove(schema.get_field_index(self.id_column))
        return vector_columns(path, schema, self.column)

    def _ids(self, batch: Any, numbers: ArrayLike | None, where: str) -> Any:  # noqa: ANN401
        arrow = import_module("pyarrow")
        if self.id_column is None:
            if numbers is None:
                raise ValueError(
                    f"the rows of {where} have no numbers of their own; name a column that says "
                    "which they are with id_column, or pass their numbers"
                )
            return arrow.array(np.asarray(numbers, dtype=np.int64))
        self.columns(where, batch.schema)
        ids = _one_batch(batch, [self.id_column]).column(0)
        if ids.null_count:
            raise ValueError(f"{where} has rows without an id in column {self.id_column!r}")
        return ids

    def _features(self, content: Any, where: str, start: int) -> sparse.csr_array:  # noqa: ANN401
        model, n_rows = self.model, content.num_rows
        if n_rows == 0:
            return sparse.csr_array(np.zeros((0, model.n_features), dtype=np.float32))
        if self.text is not None:
            return model.of_texts([text or "" for text in content.column(0).to_pylist()])
        vectors = batch_vectors(where, content, start)
        try:
            return model.of_vectors(vectors)
        except ValueError as error:
            rows = f"rows {start:,} to {start + n_rows - 1:,} of {where}"
            raise ValueError(f"{rows}: {error}") from error


def arrow_schema(id_type: Any = None) -> Any:  # noqa: ANN401
    """The Arrow schema of features, whose ids are int64 or of another type."""
    arrow = import_module("pyarrow")
    return arrow.schema(
        {
            ID: arrow.int64() if id_type is None else id_type,
            INDICES: arrow.list_(arrow.int32()),
            VALUES: arrow.list_(arrow.float32()),
        }
    )


def arrow_rows(ids: Any, features: sparse.csr_array) -> Any:  # noqa: ANN401
    """Features as a record batch.

    Args:
        ids: An Arrow array, one per row.
        features: ``(n, n_features)``.
    """
    arrow = import_module("pyarrow")
    if len(ids) != features.shape[0]:
        raise ValueError(f"{len(ids)} ids were given for {features.shape[0]} rows")
    rows = features if features.has_sorted_indices else features.sorted_indices()
    offsets = arrow.array(rows.indptr.astype(np.int32, copy=False))
    lists = [
        arrow.ListArray.from_arrays(offsets, arrow.array(part))
        for part in (rows.indices.astype(np.int32), rows.data.astype(np.float32))
    ]
    return arrow.RecordBatch.from_arrays([ids, *lists], schema=arrow_schema(ids.type))


def features_of_arrow(data: Any, n_features: int) -> tuple[NDArray[Any], sparse.csr_array]:  # noqa: ANN401
    """Ids and features ``(n, n_features)`` of a table or record batch that has the three columns.

    Args:
        data: Of ``pyarrow``, as :class:`ArrowFeatures` makes it.
        n_features: How many there are, on or not.

    Raises:
        ValueError: There is an index of no such feature, or indices and values differ in number.
    """
    ids, indices, values = _one_batch(data, [ID, INDICES, VALUES]).columns
    # Offsets of a part of a larger array begin within it.
    starts, of_values = (column.offsets.to_numpy() for column in (indices, values))
    parts = (values.flatten().to_numpy(), indices.flatten().to_numpy(), starts - starts[0])
    if not np.array_equal(parts[2], of_values - of_values[0]):
        raise ValueError("indices and values of some row differ in number; write the table again")
    if len(parts[1]) and not 0 <= parts[1].min() <= parts[1].max() < n_features:
        raise ValueError(
            f"indices go from {parts[1].min()} to {parts[1].max()}, but there are {n_features} "
            "features; give the number of the run that wrote them"
        )
    features = sparse.csr_array(parts, shape=(len(ids), n_features))
    return ids.to_numpy(zero_copy_only=False), features


def _one_batch(data: Any, names: list[str]) -> Any:  # noqa: ANN401
    """Some columns of a table or record batch, each in one piece."""
    arrow = import_module("pyarrow")
    columns = [data.column(name) for name in names]
    whole = [c.combine_chunks() if isinstance(c, arrow.ChunkedArray) else c for c in columns]
    return arrow.RecordBatch.from_arrays(whole, schema=data.select(names).schema.remove_metadata())
