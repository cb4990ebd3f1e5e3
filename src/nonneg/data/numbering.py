"""Which number has a class? Labels as whole numbers from 0 on, with the names of the classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


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
        words: One a sample ``(n,)``.
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
