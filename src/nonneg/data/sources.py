"""Data by name or path: one table, and one function that reads any of it."""

import os
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import torch

from nonneg.data.arrays import read_array
from nonneg.data.dataset import ArrayData, Data, of_split
from nonneg.data.folder import ImageFolder
from nonneg.data.official import DATA_DIR_VARIABLE, cifar10, cifar100, idx_images
from nonneg.data.sprites import sprite_split
from nonneg.data.vectors import read_vectors


def digits(split: str = "train") -> ArrayData:
    """Grey images ``uint8 (n, 1, 8, 8)`` of ten digits: 1,437 to train, 360 to test.

    Sorted by digit, every fifth image is a test image, so that each digit has the same share of
    both parts and the split is the same everywhere. scikit-learn's 17 grey levels are spread over 0
    to 255.

    Example:
        >>> len(digits("train")), len(digits("test")), digits().sample_shape
        (1437, 360, (1, 8, 8))
    """
    from sklearn.datasets import load_digits  # slow to import, and needed here only

    levels, numbers = load_digits(return_X_y=True)
    by_digit = np.argsort(numbers, kind="stable")
    is_test = np.zeros(len(numbers), dtype=bool)
    is_test[by_digit[::5]] = True
    chosen = of_split({"train": ~is_test, "test": is_test}, split)
    pixels = np.rint(levels[chosen] * (255 / 16)).astype(np.uint8)
    return ArrayData(
        torch.from_numpy(pixels).view(-1, 1, 8, 8),
        labels=torch.from_numpy(numbers[chosen].astype(np.int64)),
        name="digits",
        class_names=tuple("0123456789"),
    )


_DIGIT_NAMES = tuple("0123456789")
_FASHION_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

# From a name to what it gives for a split, a data folder and, for files, an image size.
_KNOWN: dict[str, Callable[[str, Path, int], Data]] = {
    "digits": lambda split, _, __: digits(split),
    "sprites": lambda split, _, __: sprite_split(split),
    "mnist": lambda split, folder, _: idx_images(
        folder / "mnist", split=split, name="mnist", class_names=_DIGIT_NAMES
    ),
    "fashion-mnist": lambda split, folder, _: idx_images(
        folder / "fashion-mnist", split=split, name="fashion-mnist", class_names=_FASHION_NAMES
    ),
    "cifar10": lambda split, folder, _: cifar10(folder / "cifar-10-batches-bin", split=split),
    "cifar100": lambda split, folder, _: cifar100(folder / "cifar-100-binary", split=split),
    "imagenet100": lambda split, folder, image_size: ImageFolder(
        folder / "imagenet100", split=split, image_size=image_size
    ),
}


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Where data sets are looked for: the argument, else ``NONNEG_DATA``, else ``~/.cache/nonneg``.

    Example:
        >>> data_folder("sets").name
        'sets'
    """
    return Path(data_dir or os.environ.get(DATA_DIR_VARIABLE) or "~/.cache/nonneg").expanduser()


def names() -> tuple[str, ...]:
    """The names that ``load`` knows.

    Example:
        >>> names()[:2]
        ('digits', 'sprites')
    """
    return tuple(_KNOWN)


def is_own_file(source: str) -> bool:
    """Whether ``load`` would read a file of the user's, not a named set or a folder."""
    return source not in _KNOWN and Path(source).expanduser().is_file()


def load(
    source: str | Path,
    *,
    split: str = "train",
    data_dir: str | Path | None = None,
    image_size: int = 224,
) -> Data:
    """The data set of that name, or in that file or folder.

    Args:
        source: One of ``names()``; else the path of a ``.npy``, ``.npz`` or ``.parquet`` file, or
            of a folder of images. A name wins over a path, so write ``./mnist`` for a folder called
            mnist.
        split: ``"train"`` or ``"test"``; a file, or a folder without a split, has only ``"train"``.
        data_dir: Where the official files of the named sets lie, each set in its own folder;
            None means the variable ``NONNEG_DATA``, else ``~/.cache/nonneg``.
        image_size: Pixels per side of the images of a folder; the other sources have their own
            size.

    Example:
        >>> len(load("digits", split="test"))
        360
    """
    if isinstance(source, str) and source in _KNOWN:
        return _KNOWN[source](split, data_folder(data_dir), image_size)
    path = Path(source).expanduser()
    if path.is_dir():
        return ImageFolder(path, split=split, image_size=image_size)
    if not path.is_file():
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise ValueError(
            f"{str(source)!r} is neither a known data set nor a file or folder{where}; known:"
            f" {', '.join(_nearest_first(str(source)))}"
        )
    if path.suffix not in (".npy", ".npz", ".parquet"):
        raise ValueError(
            f"cannot read {path}; give a .npy, .npz or .parquet file or a folder of images"
        )
    if split != "train":
        raise ValueError(f"{path} is one set without a {split} split; name a set that has one")
    return read_vectors(path) if path.suffix == ".parquet" else read_array(path)


def _nearest_first(wrong: str) -> list[str]:
    return sorted(
        names(), key=lambda name: SequenceMatcher(None, wrong.lower(), name).ratio(), reverse=True
    )
