"""Features on disk: an npz file, sparse where that is smaller, dense otherwise."""

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg.data.arrays import NpzFile
from nonneg.io import replaced

# The names that SciPy gives the parts of a sparse array, so that its load_npz reads our files.
_SPARSE_KEYS = ("format", "shape", "data", "indices", "indptr", "_is_array")

# A sparse matrix with few numbers may have so many rows and columns.
_MOST_EMPTY = 1 << 24

FeatureArray = NDArray[np.float32] | sparse.csr_array


def write_features(path: str | Path, features: NDArray[np.float32], **others: NDArray[Any]) -> bool:
    """Write features ``(n, d)`` and other arrays into one npz file; True if they went in sparse.

    Sparse files are in SciPy's layout (``scipy.sparse.load_npz`` reads them); dense ones have the
    key ``features``. Either way the other arrays are beside them under their own names.

    Args:
        path: Where; ends in ``.npz``.
        features: Non-negative and mostly zero, or not.
        others: Such as labels.
    """
    return write_feature_parts(path, [features], len(features), **others)


def write_feature_parts(
    path: str | Path,
    parts: Iterable[NDArray[np.float32]],
    n_samples: int,
    **others: NDArray[Any],
) -> bool:
    """The same for features that come part by part, never held whole as a dense matrix.

    Whether sparse is smaller is judged by the first part.

    Args:
        path: Where; ends in ``.npz``.
        parts: Features ``(some, d)`` of the samples in their order, at least one part.
        n_samples: How many they are together.
        others: Such as labels.
    """
    taken = [name for name in others if name in (*_SPARSE_KEYS, "features")]
    if taken:
        raise ValueError(f"the name {taken[0]!r} is taken by the features; choose another")
    parts = iter(parts)
    first = next(parts)
    is_sparse = int(np.count_nonzero(first)) * 2 + len(first) < first.size
    with (
        replaced(Path(path)) as file,
        zipfile.ZipFile(file, "w", compression=zipfile.ZIP_DEFLATED) as archive,
    ):
        if is_sparse:
            for name, array in _compressed(chain([first], parts), n_samples).items():
                _write_array(archive, name, array)
        else:
            _write_dense(archive, chain([first], parts), (n_samples, first.shape[1]))
        for name, array in others.items():
            _write_array(archive, name, array)
    return is_sparse


def read_features(path: str | Path) -> tuple[FeatureArray, Mapping[str, NDArray[Any]]]:
    """The features of a file that ``write_features`` wrote, and the other arrays by name.

    The other arrays are read when they are asked for.

    Returns:
        A ``csr_array`` for a sparse file, an array ``(n, d)`` for a dense one.

    Raises:
        ValueError: If the file holds no features.
    """
    path = Path(path)
    arrays = NpzFile(path)
    if "features" in arrays:
        return arrays["features"], arrays.without({"features"})
    if not {"data", "indices", "indptr", "shape"} <= set(arrays):
        held = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path} holds no features but {held}; make it with nonneg embed")
    features = sparse_of_arrays(path, arrays)
    return features, arrays.without(_SPARSE_KEYS)


def sparse_of_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> sparse.csr_array:
    """The sparse array of a file in SciPy's layout, by rows.

    Args:
        path: What errors name.
        arrays: ``data``, ``indices``, ``indptr``, ``shape`` and perhaps ``format``.

    Raises:
        ValueError: If it is of another format than csr and csc, or damaged.
    """
    kind = str(arrays["format"].astype("U")) if "format" in arrays else "csr"
    if kind not in ("csr", "csc"):
        raise ValueError(f"{path} is a sparse matrix in {kind} format; save it as csr")
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    if arrays["shape"].shape != (2,) or arrays["shape"].dtype.kind not in "iu":
        raise ValueError(f"{path} is not a readable sparse matrix: its shape is no pair of numbers")
    shape = (int(arrays["shape"][0]), int(arrays["shape"][1]))
    # Whatever is computed by row or by column takes memory for all of them.
    most = max(_MOST_EMPTY, parts[0].size)
    if max(shape[1], shape[0] if kind == "csc" else 0) > most:
        raise ValueError(
            f"{path} is a sparse matrix of shape {shape} with {parts[0].size:,} numbers; leave out "
            f"the rows and columns without any, or keep at most {most:,}"
        )
    try:
        whole = (sparse.csr_array if kind == "csr" else sparse.csc_array)(parts, shape=shape)
        whole.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise ValueError(f"{path} is not a readable sparse matrix: {error}") from error
    return sparse.csr_array(whole)


def _compressed(parts: Iterator[NDArray[np.float32]], n_samples: int) -> dict[str, NDArray[Any]]:
    """The arrays of SciPy's layout."""
    whole = sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")
    _check_count(whole.shape[0], n_samples)
    return {
        "format": np.array(b"csr"),
        "_is_array": np.array(True),
        "shape": np.array(whole.shape),
        "data": whole.data,
        "indices": whole.indices,
        "indptr": whole.indptr,
    }


def _write_dense(
    archive: zipfile.ZipFile, parts: Iterator[NDArray[np.float32]], shape: tuple[int, int]
) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    n_written = 0
    with archive.open("features.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for part in parts:
            member.write(np.ascontiguousarray(part, dtype="<f4").tobytes())
            n_written += len(part)
    _check_count(n_written, shape[0])


def _write_array(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        stream: IO[bytes] = member
        np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)


def _check_count(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"features of {found} samples were given, {expected} were announced")
