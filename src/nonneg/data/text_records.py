"""The records of a file of texts: all from the first on, or the text at some place.

Places are read without a position that others share, so that threads and forks do not disturb
each other.
"""

import csv
import io
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

from nonneg.data.vectors import parquet_file
from nonneg.untrusted import json_value

_BOM = b"\xef\xbb\xbf"
# A quote that is not closed would make one field of all that follows.
_LONGEST_FIELD = 10_000_000
_LENGTH = struct.Struct("<q")
_SEEKING = threading.Lock()


class Columns(NamedTuple):
    """The names of the columns that are read."""

    text: str | None = None
    """None for a txt file, which has no columns."""
    label: str | None = None
    date: str | None = None


class MissingColumnError(ValueError):
    """A table lacks a column; the second argument says which: text, label or date."""

    def __str__(self) -> str:
        return str(self.args[0])


class Record(NamedTuple):
    """What one record holds; label and date as they are written, None for none."""

    offset: int
    number: int
    text: str
    label: Any = None
    date: Any = None


def _read_at(file: IO[bytes], n_bytes: int, offset: int) -> bytes:
    """At most so many bytes from some place on; moves no position where the system allows it."""
    if hasattr(os, "pread"):
        return os.pread(file.fileno(), n_bytes, offset)
    with _SEEKING:
        file.seek(offset)
        return file.read(n_bytes)


class _FromPlace(io.RawIOBase):
    """A file from some place on, with a position of its own; the file stays open."""

    def __init__(self, file: IO[bytes], offset: int) -> None:
        self._file, self._offset = file, offset

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        found = _read_at(self._file, len(buffer), self._offset)
        buffer[: len(found)] = found
        self._offset += len(found)
        return len(found)


class _Lines:
    """The lines of a file from some place on, decoded; knows where the next one begins."""

    def __init__(self, file: IO[bytes], path: Path, offset: int = 0) -> None:
        self._file, self._path = io.BufferedReader(_FromPlace(file, offset)), path
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


class Delimited:
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

    def records(self) -> Iterator[Record]:
        """All records, from the first on."""
        lines = _Lines(self._file, self._path, self._begin)
        lines.number = self._line
        offset, n_fields = lines.offset, len(self._header)
        for number, row in self._rows(lines):
            if len(row) != n_fields:
                raise ValueError(
                    f"line {number} of {self._path} has {len(row)} fields, the header {n_fields}; "
                    "quote fields that hold the delimiter"
                )
            yield Record(offset, number, *(None if p is None else row[p] for p in self._places))  # type: ignore[arg-type]
            offset = lines.offset

    def text_at(self, offset: int) -> str:
        """The text of the record that begins there."""
        _, row = next(self._rows(_Lines(self._file, self._path, offset)))
        assert self._places[0] is not None
        return row[self._places[0]]


class JsonLines:
    """Records of a file with one JSON object per line."""

    def __init__(self, file: IO[bytes], path: Path, columns: Columns) -> None:
        self._file, self._path, self._columns = file, path, columns

    def records(self) -> Iterator[Record]:
        """All records, from the first on."""
        lines = _Lines(self._file, self._path)
        offset, is_first = 0, True
        for line in lines:
            if line.strip():
                try:
                    values = self._values(line, lines.number)
                except MissingColumnError as error:
                    if is_first and not self._is_known(getattr(self._columns, error.args[1])):
                        raise
                    # Others have the column: the table does, and this record is wrong.
                    raise ValueError(str(error)) from None
                yield Record(offset, lines.number, *values)
                is_first = False
            offset = lines.offset

    def _is_known(self, column: str) -> bool:
        """Whether some record has the column."""
        for line in _Lines(self._file, self._path):
            # Lines that are not JSON are left to whoever reads the records.
            with suppress(ValueError):
                found = json_value(line)
                if isinstance(found, dict) and column in found:
                    return True
        return False

    def text_at(self, offset: int) -> str:
        """The text of the record that begins there."""
        line = next(_Lines(self._file, self._path, offset))
        return _as_text(json_value(line)[self._columns.text], "", None)

    def _values(self, line: str, number: int) -> list[Any]:
        place = f"line {number} of {self._path}"
        try:
            found = json_value(line)
        except ValueError as error:
            raise ValueError(f"{place} is not JSON ({error})") from error
        if not isinstance(found, dict):
            raise ValueError(f'{place} is no object; give {{"column": …}} in each line')
        names = _asked(place, self._columns, list(found))
        values = [None if name is None else found[name] for name in names]
        values[0] = _as_text(values[0], place, names[0])
        return values


class PlainLines:
    """Texts of a file with one per line; only line feeds end one."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path

    def records(self) -> Iterator[Record]:
        """All records, from the first on."""
        lines = _Lines(self._file, self._path)
        offset = 0
        for line in lines:
            yield Record(offset, lines.number, line)
            offset = lines.offset

    def text_at(self, offset: int) -> str:
        """The text of the record that begins there."""
        line = next(_Lines(self._file, self._path, offset))
        return line.removesuffix("\n").removesuffix("\r")


class Spooled:
    """Records that cannot be read from any place of their file: their texts are written down."""

    def __init__(self, file: IO[bytes], found: Iterable[Record]) -> None:
        self._file, self._found = file, found

    def records(self) -> Iterator[Record]:
        """All records, from the first on."""
        for record in self._found:
            content = record.text.encode()
            offset = self._file.tell()
            self._file.write(_LENGTH.pack(len(content)) + content)
            yield record._replace(offset=offset)
        self._file.flush()

    def text_at(self, offset: int) -> str:
        """The text of the record that begins there."""
        (length,) = _LENGTH.unpack(_read_at(self._file, _LENGTH.size, offset))
        return _read_at(self._file, length, offset + _LENGTH.size).decode()


# How the records of a file are read: all from the first on, and the text at some place.
Format = Delimited | JsonLines | PlainLines | Spooled


def parquet_records(path: Path, columns: Columns) -> Iterator[Record]:
    """The records of a parquet file, which have no places."""
    with parquet_file(path) as file:
        names, wanted = columns, text_columns(path, file.schema_arrow, columns)
        number = 0
        for batch in file.iter_batches(1024, columns=wanted):
            held = {name: batch.column(name).to_pylist() for name in wanted}
            for at in range(batch.num_rows):
                text, label, date = (None if name is None else held[name][at] for name in names)
                yield Record(0, number, text or "", label, date)
                number += 1


def text_columns(path: str | Path, schema: Any, columns: Columns) -> list[str]:  # noqa: ANN401
    """The named columns of an Arrow table, the first of which holds texts.

    Args:
        path: What errors name.
        schema: Of the table.
        columns: The names.

    Raises:
        ValueError: One of them is missing, or the first holds something else.
    """
    names = _asked(path, columns, schema.names)
    kind = schema.field(names.text).type
    kind = kind.value_type if import_module("pyarrow.types").is_dictionary(kind) else kind
    if str(kind) not in ("string", "large_string", "string_view"):
        raise ValueError(f"{path}: column {names.text!r} holds {kind}, not texts; choose another")
    return list(dict.fromkeys(filter(None, names)))


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
