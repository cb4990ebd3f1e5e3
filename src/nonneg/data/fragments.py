"""Many parquet files as one data set, on any file system of pyarrow: rows are numbered through.

Files are in the order of their names, so that a row has one number however the work is shared.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg.data.vectors import parquet_file, stated_rows
from nonneg.settings import Settings

_WILD = re.compile(r"[*?\[]")
# Footers are small, and on other machines each takes a while.
_FOOTERS_AT_ONCE = 16
# Of a row group so much is read ahead, instead of all of it.
_READING = {"buffer_size": 1 << 22, "pre_buffer": False}

# From a path and an Arrow schema to the names of the columns that are read.
Choice = Callable[[str, Any], Sequence[str]]


class Place(NamedTuple):
    """A path on a file system of pyarrow."""

    filesystem: Any
    path: str

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, as far as that is known."""
        return isinstance(self.filesystem, import_module("pyarrow.fs").LocalFileSystem)


@dataclass(frozen=True)
class Fragment:
    """One file of a data set."""

    path: str
    """On the file system of the data set."""
    name: str
    """The path below the folder that all files are in."""
    size: int
    """Bytes."""
    modified: int
    """When, in nanoseconds since 1970; 0 where the file system does not know."""
    n_rows: int
    first: int
    """The number of its first row, over all files."""


@dataclass(frozen=True)
class Fragments:
    """The files of a data set."""

    source: str
    """As it was given."""
    filesystem: Any
    files: tuple[Fragment, ...]
    """In the order of their names."""
    columns: tuple[str, ...]
    """Those that are read, of one type in all files."""
    schema: Any
    """Of these columns."""
    n_rows: int

    def batches(self, fragment: Fragment, n_rows: int) -> Iterator[Any]:
        """The record batches of a file, of at most so many rows; a row group is never held whole.

        Raises:
            ValueError: The file is damaged.
        """
        with parquet_file(fragment.path, filesystem=self.filesystem, **_READING) as file:
            yield from file.iter_batches(n_rows, columns=list(self.columns))


class DrawnFrom(Settings):
    """The parquet files whose rows a file of a run was drawn from."""

    source: str
    """A folder, pattern or URI, as it was given."""
    n_files: int
    """How many files those were."""
    n_rows: int
    """In all of them."""
    n_drawn: int
    """Rows that were drawn."""


def are_fragments(source: str | Path) -> bool:
    """Whether many files are meant: by a folder, a pattern such as ``in/*.parquet``, or a URI.

    Example:
        >>> are_fragments("in/*.parquet"), are_fragments("s3://bucket/in"), are_fragments("x.npy")
        (True, True, False)
    """
    given, path = str(source), Path(source).expanduser()
    return "://" in given or path.is_dir() or (bool(_WILD.search(given)) and not path.exists())


def place_of(source: str | Path) -> Place:
    """Where a path or URI leads.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: No file system is known for the URI.
    """
    try:
        fs, arrow = import_module("pyarrow.fs"), import_module("pyarrow")
    except ImportError as error:
        raise ImportError(
            f"reading {source} needs pyarrow; install it with: pip install 'nonneg[parquet]'"
        ) from error
    if "://" not in str(source):
        return Place(fs.LocalFileSystem(), Path(source).expanduser().resolve().as_posix())
    try:
        return Place(*fs.FileSystem.from_uri(str(source)))
    except (arrow.ArrowException, OSError, ValueError, ImportError) as error:
        raise ValueError(
            f"{source} cannot be reached ({' '.join(str(error).split())}); give a path, or a URI "
            "that pyarrow reads, such as s3://bucket/folder"
        ) from error


def find_fragments(source: str | Path, choice: Choice) -> Fragments:
    """The parquet files that are meant, with the numbers of their rows from all footers.

    Files and folders whose names begin with a dot or underscore are left out, as pyarrow does.

    Args:
        source: A folder, with all that is below it, a pattern, one file, or a URI of one of these.
        choice: What is read of a file; a sentence of its own is raised for one that lacks it.

    Raises:
        ImportError: pyarrow is not installed.
        FileNotFoundError: There is no such file.
        ValueError: A file is damaged, or has other columns than the first.
    """
    place = place_of(source)
    found = sorted(_listed(place, str(source)), key=lambda named: named[0])
    if not found:
        raise FileNotFoundError(
            f"there is no parquet file at {source}; give a folder that holds some, or a pattern "
            "such as 'in/*.parquet'"
        )

    def footer(path: str) -> tuple[int, Any]:
        with parquet_file(path, filesystem=place.filesystem) as file:
            schema = file.schema_arrow
            fields = [schema.field(name).remove_metadata() for name in choice(path, schema)]
            return stated_rows(path, file.metadata), import_module("pyarrow").schema(fields)

    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        footers = list(pool.map(footer, (info.path for _, info in found)))
    schema = footers[0][1]
    files, first = [], 0
    for (name, info), (n_rows, other) in zip(found, footers, strict=True):
        _check_same(found[0][1].path, schema, info.path, other)
        files.append(Fragment(info.path, name, info.size, info.mtime_ns or 0, n_rows, first))
        first += n_rows
    names = tuple(schema.names)
    return Fragments(str(source), place.filesystem, tuple(files), names, schema, first)


