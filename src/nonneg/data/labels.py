"""How are the labels of vectors read? From an npy file, or a text file with one a line."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nonneg.data.arrays import Array, npy_array


def read_labels(path: str | Path) -> Array:
    """The labels of a file as they are, whole numbers or text ``(n,)``.

    Args:
        path: ``.npy``, or any other ending for text with one label a line.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    labels: Array = (
        npy_array(path) if path.suffix == ".npy" else np.array(path.read_text().splitlines())
    )
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        raise ValueError(
            f"{path} holds {labels.dtype.name} of shape {labels.shape}; give one whole number or "
            "word a sample"
        )
    return labels


def numbered(*parts: Array) -> tuple[list[Tensor], tuple[str, ...]]:
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
