"""How are the labels of vectors read? From an npy file, or a text file with one a line."""

from pathlib import Path

import numpy as np

from nonneg.data.arrays import Array, check_is_file, npy_array


def read_labels(path: str | Path) -> Array:
    """The labels of a file as they are, whole numbers or text ``(n,)``.

    Args:
        path: ``.npy``, or any other ending for text with one label a line.
    """
    path = Path(path).expanduser()
    check_is_file(path, ".npy or text")
    labels: Array = (
        npy_array(path) if path.suffix == ".npy" else np.array(path.read_text().splitlines())
    )
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        raise ValueError(
            f"{path} holds {labels.dtype.name} of shape {labels.shape}; give one whole number or "
            "word a sample"
        )
    return labels
