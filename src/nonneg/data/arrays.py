"""A user's own arrays and labels, from .npy, .npz and text files; nothing is unpickled."""

import copy
import errno
import math
import struct
import sys
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nonneg.data.checking import check_inputs, check_labels
from nonneg.data.dataset import Array, ArrayData, as_tensor
from nonneg.untrusted import check_regular, read_regular


def numbered(*parts: NDArray[Any]) -> tuple[list[Tensor], tuple[str, ...]]:
    """Labels as class numbers from 0, int64 ``(n,)`` each, and the names of the classes.

    Whole numbers from 0 on stay as they are and have no names. Anything else is numbered in
    sorted order over all parts together, so that a class has one number everywhere.

    Example:
        >>> numbers, names = numbered(np.array(["tea", "ale"]), np.array(["tea", "gin"]))
        >>> [part.tolist() for part in numbers], names
        ([[2, 0], [2, 1]], ('ale', 'gin', 'tea'))
    """
    if all(part.dtype.kind in "iub" and (not len(part) or part.min() >= 0) for part in parts):
        return [torch.from_numpy(part.astype(np.int64)) for part in parts], ()
    if any(part.dtype.kind in "UO" for part in parts):
        # One by one: an array of words gives each the room of the longest.
        words = [[str(word) for word in part.ravel().tolist()] for part in parts]
        classes = sorted({word for part in words for word in part})
        places = {word: place for place, word in enumerate(classes)}
        numbers = [torch.tensor([places[word] for word in part]).long() for part in words]
        shaped = zip(numbers, parts, strict=True)
        return [found.view(part.shape) for found, part in shaped], tuple(classes)
    values, places_of_all = np.unique(np.concatenate(parts), return_inverse=True)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    pieces: list[Any] = np.split(places_of_all.astype(np.int64), ends)
    return [torch.from_numpy(piece) for piece in pieces], tuple(str(name) for name in values)


def numbered_words(
    called: str, words: NDArray[Any], class_names: Sequence[str] = ()
) -> tuple[Tensor, tuple[str, ...]]:
    """Words as class numbers, int64 ``(n,)``, and the names of the classes.

    Args:
        called: How an error names the data: a name or a path.
        words: One per sample ``(n,)``.
        class_names: In the order of the numbers; without them, classes are sorted.

    Example:
        >>> numbers, names = numbered_words("drinks", np.array(["tea", "ale", "tea"]))
        >>> numbers.tolist(), names
        ([1, 0, 1], ('ale', 'tea'))
    """
    (numbers,), found = numbered(words)
    if not class_names:
        return numbers, found
    unknown = sorted(set(found) - set(class_names))
    if unknown:
        raise ValueError(
            f"{called} has the label {unknown[0]!r}, which is none of its class_names; add it there"
        )
    place_of = {name: place for place, name in enumerate(class_names)}
    places = torch.tensor([place_of[name] for name in found])
    return places[numbers], tuple(class_names)


# What reading arrays raises where bytes are missing or changed. NumPy reads headers as Python,
# whose parser adds errors of its own, and zipfile lets errors of its parts through.
DAMAGED = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, OverflowError),
    *(EOFError, OSError, RecursionError, SyntaxError, NotImplementedError, RuntimeError),
    *(SystemError, tokenize.TokenError, zipfile.BadZipFile, zlib.error, struct.error),
)
_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000
_OBJECTS = "Object arrays are not read"
# Bytes that one packed byte can stand for, by how deflate writes repetitions.
_MOST_INFLATED = 1032
_MAPPED_FROM = 1 << 28  # bytes; a smaller file is read at once, which is quicker to fetch from


def read_array(path: str | Path) -> ArrayData:
    """The samples of a ``.npy`` file, or of a ``.npz`` file with labels where it has them.

    A ``.npz`` file holds ``inputs`` (or one array of any name) and optionally ``labels`` (whole
    numbers from 0, or words) and ``class_names``; without these, words are numbered in sorted
    order. Grey images ``uint8 (n, h, w)`` are given a channel. A large ``.npy`` file is mapped, not
    read. Values are checked by ``check``, not here.

    Args:
        path: Inputs are ``(n, d)`` floats, or ``(n, c, h, w)`` bytes or floats in [0, 1].
    """
    path = Path(path)
    named = _named(path, NpzFile(path)) if path.suffix == ".npz" else {"inputs": npy_array(path)}
    inputs = _with_channel(named["inputs"])
    check_inputs(str(path), inputs.shape, inputs.dtype.name)
    class_names = tuple(str(name) for name in named.get("class_names", ()))
    labels = None
    if "labels" in named:
        labels, class_names = _classes(path, named["labels"], class_names)
        check_labels(str(path), labels, len(inputs), class_names)
    return ArrayData(as_tensor(inputs), labels=labels, name=path.stem, class_names=class_names)


