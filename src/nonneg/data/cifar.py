"""How are CIFAR-10 and CIFAR-100 read? From the official binary version, record by record."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nonneg.data.dataset import ArrayData, of_split
from nonneg.data.official import official_files

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
