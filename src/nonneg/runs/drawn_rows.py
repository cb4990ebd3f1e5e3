"""Rows drawn from many parquet files, as one file that a run is fitted to."""

import hashlib
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nonneg.data.fragments import DrawnFrom, Fragments, drawn_rows, find_fragments
from nonneg.data.text_records import Columns, text_columns
from nonneg.data.vectors import vector_columns
from nonneg.io import check_folder, replaced
from nonneg.runs.vector_fits import MOST_KEPT_OUT

# A folder beside runs, so that several runs on the same files share the rows.
ROWS_FOLDER = "drawn-rows"
# NCL learns from at most 65,536 rows; so many are left when the most that may be are kept out.
N_DRAWN = 65_536 + MOST_KEPT_OUT
# Which rows are drawn is a part of the data, as what is kept for testing is: seeds share it.
_SEED = 0
_GROUP_ROWS = 8192


class DrawnFile(NamedTuple):
    """A parquet file of rows that were drawn from others."""

    path: Path
    origin: DrawnFrom

    @property
    def note(self) -> str:
        """What was drawn, in a sentence."""
        found = self.origin
        files = "1 file" if found.n_files == 1 else f"{found.n_files:,} files"
        if found.n_drawn == found.n_rows:
            return f"all {found.n_rows:,} rows of {files} in {found.source}"
        return f"{found.n_drawn:,} of {found.n_rows:,} rows drawn from {files} in {found.source}"


def drawn_file(
    source: str | Path,
    *,
    out: str | Path,
    column: str | None = None,
    texts: Columns | None = None,
    watch: Callable[[int, int], None] = lambda n_done, n_rows: None,
) -> DrawnFile:
    """Rows of parquet files in one file: 75,536 drawn ones, or all of fewer.

    They are drawn by their number over all files in the order of the names, so that it does not
    matter into how many files the same rows are split. Only the columns that a fit needs are read,
    and of these only row groups with drawn rows; nothing is read where the same was drawn before.

    Args:
        source: A folder, a pattern, or a URI, see :func:`nonneg.data.fragments.find_fragments`.
        out: The run folder; rows go to ``drawn-rows`` beside it.
        column: That of the vectors; None for the only one.
        texts: The columns of a table of texts, instead of vectors.
        watch: Called with the number of rows that are drawn, and with that of all to be drawn.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A file is damaged or has other columns than the first, or there are no rows.
    """

    def choice(path: str, schema: Any) -> Sequence[str]:  # noqa: ANN401
        if texts is not None:
            return text_columns(path, schema, texts)
        return vector_columns(path, schema, column)

    data = find_fragments(source, choice)
    if data.n_rows == 0:
        raise ValueError(f"the files of {source} hold no rows")
    n_drawn = min(data.n_rows, N_DRAWN)
    place = Path(out).parent / ROWS_FOLDER / f"{_key(data, n_drawn)}.parquet"
    if not place.is_file():
        check_folder(place.parent)
        _write(data, n_drawn, place, watch)
    told = {"n_files": len(data.files), "n_rows": data.n_rows, "n_drawn": n_drawn}
    return DrawnFile(place, DrawnFrom(source=str(source), **told))


def _write(data: Fragments, n_drawn: int, place: Path, watch: Callable[[int, int], None]) -> None:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    rows = np.arange(data.n_rows)
    if n_drawn < data.n_rows:
        rows = np.random.default_rng(_SEED).choice(data.n_rows, n_drawn, replace=False)
        rows.sort()
    held, n_held = [], 0
    for batch in drawn_rows(data, rows):
        held.append(batch)
        n_held += batch.num_rows
        watch(n_held, n_drawn)
    # In one piece: the file does not tell where the rows came from.
    table = arrow.Table.from_batches(held, data.schema).combine_chunks()
    with replaced(place) as file:
        parquet.write_table(table, file, row_group_size=_GROUP_ROWS, compression="zstd")


def _key(data: Fragments, n_drawn: int) -> str:
    """What tells whether the same rows would be drawn again."""
    files = [(file.path, file.size, file.modified, file.n_rows) for file in data.files]
    facts = json.dumps([files, data.columns, n_drawn, _SEED])
    return hashlib.sha256(facts.encode()).hexdigest()[:32]