def npy_array(
    path: Path,
    *,
    remedy: str = "save them as numbers, such as array.astype('float32')",
    mapped: bool | None = None,
) -> Array:
    """The array of a ``.npy`` file: read, or mapped where it is large; an error names the file.

    Args:
        path: Where it lies.
        remedy: What to do where it holds Python objects, which are never unpickled.
        mapped: Whether to leave it on disk, read-only; None maps large files, to be written to in
            memory only.
    """
    try:
        check_regular(path)
        with path.open("rb") as file:
            begin, shape, is_fortran, kind = _header(file, path.stat().st_size)
            if kind.hasobject:
                raise ValueError(_OBJECTS)
            if mapped or (mapped is None and path.stat().st_size >= _MAPPED_FROM):
                # Copy-on-write: torch wants memory that it could write to, and the file stays.
                order: Any = "F" if is_fortran else "C"
                mode: Any = "r" if mapped else "c"
                if 0 not in shape:
                    return np.memmap(file, kind, mode, offset=begin, shape=shape, order=order)
            file.seek(0)
            return _with_letters(np.lib.format.read_array(file, allow_pickle=False))
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system, not of the content
        raise ValueError(f"{path} is not a readable .npy file: {_reason(error, remedy)}") from error


def _header(file: IO[bytes], n_bytes: int) -> tuple[int, tuple[int, ...], bool, np.dtype[Any]]:
    """Where the numbers of an npy file begin, their shape, order and type.

    Memory is taken only after this: as many bytes as the header promises have to be there.

    Args:
        file: At its start.
        n_bytes: Of all of it.
    """
    start = file.read(len(_MAGIC))
    if start != _MAGIC:  # NumPy would take it for a pickle
        raise ValueError("it does not begin like one" if start else "it is empty")
    file.seek(0)
    version = np.lib.format.read_magic(file)
    if version[0] > 3:
        raise ValueError(f"it is of version {version[0]}, which is not known")
    # The header of a newer version is UTF-8, and begins as one of version 2.
    reading = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    try:
        with warnings.catch_warnings():  # of the parser, about words that no header has
            warnings.simplefilter("ignore")
            shape, is_fortran, kind = reading(file, max_header_size=_LONGEST_HEADER)
    except (*DAMAGED, MemoryError) as error:  # the parser's, of too many brackets
        raise ValueError(f"its header cannot be read ({type(error).__name__})") from error
    if any(type(length) is not int or length < 0 for length in shape):
        raise ValueError(f"its shape is {shape}")
    begin, promised = file.tell(), math.prod(shape) * kind.itemsize
    if promised > n_bytes - begin and not kind.hasobject:
        raise ValueError(
            f"its header promises {promised:,} bytes of numbers, but {n_bytes - begin:,} follow"
        )
    return begin, shape, is_fortran, kind


def _with_letters(array: Array) -> Array:
    """The array, if the numbers of its letters are of Unicode; Python fails at others later."""
    if array.dtype.kind == "U" and array.size:
        native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).reshape(-1)
        if native.itemsize and int(native.view(np.uint32).max()) > sys.maxunicode:
            raise ValueError("it holds letters that there are not")
    return array


