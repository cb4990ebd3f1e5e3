"""How are MNIST and its siblings read? From their four official idx files, plain or gzipped."""

import gzip
import zlib
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from nonneg.data.dataset import ArrayData, of_split
from nonneg.data.official import official_files

_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_ADVICE = "the four official idx files (train and t10k, images and labels, plain or .gz)"
_UNSIGNED_BYTES = 8


def read_idx(path: Path, *, n_dims: int) -> Tensor:
    """The bytes of one idx file, ``uint8`` with ``n_dims`` dimensions as its header says.

    A file that is not an idx file, or longer or shorter than its header says, is an error.
    """
    content = _content(path)
    expected = bytes((0, 0, _UNSIGNED_BYTES, n_dims))
    if content[:4] != expected:
        raise ValueError(
            f"{path} is not an idx file of bytes with {n_dims} dimensions: it starts with"
            f" {content[:4].hex(' ') or 'nothing'}, not {expected.hex(' ')}"
        )
    n_header = 4 + 4 * n_dims
    if len(content) < n_header:
        raise ValueError(f"{path} is cut off in its header: {len(content)} of {n_header} bytes")
    shape = [int.from_bytes(content[at : at + 4]) for at in range(4, n_header, 4)]
    if len(content) - n_header != prod(shape):
        raise ValueError(
            f"{path} is damaged: its header says {' x '.join(map(str, shape))} bytes, but"
            f" {len(content) - n_header} follow"
        )
    # A writable copy, which torch.frombuffer asks for; an empty buffer it refuses.
    body = bytearray(content[n_header:])
    return (torch.frombuffer(body, dtype=torch.uint8) if body else torch.empty(0).byte()).view(
        shape
    )


def idx_images(folder: Path, *, split: str, name: str, class_names: tuple[str, ...]) -> ArrayData:
    """The grey images ``uint8 (n, 1, h, w)`` of one split, with a label for each.

    Args:
        folder: Holds the official files.
        split: ``"train"`` or ``"test"``.
        name: What to call the data.
        class_names: One for each class; a label beyond them is an error.
    """
    images_path, labels_path = official_files(
        folder, of_split(_FILES, split), advice=_ADVICE, endings=("", ".gz")
    )
    images, labels = read_idx(images_path, n_dims=3), read_idx(labels_path, n_dims=1)
    if len(images) != len(labels):
        raise ValueError(
            f"{images_path} holds {len(images)} images, but {labels_path.name} {len(labels)} labels"
        )
    if len(labels) and int(labels.max()) >= len(class_names):
        raise ValueError(
            f"{labels_path} has the label {int(labels.max())}, but {name} has classes 0 to"
            f" {len(class_names) - 1}"
        )
    return ArrayData(images[:, None], labels=labels.long(), name=name, class_names=class_names)


def _content(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from error
