"""How are the labels of vectors read? From an npy file, or a text file with one a line."""

from pathlib import Path

import numpy as np

from nonneg.data.arrays import Array, check_is_file, npy_array


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
        path: ``.npy``, or any other ending for text with one label a line.
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