class NpzFile(Mapping[str, Array]):
    """The arrays of a ``.npz`` file by name, each read when it is asked for.

    Args:
        path: Where it lies; every error names it.

    Raises:
        ValueError: If it is no such file, or, when it is read, an array is damaged or holds Python
            objects.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_regular(path)
        if not zipfile.is_zipfile(path):
            said = "it is no whole zip file" if path.stat().st_size else "it is empty"
            raise ValueError(f"{path} is not a readable .npz file: {said}; write it again")
        with self._naming_file(), zipfile.ZipFile(path) as archive:
            files = [info.filename for info in archive.infolist()]
        self._members = {name.removesuffix(".npy"): name for name in files if name.endswith(".npy")}
        self._read: dict[str, Array] = {}

    def without(self, names: Collection[str]) -> "NpzFile":
        """The same file, but for some of its arrays."""
        rest = copy.copy(self)
        rest._members = {key: value for key, value in self._members.items() if key not in names}
        return rest

    def __getitem__(self, name: str) -> Array:
        if name not in self._members:
            raise KeyError(name)
        if name not in self._read:
            with self._naming_file(), zipfile.ZipFile(self.path) as archive:
                self._read[name] = self._array(archive, archive.getinfo(self._members[name]))
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def _array(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
        """One array, after its size has been compared with that of the file."""
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{info.filename} in it is packed by a method that NumPy never uses")
        most = _MOST_INFLATED * min(info.compress_size, self.path.stat().st_size) + 1024
        if info.file_size > most:
            raise ValueError(
                f"{info.filename} in it promises {info.file_size:,} bytes, more than its "
                f"{info.compress_size:,} packed ones can hold"
            )
        with archive.open(info) as member:
            _header(member, info.file_size)
        with archive.open(info) as member:
            array = _with_letters(np.lib.format.read_array(member, allow_pickle=False))
            if member.read(1):  # to the end: only then is the checksum looked at
                raise ValueError(f"{info.filename} in it is longer than its header says")
        return array

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except DAMAGED as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise  # of the system, not of the content
            remedy = "save labels as text, labels.astype(str), and all else as numbers"
            reason = _reason(error, remedy)
            if remedy not in reason:
                reason = f"it may be damaged; write it again ({reason})"
            raise ValueError(f"{self.path} is not a readable .npz file: {reason}") from error


def check_is_file(path: Path, kinds: str) -> None:
    """Raise an error where there is a folder or nothing.

    Args:
        path: Where a file should be.
        kinds: What to give instead of a folder, such as ``".npy or text"``.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give a {kinds} file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")


def _reason(error: Exception, remedy: str) -> str:
    """NumPy's message; for Python objects, where it advises unpickling, our remedy instead."""
    are_objects = "Object arrays" in str(error) or "Python objects" in str(error)
    if are_objects:
        return f"it holds Python objects; {remedy}"
    return " ".join(str(error).split()) or type(error).__name__


def _named(path: Path, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays that are used, with the one of inputs under ``inputs``."""
    others = [name for name in arrays if name not in ("labels", "class_names")]
    if "inputs" not in arrays and len(others) != 1:
        raise ValueError(
            f"{path} must hold an array called inputs; it holds {', '.join(arrays) or 'none'}"
        )
    beside = {name: arrays[name] for name in ("labels", "class_names") if name in arrays}
    return {**beside, "inputs": arrays["inputs" if "inputs" in arrays else others[0]]}


def _with_channel(inputs: Array) -> Array:
    is_grey = inputs.ndim == 3 and inputs.dtype == np.uint8
    return inputs[:, None] if is_grey else inputs


def _classes(
    path: Path, labels: Array, class_names: tuple[str, ...]
) -> tuple[Tensor, tuple[str, ...]]:
    if labels.dtype.kind == "U":
        return numbered_words(str(path), labels, class_names)
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"{path} has labels of type {labels.dtype.name}; give whole numbers or words"
        )
    return torch.from_numpy(labels.astype(np.int64)), class_names


def text_lines(path: Path) -> list[str]:
    """The lines of a text file, without their ends; only line feeds end one.

    Raises:
        ValueError: If it is not UTF-8.
    """
    try:
        text = read_regular(path).decode("utf-8-sig").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error}); save it as UTF-8") from error
    # Not splitlines(): a text may hold a form feed or a Unicode line end.
    return [line.removesuffix("\r") for line in text.split("\n")] if text else []


def read_labels(path: str | Path) -> Array:
    """The labels of a file as they are, whole numbers or texts ``(n,)``.

    Texts of lines are an array of objects, each of its own length.

    Args:
        path: ``.npy``, or any other ending for text with one label per line.
    """
    path = Path(path).expanduser()
    check_is_file(path, ".npy or text")
    remedy = "save them as text: np.save(path, labels.astype(str))"
    is_npy = path.suffix == ".npy"
    if not is_npy:
        return np.array(text_lines(path), dtype=object)
    labels = npy_array(path, remedy=remedy)
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        raise ValueError(
            f"{path} holds {labels.dtype.name} of shape {labels.shape}; give one whole number or "
            "word a sample"
        )
    return labels
