"""Tables of texts (csv, tsv, jsonl, parquet, txt), scanned once and then read text by text.

Only where each record begins is held in memory, so that a table may be larger than that.
"""

import csv
import gzip
import json
import shutil
import struct
import tempfile
import weakref
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date as Date
from datetime import datetime
from functools import lru_cache
from importlib import import_module
from operator import index
from pathlib import Path
from typing import IO, Any, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nonneg.data.arrays import check_is_file
from nonneg.data.vectors import parquet_file

TABLE_KINDS = ".csv, .tsv, .jsonl, .parquet or .txt"
# Endings that only tables of texts have; a parquet file may hold vectors as well.
_TEXT_ENDINGS = (".csv", ".tsv", ".jsonl", ".txt")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_BOM = b"\xef\xbb\xbf"
# A quote that is not closed would make one field of all that follows.
_LONGEST_FIELD = 10_000_000
_LENGTH = struct.Struct("<q")
_EPOCH = Date(1970, 1, 1).toordinal()


class Columns(NamedTuple):
    """The names of the columns that are read."""

    text: str | None = None
    """None for a txt file, which has no columns."""
    label: str | None = None
    date: str | None = None


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
    if _ending(path) == ".txt" and any(columns):
        wrong = next(filter(None, columns))
        raise ValueError(f"{path} has one text per line and no column {wrong!r}; leave it out")
    state = path.stat()
    return _scanned(path, columns, (state.st_size, state.st_mtime_ns, state.st_ino))


class MissingColumnError(ValueError):
    """A table lacks a column; the second argument says which: text, label or date."""

    def __str__(self) -> str:
        return str(self.args[0])


class _Record(NamedTuple):
    """What one record holds; label and date as they are written, None for none."""

    offset: int
    number: int
    text: str
    label: Any = None
    date: Any = None


class _Texts(Sequence[str]):
    """Texts that stay in their file."""

    def __init__(self, form: "_Format", offsets: NDArray[np.int64], file: IO[bytes]) -> None:
        self._form, self._offsets = form, offsets
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> list[str]: ...
    def __getitem__(self, which: int | slice) -> str | list[str]:
        if isinstance(which, slice):
            return [self._form.text_at(int(offset)) for offset in self._offsets[which]]
        return self._form.text_at(int(self._offsets[index(which)]))


# The last table is kept: one command reads it several times.
@lru_cache(maxsize=1)
def _scanned(path: Path, columns: Columns, _state: tuple[int, ...]) -> TextTable:
    """The table of a file, whose state says whether it is still the same."""
    file = _opened(path)
    try:
        return _table(path, columns, file, _form(path, columns, file))
    except BaseException:
        file.close()
        raise


def _form(path: Path, columns: Columns, file: IO[bytes]) -> "_Format":
    ending = _ending(path)
    if ending == ".parquet":
        return _Spooled(file, _parquet_records(path, columns))
    if ending == ".jsonl":
        return _JsonLines(file, path, columns)
    if ending == ".txt":
        return _PlainLines(file, path)
    return _Delimited(file, path, columns, _DELIMITERS[ending])


def _table(path: Path, columns: Columns, file: IO[bytes], form: "_Format") -> TextTable:
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
        texts=_Texts(form, np.array(offsets), file),
        is_empty=np.frombuffer(bytes(empty), dtype=np.bool_),
        labels=None if columns.label is None else labels,
        class_names=class_names,
        dates=None if columns.date is None else np.array(days).astype("datetime64[D]"),
    )


