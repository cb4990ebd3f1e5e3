"""How are features kept on disk? In an npz file: sparse where that is smaller, dense otherwise."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg.files import write_bytes

# The names that SciPy gives the parts of a sparse array, so that its load_npz reads our files.
_SPARSE_KEYS = ("format", "shape", "data", "indices", "indptr", "_is_array")

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
    taken = [name for name in others if name in (*_SPARSE_KEYS, "features")]
    if taken:
        raise ValueError(f"the name {taken[0]!r} is taken by the features; choose another")
    compressed = sparse.csr_array(features)
    is_sparse = compressed.nnz * 2 + len(features) < features.size
    buffer = io.BytesIO()
    if is_sparse:
        arrays: dict[str, Any] = {
            "format": np.array(b"csr"),
            "_is_array": np.array(True),
            "shape": np.array(compressed.shape),
            "data": compressed.data,
            "indices": compressed.indices,
            "indptr": compressed.indptr,
        }
    else:
        arrays = {"features": features}
    arrays |= others
    np.savez_compressed(buffer, **arrays)
    write_bytes(Path(path), buffer.getvalue())
    return is_sparse


def read_features(path: str | Path) -> tuple[FeatureArray, dict[str, NDArray[Any]]]:
    """The features of a file that ``write_features`` wrote, and the other arrays by name.

    Returns:
        A ``csr_array`` for a sparse file, an array ``(n, d)`` for a dense one.

    Raises:
        ValueError: If the file holds no features.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a readable npz file ({error})") from error
    if "features" in arrays:
        return arrays.pop("features"), arrays
    if not {"data", "indices", "indptr", "shape"} <= set(arrays):
        held = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path} holds no features but {held}; make it with nonneg embed")
    parts = {name: arrays.pop(name) for name in _SPARSE_KEYS if name in arrays}
    features = sparse.csr_array(
        (parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])
    )
    return features, arrays
