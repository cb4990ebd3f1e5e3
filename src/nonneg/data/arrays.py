"""How are a user's own arrays read? From .npy and .npz files, never unpickling anything."""

import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nonneg.data.checking import check_inputs, check_labels
from nonneg.data.dataset import ArrayData
from nonneg.data.numbering import numbered_words

Array = npt.NDArray[Any]

# What reading an archive raises where bytes are missing or changed.
DAMAGED = (EOFError, OSError, zipfile.BadZipFile, zlib.error)
_MAPPED_FROM = 1 << 28  # bytes; a smaller file is read at once, which is quicker to fetch from


def read_array(path: str | Path) -> ArrayData:
    """The samples of a ``.npy`` file, or of a ``.npz`` file with labels where it has them.

    A ``.npz`` file holds ``inputs`` (or one array of any name) and, as it likes, ``labels`` (whole
    numbers from 0, or words) and ``class_names``; words without those are numbered in sorted order.
    Grey images ``uint8 (n, h, w)`` are given a channel. A large ``.npy`` file is mapped, not read.
    Values are looked at by ``check``, not here.

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
    """Raise a sentence where there is a folder or nothing.

    Args:
        path: Where a file should be.
        kinds: What to give instead of a folder, such as ``".npy or text"``.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give a {kinds} file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")


def _reason(error: Exception, remedy: str) -> str:
    """What NumPy says, or for objects, of which it says how to unpickle them, what to do."""
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


def as_tensor(array: Array) -> Tensor:
    """The same memory as a tensor, to be read only.

    Copied is only what torch cannot read: bytes in the order of another machine, and rows or
    columns that run backwards.
    """
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    with warnings.catch_warnings():
        # Arrays that must not be written to are welcome: nothing here writes to its input.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
