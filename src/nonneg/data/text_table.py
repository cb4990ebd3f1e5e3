"""Tables of texts (csv, tsv, jsonl, parquet, txt), scanned once and then read text by text.

Only where each record begins is held in memory, so that a table may be larger than that.
"""

import gzip
import os
import shutil
import tempfile
import weakref
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as Date
from functools import lru_cache
from operator import index
from pathlib import Path
from typing import IO, Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nonneg.data.arrays import check_is_file
from nonneg.data.dates import is_no_date, read_date
from nonneg.data.text_records import (
    Columns,
    Delimited,
    Format,
    JsonLines,
    PlainLines,
    Spooled,
    parquet_records,
)

TABLE_KINDS = ".csv, .tsv, .jsonl, .parquet or .txt"
# Endings that only tables of texts have; a parquet file may hold vectors as well.
_TEXT_ENDINGS = (".csv", ".tsv", ".jsonl", ".txt")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_EPOCH = Date(1970, 1, 1).toordinal()


@dataclass(frozen=True, eq=False)
class TextTable:
    """Texts, one per record, with what else is known of each.

    Args:
        path: Of the file.
        texts: Read from the file when they are asked for, one by one.
        is_empty: Whether a text has nothing but white space ``(n,)``.
        labels: Class numbers, int64 ``(n,)``; None without a column of labels.
        class_names: The labels as they are written, in the order of their numbers.
        dates: Days, datetime64[D] ``(n,)``; None without a column of dates.
    """

    path: Path
    texts: Sequence[str]
    is_empty: NDArray[np.bool_]
    labels: Tensor | None = None
    class_names: tuple[str, ...] = ()
    dates: NDArray[np.datetime64] | None = None

    def __len__(self) -> int:
        return len(self.texts)


def is_table(path: str | Path) -> bool:
    """Whether the name of a file says that it holds texts; a parquet file may hold vectors.

    Example:
        >>> is_table("reviews.csv"), is_table("reviews.jsonl.gz"), is_table("x.parquet")
        (True, True, False)
    """
    return _ending(Path(path)) in _TEXT_ENDINGS


def has_columns(path: str | Path) -> bool:
    """Whether records of a table have named columns, by the name of the file.

    Example:
        >>> has_columns("reviews.csv"), has_columns("NOTES.TXT.gz")
        (True, False)
    """
    return _ending(Path(path)) != ".txt"


def read_table(
    path: str | Path, *, text: str | None = None, label: str | None = None, date: str | None = None
) -> TextTable:
    """The texts of a file, with the labels and dates of their records.

    A csv or tsv file has a header and may have quoted line ends, a jsonl file one object per line,
    a txt file one text per line. The file is read once from end to end; texts of a parquet file, or
    of one packed with gzip, are written to a temporary file.

    Args:
        path: Ends in ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.txt``, or one and ``.gz``.
        text: The column of the texts; a txt file has none.
        label: The column of labels, one per text.
        date: The column of dates: years, months (``2024-05``), days or times of ISO 8601.

    Raises:
        ImportError: A parquet file, and pyarrow is not installed.
        OSError: There is no such file.
        ValueError: A column, label or date is missing, a date cannot be read, or the file is
            damaged; the sentence names the line.
    """
    path = Path(path).expanduser()
    check_is_file(path, TABLE_KINDS)
    if _ending(path) not in (*_TEXT_ENDINGS, ".parquet"):
        raise ValueError(f"cannot read texts from {path}; give a {TABLE_KINDS} file")
    columns = Columns(text, label, date)
    if not has_columns(path) and any(columns):
        wrong = next(filter(None, columns))
        raise ValueError(f"{path} has one text per line and no column {wrong!r}; leave it out")
    return _scanned(path, columns, _state(path.stat()))


def _state(found: os.stat_result) -> tuple[int, ...]:
    """What tells whether a file is still the same."""
    return found.st_size, found.st_mtime_ns, found.st_ino


class _Texts(Sequence[str]):
    """Texts that stay in their file; any number of threads and forks may read them.

    Args:
        form: How to read one.
        offsets: Where each begins ``(n,)``.
        file: Open as long as the texts are there.
        source: Path, columns and state of the table, from which a pickled copy reads it again.
    """

    def __init__(
        self,
        form: Format,
        offsets: NDArray[np.int64],
        file: IO[bytes],
        source: tuple[Path, Columns, tuple[int, ...]],
    ) -> None:
        self._form, self._offsets, self._file, self._source = form, offsets, file, source
        self._is_copied = _is_copied(source[0])
        weakref.finalize(self, file.close)

    def __reduce__(self) -> tuple[Any, ...]:
        path, columns, state = self._source
        return _texts_again, (path.absolute(), columns, state)

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> list[str]: ...
    def __getitem__(self, which: int | slice) -> str | list[str]:
        path, _, state = self._source
        if not self._is_copied and _state(os.fstat(self._file.fileno())) != state:
            raise _changed(path)
        if isinstance(which, slice):
            return [self._form.text_at(int(offset)) for offset in self._offsets[which]]
        return self._form.text_at(int(self._offsets[index(which)]))