def is_meant(source: str | Path, path: str) -> bool:
    """Whether a file with this path, on the file system of the source, would be one of its files.

    Example:
        >>> is_meant("/in/*.parquet", "/in/a.parquet"), is_meant("/in/*.parquet", "/in/b/a.parquet")
        (True, False)
    """
    root, rest = _root_and_rest(place_of(source))
    name = _below(path, root)
    return path == root if name is None else _is_wanted(name, rest)


def drawn_rows(data: Fragments, rows: NDArray[np.int64]) -> Iterator[Any]:
    """Record batches with some rows; row groups without any of them are not read.

    Args:
        data: The files.
        rows: Their numbers over all files, in order.
    """
    for fragment in data.files:
        bounds = np.searchsorted(rows, [fragment.first, fragment.first + fragment.n_rows])
        wanted = rows[slice(*bounds)] - fragment.first
        if len(wanted):
            yield from _taken(data, fragment, wanted)


def _taken(data: Fragments, fragment: Fragment, wanted: NDArray[np.int64]) -> Iterator[Any]:
    """Rows of one file, by their numbers there."""
    with parquet_file(fragment.path, filesystem=data.filesystem, **_READING) as file:
        start = 0
        for group in range(file.metadata.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(wanted, [start, end])
            if low < high:
                yield from _taken_of_group(
                    file, group, list(data.columns), wanted[low:high] - start
                )
            start = end


def _taken_of_group(
    file: Any,  # noqa: ANN401
    group: int,
    columns: list[str],
    wanted: NDArray[np.int64],
) -> Iterator[Any]:
    start = 0
    for batch in file.iter_batches(row_groups=[group], columns=columns):
        low, high = np.searchsorted(wanted, [start, start + batch.num_rows])
        if low < high:
            yield batch.take(import_module("pyarrow").array(wanted[low:high] - start))
        start += batch.num_rows
        if start > wanted[-1]:
            return


def _root_and_rest(place: Place) -> tuple[str, str]:
    """The folder above all files, and the pattern below it; empty for a file or folder."""
    parts = PurePosixPath(place.path).parts
    wild = next((at for at, part in enumerate(parts) if _WILD.search(part)), None)
    if wild is None or (place.is_local and Path(place.path).exists()):
        return place.path.rstrip("/") or "/", ""
    return str(PurePosixPath(*parts[:wild])), "/".join(parts[wild:])


def _listed(place: Place, source: str) -> list[tuple[str, Any]]:
    """The files that are meant: names below their folder, and what the file system says of each."""
    fs, (root, rest) = import_module("pyarrow.fs"), _root_and_rest(place)
    (there,) = place.filesystem.get_file_info([root])
    if there.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"there is no file or folder {root}; {source} cannot be read")
    if there.is_file and not rest:
        return [(there.base_name, there)]
    if there.is_file:
        raise FileNotFoundError(f"{root} is a file, and {source} asks for files below it")
    is_deep = not rest or "/" in rest
    everything = place.filesystem.get_file_info(fs.FileSelector(root, recursive=is_deep))
    if place.is_local:
        for path in Path(root).glob("**/*.parquet" if is_deep else "*.parquet"):
            _check_is_file(path, root, rest)
    named = [(_below(info.path, root), info) for info in everything if info.is_file]
    return [(name, info) for name, info in named if name and _is_wanted(name, rest)]


def _check_is_file(path: Path, root: str, rest: str) -> None:
    """Raise a sentence for what has the name of a file and is none, which pyarrow leaves out."""
    name = _below(path.as_posix(), root)
    if name and _is_wanted(name, rest) and not (path.is_file() or path.is_dir()):
        raise ValueError(
            f"{path} is a pipe, a device or a broken link, not a file; mend or remove it"
        )


def _is_wanted(name: str, rest: str) -> bool:
    """Whether a file with this name below the folder is one of those of the pattern."""
    parts = PurePosixPath(name).parts
    if not name.endswith(".parquet") or any(part[0] in "._" for part in parts):
        return False
    return not rest or _matches(parts, rest.split("/"))


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path are as a pattern says; ``**`` stands for any number of them."""
    if not pattern or not parts:
        return not parts and all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or _matches(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _below(path: str, root: str) -> str | None:
    """The path below a folder; None for what is not in it."""
    inside = PurePosixPath(path)
    return str(inside.relative_to(root)) if inside.is_relative_to(root) and path != root else None


def _check_same(first: str, schema: Any, path: str, other: Any) -> None:  # noqa: ANN401
    """Raise a sentence for a file whose columns are not those of the first."""
    if other.names != schema.names:
        raise ValueError(
            f"{path} has the columns {', '.join(other.names)} to read, {first} has "
            f"{', '.join(schema.names)}; write all files with one schema"
        )
    for name in schema.names:
        expected, found = schema.field(name).type, other.field(name).type
        if found != expected:
            raise ValueError(
                f"{path} has {found} in column {name!r}, {first} has {expected}; write all files "
                "with one schema"
            )