def _ending(path: Path) -> str:
    """The last ending of a name, or the one before ``.gz``, in small letters."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _opened(path: Path) -> IO[bytes]:
    """The file, to be read at any place: a packed one is unpacked beside, a parquet one is not."""
    if path.suffix.lower() not in (".gz", ".parquet"):
        return path.open("rb")
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the texts
    if path.suffix.lower() == ".gz":
        try:
            with gzip.open(path) as packed:
                shutil.copyfileobj(packed, unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            unpacked.close()
            raise ValueError(f"{path} is not a whole gzip file ({error}); copy it again") from error
        unpacked.seek(0)
    return unpacked


class _Lines:
    """The lines of a file from some place on, decoded; knows where the next one begins."""

    def __init__(self, file: IO[bytes], path: Path, offset: int = 0) -> None:
        file.seek(offset)
        self._file, self._path = file, path
        self.offset, self.number = offset, 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._file.readline()
        if not line:
            raise StopIteration
        content = line.removeprefix(_BOM) if self.offset == 0 else line
        self.offset += len(line)
        self.number += 1
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"line {self.number} of {self._path} is not UTF-8 (byte "
                f"{content[error.start]:#04x}); save the file as UTF-8"
            ) from error


class _Delimited:
    """Records of a csv or tsv file, below a header."""

    def __init__(self, file: IO[bytes], path: Path, columns: Columns, delimiter: str) -> None:
        self._file, self._path, self._delimiter = file, path, delimiter
        lines = _Lines(file, path)
        self._header = next((row for _, row in self._rows(lines)), [])
        self._begin, self._line = lines.offset, lines.number
        if not self._header:
            raise ValueError(f"{path} is empty; give a header and one record per text")
        names = _asked(path, columns, self._header)
        self._places = [None if name is None else self._header.index(name) for name in names]

    def _rows(self, lines: _Lines) -> Iterator[tuple[int, list[str]]]:
        """Each record that is not blank, with the number of its first line."""
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
        rows = csv.reader(lines, delimiter=self._delimiter, strict=True)
        while True:
            first = lines.number + 1
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                raise ValueError(
                    f"the record in line {first} of {self._path} cannot be read ({error}); quote "
                    'fields that hold quotes or line ends, and write each quote in them twice, ""'
                ) from error
            if row:
                yield first, row

    def records(self) -> Iterator[_Record]:
        lines = _Lines(self._file, self._path, self._begin)
        lines.number = self._line
        offset, n_fields = lines.offset, len(self._header)
        for number, row in self._rows(lines):
            if len(row) != n_fields:
                raise ValueError(
                    f"line {number} of {self._path} has {len(row)} fields, the header {n_fields}; "
                    "quote fields that hold the delimiter"
                )
            yield _Record(offset, number, *(None if p is None else row[p] for p in self._places))  # type: ignore[arg-type]
            offset = lines.offset

    def text_at(self, offset: int) -> str:
        _, row = next(self._rows(_Lines(self._file, self._path, offset)))
        assert self._places[0] is not None
        return row[self._places[0]]


class _JsonLines:
    """Records of a file with one JSON object per line."""

    def __init__(self, file: IO[bytes], path: Path, columns: Columns) -> None:
        self._file, self._path, self._columns = file, path, columns

    def records(self) -> Iterator[_Record]:
        lines = _Lines(self._file, self._path)
        offset = 0
        for line in lines:
            if line.strip():
                values = self._values(line, lines.number)
                yield _Record(offset, lines.number, *values)
            offset = lines.offset

    def text_at(self, offset: int) -> str:
        line = next(_Lines(self._file, self._path, offset))
        return _as_text(json.loads(line)[self._columns.text], "", None)

    def _values(self, line: str, number: int) -> list[Any]:
        place = f"line {number} of {self._path}"
        try:
            found = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{place} is not JSON ({error})") from error
        if not isinstance(found, dict):
            raise ValueError(f'{place} is no object; give {{"column": …}} in each line')
        names = _asked(place, self._columns, list(found))
        values = [None if name is None else found[name] for name in names]
        values[0] = _as_text(values[0], place, names[0])
        return values


class _PlainLines:
    """Texts of a file with one per line; only line feeds end one."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path

    def records(self) -> Iterator[_Record]:
        lines = _Lines(self._file, self._path)
        offset = 0
        for line in lines:
            yield _Record(offset, lines.number, line)
            offset = lines.offset

    def text_at(self, offset: int) -> str:
        line = next(_Lines(self._file, self._path, offset))
        return line.removesuffix("\n").removesuffix("\r")


