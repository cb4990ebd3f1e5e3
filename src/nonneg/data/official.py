"""The official files of known data sets: MNIST and its siblings, CIFAR-10 and CIFAR-100."""

import gzip
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nonneg.data.dataset import ArrayData, of_split

DATA_DIR_VARIABLE = "NONNEG_DATA"


def official_files(
    folder: Path, names: tuple[str, ...], *, advice: str, endings: tuple[str, ...] = ("",)
) -> list[Path]:
    """The path of each file, in the given order.

    Args:
        folder: Where they must be.
        names: Official file names.
        advice: What to put into the folder, for the sentence when one is missing.
        endings: What may follow a name; the first that exists is taken.
    """
    found = [_first_existing(folder, name, endings) for name in names]
    missing = [name for name, path in zip(names, found, strict=True) if path is None]
    if missing:
        raise FileNotFoundError(
            f"{' and '.join(missing)} not found in {folder}; put {advice} there, or name the folder"
            f" that holds {folder.name} with --data-dir (data_dir in Python) or the variable"
            f" {DATA_DIR_VARIABLE}"
        )
    return [path for path in found if path is not None]


def _first_existing(folder: Path, name: str, endings: tuple[str, ...]) -> Path | None:
    candidates = [folder / (name + ending) for ending in endings]
    return next((path for path in candidates if path.is_file()), None)


_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_ADVICE = "the four official idx files (train and t10k, images and labels, plain or .gz)"
_UNSIGNED_BYTES = 8
_PART = 1 << 20


def read_idx(path: Path, *, n_dims: int) -> Tensor:
    """The bytes of one idx file, ``uint8`` with ``n_dims`` dimensions as its header says.

    A file that is not an idx file, or longer or shorter than its header says, is an error.
    """
    n_header = 4 + 4 * n_dims
    content = _content(path, n_header)
    expected = bytes((0, 0, _UNSIGNED_BYTES, n_dims))
    if content[:4] != expected:
        raise ValueError(
            f"{path} is not an idx file of bytes with {n_dims} dimensions: it starts with"
            f" {content[:4].hex(' ') or 'nothing'}, not {expected.hex(' ')}"
        )
    if len(content) < n_header:
        raise ValueError(f"{path} is cut off in its header: {len(content)} of {n_header} bytes")
    shape = [int.from_bytes(content[at : at + 4]) for at in range(4, n_header, 4)]
    if len(content) - n_header != prod(shape):
        n_more = len(content) - n_header
        # A packed file is unpacked no further than that.
        found = "more" if path.suffix == ".gz" and n_more > prod(shape) else str(n_more)
        raise ValueError(
            f"{path} is damaged: its header says {' x '.join(map(str, shape))} bytes, but"
            f" {found} follow"
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


def _content(path: Path, n_header: int) -> bytes:
    """The bytes of a file, unpacked; at most one more than its header says.

    Args:
        path: An idx file, perhaps packed.
        n_header: The length of the header: four bytes, then four for each dimension.
    """
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            header = file.read(n_header)
            n_promised = prod(
                int.from_bytes(header[at : at + 4]) for at in range(4, len(header), 4)
            )
            parts = [header]
            # Part by part: the header may promise more than there is, or memory for.
            while n_promised >= 0 and (part := file.read(min(n_promised + 1, _PART))):
                parts.append(part)
                n_promised -= len(part)
            return b"".join(parts)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from error


_N_PIXELS = 3 * 32 * 32
_OFFICIAL_COUNT = {"train": 50_000, "test": 10_000}
_CIFAR10_FILES = {
    "train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    "test": ("test_batch.bin",),
}
_CIFAR100_FILES = {"train": ("train.bin",), "test": ("test.bin",)}


@dataclass(frozen=True, kw_only=True)
class CoarseArrayData(ArrayData):
    """Samples with a second, coarser label, int64 ``(n,)``, and the names of its classes."""

    coarse_labels: Tensor
    coarse_class_names: tuple[str, ...]


def cifar10(folder: Path, *, split: str = "train") -> ArrayData:
    """CIFAR-10 images ``uint8 (n, 3, 32, 32)`` with their 10 classes.

    Args:
        folder: Holds ``data_batch_1.bin`` to ``data_batch_5.bin`` and ``test_batch.bin``; class
            names come from ``batches.meta.txt`` where it exists.
        split: ``"train"`` or ``"test"``.
    """
    paths = official_files(
        folder,
        of_split(_CIFAR10_FILES, split),
        advice="the *.bin files of the official CIFAR-10 binary version",
    )
    (labels,), images = _records(paths, n_classes=(10,))
    return ArrayData(
        images,
        labels=labels,
        name=_name("cifar10", split, len(images)),
        class_names=_class_names(folder / "batches.meta.txt", 10),
    )


def cifar100(folder: Path, *, split: str = "train") -> CoarseArrayData:
    """CIFAR-100 images ``uint8 (n, 3, 32, 32)`` with 100 fine classes as labels and 20 coarse ones.

    Any number of records will do; a number that is not the official one shows in the name.

    Args:
        folder: Holds ``train.bin`` and ``test.bin``; class names come from
            ``fine_label_names.txt`` and ``coarse_label_names.txt`` where they exist.
        split: ``"train"`` or ``"test"``.
    """
    paths = official_files(
        folder,
        of_split(_CIFAR100_FILES, split),
        advice="train.bin and test.bin of the official CIFAR-100 binary version",
    )
    (coarse, fine), images = _records(paths, n_classes=(20, 100))
    return CoarseArrayData(
        images,
        labels=fine,
        name=_name("cifar100", split, len(images)),
        class_names=_class_names(folder / "fine_label_names.txt", 100),
        coarse_labels=coarse,
        coarse_class_names=_class_names(folder / "coarse_label_names.txt", 20),
    )


def _records(paths: list[Path], *, n_classes: tuple[int, ...]) -> tuple[list[Tensor], Tensor]:
    """The label columns, each int64 ``(n,)``, and the images ``uint8 (n, 3, 32, 32)``."""
    records = np.concatenate([_one_file(path, n_classes) for path in paths])
    n_labels = len(n_classes)
    labels = [torch.from_numpy(records[:, at].astype(np.int64)) for at in range(n_labels)]
    pixels = np.ascontiguousarray(records[:, n_labels:])
    return labels, torch.from_numpy(pixels).view(-1, 3, 32, 32)


def _one_file(
    path: Path, n_classes: tuple[int, ...]
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The records of a file, ``uint8 (n, labels + 3072)``."""
    width = len(n_classes) + _N_PIXELS
    content = np.fromfile(path, dtype=np.uint8)
    if len(content) == 0 or len(content) % width:
        raise ValueError(
            f"{path} is damaged: its {len(content)} bytes are not a whole number of records of"
            f" {width}"
        )
    records = content.reshape(-1, width)
    for at, known in enumerate(n_classes):
        largest = int(records[:, at].max())
        if largest >= known:
            raise ValueError(
                f"{path} is damaged: record {int(records[:, at].argmax())} has the label"
                f" {largest}, but classes go from 0 to {known - 1}"
            )
    return records


def _name(official: str, split: str, n: int) -> str:
    return official if n == _OFFICIAL_COUNT[split] else f"{official}-part"


def _class_names(path: Path, n_classes: int) -> tuple[str, ...]:
    """The lines of a file of names; nothing where there is no such file."""
    if not path.is_file():
        return ()
    names = tuple(line.strip() for line in path.read_text("utf-8").splitlines() if line.strip())
    if len(names) != n_classes:
        raise ValueError(f"{path} is damaged: it names {len(names)} classes, not {n_classes}")
    return names