def _texts_again(path: Path, columns: Columns, state: tuple[int, ...]) -> Sequence[str]:
    """The texts of a table that was pickled."""
    check_is_file(path, TABLE_KINDS)
    if _state(path.stat()) != state:
        raise _changed(path)
    return _scanned(path, columns, state).texts


def _changed(path: Path) -> ValueError:
    return ValueError(
        f"{path} has changed since its texts were read; put the old file back, or read it again"
    )


# The last table is kept: one command reads it several times.
@lru_cache(maxsize=1)
def _scanned(path: Path, columns: Columns, state: tuple[int, ...]) -> TextTable:
    """The table of a file, whose state says whether it is still the same."""
    file = _opened(path)
    try:
        return _table((path, columns, state), file, _form(path, columns, file))
    except BaseException:
        file.close()
        raise


def _form(path: Path, columns: Columns, file: IO[bytes]) -> Format:
    ending = _ending(path)
    if ending == ".parquet":
        return Spooled(file, parquet_records(path, columns))
    if ending == ".jsonl":
        return JsonLines(file, path, columns)
    if ending == ".txt":
        return PlainLines(file, path)
    return Delimited(file, path, columns, _DELIMITERS[ending])


def _table(
    source: tuple[Path, Columns, tuple[int, ...]], file: IO[bytes], form: Format
) -> TextTable:
    path, columns, _ = source
    unit = "row" if _ending(path) == ".parquet" else "line"
    offsets, empty, days = array("q"), bytearray(), array("q")
    numbers, known = array("q"), dict[str, int]()
    for record in form.records():
        place = f"{unit} {record.number} of {path}"
        offsets.append(record.offset)
        empty.append(not record.text.strip())
        if columns.label is not None:
            label = _label(record.label, place, columns.label)
            numbers.append(known.setdefault(label, len(known)))
        if columns.date is not None:
            days.append(_day(record.date, place, columns.date))
    if not offsets:
        raise ValueError(f"{path} holds no texts")
    labels, class_names = _in_order(numbers, known)
    return TextTable(
        path=path,
        texts=_Texts(form, np.array(offsets), file, source),
        is_empty=np.frombuffer(bytes(empty), dtype=np.bool_),
        labels=None if columns.label is None else labels,
        class_names=class_names,
        dates=None if columns.date is None else np.array(days).astype("datetime64[D]"),
    )


def _ending(path: Path) -> str:
    """The last ending of a name, or the one before ``.gz``, in small letters."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _is_copied(path: Path) -> bool:
    """Whether texts are read from a temporary file, and not from the table itself."""
    return path.suffix.lower() in (".gz", ".parquet")


def _opened(path: Path) -> IO[bytes]:
    """The file, to be read at any place: a packed one is unpacked beside, a parquet one is not."""
    if not _is_copied(path):
        return path.open("rb")
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the texts
    if path.suffix.lower() == ".gz":
        try:
            with gzip.open(path) as packed:
                shutil.copyfileobj(packed, unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            unpacked.close()
            raise ValueError(f"{path} is not a whole gzip file ({error}); copy it again") from error
        unpacked.flush()
    return unpacked


def _label(value: Any, place: str, name: str) -> str:  # noqa: ANN401
    is_missing = value is None or value != value or (isinstance(value, str) and not value.strip())
    if is_missing or isinstance(value, list | dict):
        raise ValueError(f"{place} has no label in column {name!r}; give it one, or remove the row")
    return value.strip() if isinstance(value, str) else str(value)


def _day(value: Any, place: str, name: str) -> int:  # noqa: ANN401
    """Days since 1970-01-01; of a time with a zone that of UTC."""
    found = read_date(str(value) if isinstance(value, int) else value)  # a year
    if found is None:
        is_empty = is_no_date(value)
        wrong = "no date" if is_empty else f"the date {str(value).strip()!r}, which cannot be read,"
        raise ValueError(
            f"{place} has {wrong} in column {name!r}; write dates as 2024-05-31, 2024-05 or 2024"
        )
    return found.toordinal() - _EPOCH


def _in_order(numbers: "array[int]", known: dict[str, int]) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers in the order of the names, whole numbers by size, and the names."""
    names = sorted(known)
    if all(name.isdecimal() for name in names):
        names.sort(key=int)
    rank = np.empty(len(known), dtype=np.int64)
    rank[[known[name] for name in names]] = np.arange(len(known))
    return torch.from_numpy(rank[np.array(numbers, dtype=np.int64)]), tuple(names)