class _Spooled:
    """Records that cannot be read from any place of their file: their texts are written down."""

    def __init__(self, file: IO[bytes], found: Iterable[_Record]) -> None:
        self._file, self._found = file, found

    def records(self) -> Iterator[_Record]:
        for record in self._found:
            content = record.text.encode()
            offset = self._file.tell()
            self._file.write(_LENGTH.pack(len(content)) + content)
            yield record._replace(offset=offset)

    def text_at(self, offset: int) -> str:
        self._file.seek(offset)
        (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        return self._file.read(length).decode()


# How the records of a file are read: all from the first on, and the text at some place.
_Format = _Delimited | _JsonLines | _PlainLines | _Spooled


def _parquet_records(path: Path, columns: Columns) -> Iterator[_Record]:
    with parquet_file(path) as file:
        names = _asked(path, columns, file.schema_arrow.names)
        wanted = list(dict.fromkeys(filter(None, names)))
        types = import_module("pyarrow.types")
        kind = file.schema_arrow.field(names[0]).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if str(kind) not in ("string", "large_string", "string_view"):
            raise ValueError(f"{path}: column {names[0]!r} holds {kind}, not texts; choose another")
        number = 0
        for batch in file.iter_batches(1024, columns=wanted):
            held = {name: batch.column(name).to_pylist() for name in wanted}
            for at in range(batch.num_rows):
                text, label, date = (None if name is None else held[name][at] for name in names)
                yield _Record(0, number, text or "", label, date)
                number += 1


def _asked(where: str | Path, columns: Columns, there: list[str]) -> Columns:
    """The columns, all of which are there; an error names those that are."""
    known = ", ".join(there) or "none"
    if columns.text is None:
        raise ValueError(
            f"{where} has the columns {known}; name the one that holds the texts with --text"
        )
    for option, name in columns._asdict().items():
        if name is not None and name not in there:
            said = f"{where} has no column {name!r} for --{option}; it has: {known}"
            raise MissingColumnError(said, option)
        if name is not None and there.count(name) > 1:
            raise ValueError(f"{where} has several columns {name!r}; give each its own name")
    return columns


def _as_text(value: object, place: str, name: str | None) -> str:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{place} holds {type(value).__name__} in {name!r}; give a text or null")
    # JSON may hold halves of characters, which no other program reads.
    return "" if value is None else value.encode(errors="replace").decode()


def _label(value: Any, place: str, name: str) -> str:  # noqa: ANN401
    is_missing = value is None or value != value or (isinstance(value, str) and not value.strip())
    if is_missing or isinstance(value, list | dict):
        raise ValueError(f"{place} has no label in column {name!r}; give it one, or remove the row")
    return value.strip() if isinstance(value, str) else str(value)


def _day(value: Any, place: str, name: str) -> int:  # noqa: ANN401
    """Days since 1970-01-01, of a time the day as it is written there."""
    if isinstance(value, datetime | Date):
        return value.toordinal() - _EPOCH
    written = "" if value is None else str(value).strip()
    year, _, month = written.partition("-")
    try:
        if year.isdecimal() and len(year) == 4 and (not month or len(month) == 2):
            return Date(int(year), int(month or 1), 1).toordinal() - _EPOCH
        return datetime.fromisoformat(written).toordinal() - _EPOCH
    except ValueError as error:
        wrong = f"the date {written!r}, which cannot be read," if written else "no date"
        raise ValueError(
            f"{place} has {wrong} in column {name!r}; write dates as 2024-05-31, 2024-05 or 2024"
        ) from error


def _in_order(numbers: "array[int]", known: dict[str, int]) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers in the order of the names, whole numbers by size, and the names."""
    names = sorted(known)
    if all(name.isdecimal() for name in names):
        names.sort(key=int)
    rank = np.empty(len(known), dtype=np.int64)
    rank[[known[name] for name in names]] = np.arange(len(known))
    return torch.from_numpy(rank[np.array(numbers, dtype=np.int64)]), tuple(names)
