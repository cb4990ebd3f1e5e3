"""How are a user's vectors read? From npy (mapped where large), npz (also sparse) and parquet."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nonneg.data.arrays import Array, check_is_file, npy_array, npz_arrays
from nonneg.data.checking import check_labels
from nonneg.data.numbering import numbered, numbered_words
from nonneg.data.parquet import parquet_vectors
from nonneg.feature_file import sparse_of_arrays

SUFFIXES = (".npy", ".npz", ".parquet")
KINDS = ".npy, .npz or .parquet"

# What SciPy calls the parts of a sparse array in its files.
_SPARSE_PARTS = ("data", "indices", "indptr", "shape")
# Arrays of an npz file that are not the vectors; the first two may go with them.
_BESIDE = ("labels", "class_names", "format", "_is_array", "hidden")
# Where vectors lie in an npz file, unless a name is given.
_USUAL = ("inputs", "features")


@dataclass(frozen=True)
class VectorData:
    """Vectors as a data set: in memory, mapped from a file, or sparse.

    Args:
        vectors: ``(n, d)`` of any real type: an array, a memory map or SciPy CSR.
        labels: int64 ``(n,)``.
        name: What to call it in tables.
        class_names: One for each class number.

    Example:
        >>> data = VectorData(sparse.csr_array(np.eye(3)))
        >>> data.sample_shape, data.fetch(torch.tensor([2]))
        ((3,), tensor([[0., 0., 1.]]))
    """

    vectors: Any
    labels: Tensor | None = None
    name: str = "vectors"
    class_names: tuple[str, ...] = field(default=())

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample, ``(d,)``."""
        return (int(self.vectors.shape[1]),)

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    def fetch(self, indices: Tensor) -> Tensor:
        """The vectors with these numbers, float32 ``(len(indices), d)``."""
        rows = self.vectors[indices.numpy()]
        is_sparse: bool = sparse.issparse(rows)
        return torch.from_numpy(np.array(rows.toarray() if is_sparse else rows, dtype=np.float32))


def read_vectors(path: str | Path, *, column: str | None = None) -> VectorData:
    """The vectors of a file, with labels where an npz file has them beside.

    A large npy file is mapped, not read. An npz file holds SciPy's sparse layout, or ``inputs``,
    ``features`` or one array of any name. A parquet file has them in a column of lists, or has
    nothing but columns of floats, one a dimension.

    Args:
        path: Ends in ``.npy``, ``.npz`` or ``.parquet``.
        column: The array of the npz file or the column of the parquet file; None finds it.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It holds no vectors ``(n, d)``, or several arrays that could be meant.
    """
    path = Path(path).expanduser()
    check_is_file(path, KINDS)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"cannot read vectors from {path}; give a {KINDS} file")
    if column is not None and path.suffix == ".npy":
        raise ValueError(f"{path} holds one array without a name; leave out --column {column}")
    beside: dict[str, Array] = {}
    if path.suffix == ".npy":
        vectors: Any = npy_array(path)
    elif path.suffix == ".parquet":
        vectors = parquet_vectors(path, column)
    else:
        beside = npz_arrays(path)
        vectors = _from_npz(path, beside, column)
    _check(path, vectors)
    if "labels" not in beside:
        return VectorData(vectors, name=path.name)
    class_names = tuple(str(name) for name in beside.get("class_names", ()))
    labels, class_names = _classes(path, beside["labels"], class_names)
    check_labels(str(path), labels, vectors.shape[0], class_names)
    return VectorData(vectors, labels, name=path.name, class_names=class_names)


def _classes(
    path: Path, labels: Array, class_names: tuple[str, ...]
) -> tuple[Tensor, tuple[str, ...]]:
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    if labels.dtype.kind == "U":
        return numbered_words(str(path), labels, class_names)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"{path} has labels that are NaN; give each sample a number or a word")
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels % 1 == 0).all():
        labels = labels.astype(np.int64)
    (numbers,), found = numbered(labels)
    if found and class_names:
        raise ValueError(
            f"{path} has class_names, whose places are the numbers from 0 on, but the label "
            f"{found[0]}; number the labels so, or leave out class_names"
        )
    return numbers, class_names or found


def _from_npz(path: Path, arrays: dict[str, Array], column: str | None) -> Any:  # noqa: ANN401
    if column is None and set(_SPARSE_PARTS) <= set(arrays):
        return sparse_of_arrays(path, arrays)
    names = [name for name in arrays if name not in _BESIDE]
    usual = [name for name in _USUAL if name in names]
    chosen = column or (usual[0] if usual else names[0] if len(names) == 1 else None)
    if chosen is None or chosen not in arrays:
        wrong = f"no array {column!r}" if column else "no array called inputs or features"
        held = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path} has {wrong}; it holds {held}: choose with --column")
    return arrays[chosen]


def _check(path: Path, vectors: Any) -> None:  # noqa: ANN401
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ValueError(f"{path} holds an array of shape {vectors.shape}; give vectors (n, d)")
    if vectors.dtype.kind not in "fiub":
        raise ValueError(f"{path} holds {vectors.dtype.name}; give vectors of real numbers")
