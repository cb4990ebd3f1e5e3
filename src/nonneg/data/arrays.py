"""A user's own arrays and labels, from .npy, .npz and text files; nothing is unpickled."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nonneg.data.checking import check_inputs, check_labels
from nonneg.data.dataset import Array, ArrayData, as_tensor


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
    classes, numbers = np.unique(np.concatenate(parts), return_inverse=True)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    pieces: list[Any] = np.split(numbers.astype(np.int64), ends)
    return [torch.from_numpy(piece) for piece in pieces], tuple(str(name) for name in classes)


def numbered_words(
    called: str, words: NDArray[np.str_], class_names: Sequence[str] = ()
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
    places = torch.tensor([class_names.index(name) for name in found])
    return places[numbers], tuple(class_names)


# What reading an archive raises where bytes are missing or changed.
DAMAGED = (EOFError, OSError, zipfile.BadZipFile, zlib.error)
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
    named = _named(path, npz_arrays(path)) if path.suffix == ".npz" else {"inputs": npy_array(path)}
    inputs = _with_channel(named["inputs"])
    check_inputs(str(path), inputs.shape, inputs.dtype.name)
    class_names = tuple(str(name) for name in named.get("class_names", ()))
    labels = None
    if "labels" in named:
        labels, class_names = _classes(path, named["labels"], class_names)
        check_labels(str(path), labels, len(inputs), class_names)
    return ArrayData(as_tensor(inputs), labels=labels, name=path.stem, class_names=class_names)


def npy_array(
    path: Path, *, remedy: str = "save them as numbers, such as array.astype('float32')"
) -> Array:
    """The array of a ``.npy`` file: read, or mapped where it is large; an error names the file.

    Args:
        path: Where it lies.
        remedy: What to do where it holds Python objects, which are never unpickled.
    """
    try:
        if path.stat().st_size >= _MAPPED_FROM:
            # Copy-on-write: torch wants memory that it could write to, and the file stays as it is.
            return np.lib.format.open_memmap(path, mode="c")
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not a readable .npy file: {_reason(error, remedy)}") from error


def npz_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a ``.npz`` file by name; an error names the file."""
    if not zipfile.is_zipfile(path):
        # NumPy takes whatever it does not know for a pickle, and says so.
        raise ValueError(
            f"{path} is not a readable .npz file: it may be cut short or damaged; write it again"
        )
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except DAMAGED as error:
        raise ValueError(
            f"{path} is not a readable .npz file: it may be damaged; write it again ({error})"
        ) from error
    except ValueError as error:
        remedy = "save labels as text, labels.astype(str), and all else as numbers"
        raise ValueError(f"{path} is not a readable .npz file: {_reason(error, remedy)}") from error


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
    return f"it holds Python objects; {remedy}" if are_objects else str(error)


def _named(path: Path, arrays: dict[str, Array]) -> dict[str, Array]:
    """The same arrays, with the one of inputs under ``inputs``."""
    others = [name for name in arrays if name not in ("labels", "class_names")]
    if "inputs" not in arrays:
        if len(others) != 1:
            raise ValueError(
                f"{path} must hold an array called inputs; it holds {', '.join(arrays) or 'none'}"
            )
        arrays["inputs"] = arrays.pop(others[0])
    return arrays


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
        text = path.read_bytes().decode("utf-8-sig").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error}); save it as UTF-8") from error
    # Not splitlines(): a text may hold a form feed or a Unicode line end.
    return [line.removesuffix("\r") for line in text.split("\n")] if text else []


def read_labels(path: str | Path) -> Array:
    """The labels of a file as they are, whole numbers or text ``(n,)``.

    Args:
        path: ``.npy``, or any other ending for text with one label per line.
    """
    path = Path(path).expanduser()
    check_is_file(path, ".npy or text")
    remedy = "save them as text: np.save(path, labels.astype(str))"
    is_npy = path.suffix == ".npy"
    labels: Array = npy_array(path, remedy=remedy) if is_npy else np.array(text_lines(path))
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        raise ValueError(
            f"{path} holds {labels.dtype.name} of shape {labels.shape}; give one whole number or "
            "word a sample"
        )
    return labels
