"""Features, texts, labels and images from a user's files."""

import json
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, is_zipfile

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg.data.arrays import numbered, numbered_words, read_labels, text_lines
from nonneg.data.dataset import Data
from nonneg.data.feature_file import FeatureArray, read_features
from nonneg.data.folder import ImageFolder
from nonneg.io import read_json
from nonneg.report.samples import LARGEST_SIDE, Images, Samples

_NPY_START = b"\x93NUMPY"


class PartOf(NamedTuple):
    """The samples that are shown, where they are some of a larger file."""

    n_whole: int
    rows: NDArray[np.int64]
    """Their numbers in the file ``(n,)``."""

    def of(self, values: Any) -> Any:  # noqa: ANN401
        """Of a value for each sample of the file, those that are shown; others as they are."""
        if len(values) != self.n_whole:
            return values
        if isinstance(values, list):
            return [values[row] for row in self.rows]
        return values[self.rows]


def features_of_file(path: Path) -> tuple[FeatureArray, dict[str, NDArray[Any]]]:
    """The features of an npz file (see ``nonneg embed``) or of an npy file, and what is beside."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is neither a run folder nor a file; give a folder that nonneg train or "
            "nonneg fit made, or a file of features"
        )
    if path.suffix == ".npy":
        return _array_of_file(path), {}
    if not is_zipfile(path):
        why = "it is no whole zip file" if path.stat().st_size else "it is empty"
        raise ValueError(f"{path} is not a readable npz file ({why})")
    try:
        return read_features(path)
    except BadZipFile as error:
        raise ValueError(f"{path} is not a readable npz file ({error})") from error


def _array_of_file(path: Path) -> NDArray[Any]:
    """The array of an npy file, left on disk until it is read."""
    with path.open("rb") as file:
        start = file.read(len(_NPY_START))
    if start != _NPY_START:  # NumPy would speak of pickles
        why = "it does not begin like one" if start else "it is empty"
        raise ValueError(f"{path} is not a readable npy file ({why})")
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a readable npy file ({error})") from error
    return array


def samples_of_file(path: Path) -> Samples:
    """Features of a file with the labels that it holds."""
    features, beside = features_of_file(path)
    names = tuple(str(name) for name in beside.get("class_names", ()))
    labels: Any = beside.get("labels")
    if labels is not None and labels.dtype.kind == "U":
        labels, names = numbered_words(str(path), labels, names)
    return Samples(
        features=features,
        labels=labels,
        class_names=names,
        ids=None if "ids" not in beside else beside["ids"].tolist(),
    )


def lines_of_file(path: Path) -> list[str]:
    """Texts: the lines of a text file, the list of a json file, or "text" of each jsonl line.

    Raises:
        ValueError: If a line of a jsonl file is not an object with a "text".
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix == ".json":
        values = read_json(path)
        if not isinstance(values, list):
            raise ValueError(f"{path} holds no list; give a JSON list of texts")
        return [str(value) for value in values]
    lines = text_lines(path)
    if path.suffix != ".jsonl":
        return lines
    return [_text(path, number, line) for number, line in enumerate(lines, start=1)]


def _text(path: Path, number: int, line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} of {path} is not JSON ({error})") from error
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or "text" not in value:
        raise ValueError(f'line {number} of {path} has no "text"; give {{"text": …}} a line')
    return str(value["text"])


def labels_of_file(path: Path) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class numbers ``(n,)`` and the names of the classes, none where labels are numbers."""
    try:
        labels = read_labels(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error}); save it as UTF-8") from error
    if labels.dtype.kind == "U" and all(label.strip().isdigit() for label in labels.tolist()):
        labels = labels.astype(np.int64)
    numbers, names = numbered(labels)
    return numbers[0].numpy(), names


def images_of(path: Path) -> tuple[Images, int, list[str] | None]:
    """Images of a folder, sorted by name, or of an npy file of bytes; their number and names."""
    if path.is_dir():
        folder = ImageFolder(path, image_size=LARGEST_SIDE)
        return images_of_data(folder), len(folder), folder.file_names
    if not path.is_file():
        raise FileNotFoundError(f"there is no file or folder {path}")
    pixels = _array_of_file(path)
    if pixels.ndim not in (3, 4):
        raise ValueError(
            f"{path} holds an array of shape {pixels.shape}; give images (n, h, w), (n, c, h, w) "
            "or (n, h, w, c)"
        )
    return pixels, len(pixels), None


def images_of_data(data: Data) -> Images:
    """The images of a data set as bytes, fetched by number when the page is made."""

    def fetch(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        pixels = data.fetch(torch.from_numpy(numbers))
        if pixels.dtype != torch.uint8:
            pixels = (pixels.clamp(0, 1) * 255).round().byte()
        return pixels.numpy()

    return fetch


def with_extras(
    samples: Samples,
    *,
    texts: Path | None,
    labels: Path | None,
    class_names: Path | None,
    images: Path | None,
    ids: Path | None,
    part: PartOf | None = None,
) -> Samples:
    """The samples with what files add to them; a file wins over what they had.

    Args:
        samples: What is shown.
        texts: A file with one for each sample, as all others but ``class_names``.
        labels: Class numbers or words.
        class_names: Of class 0, 1, …
        images: A folder or an npy file.
        ids: Names of samples.
        part: Where the samples are some of a larger set: files may be about all of that.
    """
    given: dict[str, Any] = {}
    part = part or PartOf(len(samples), np.arange(len(samples)))
    if texts is not None:
        given["texts"] = part.of(lines_of_file(texts))
    if labels is not None:
        numbers, given["class_names"] = labels_of_file(labels)
        given["labels"] = part.of(numbers)
    if class_names is not None:
        if samples.labels is None and labels is None:
            raise ValueError(f"{class_names} names classes, but there are no labels; give --labels")
        if given.get("class_names"):
            raise ValueError(
                f"{class_names} names the classes 0, 1, …, but {labels} has other labels, such as "
                f"{given['class_names'][0]!r}; leave --class-names out"
            )
        given["class_names"] = lines_of_file(class_names)
    if images is not None:
        found, n_images, names = images_of(images)
        if n_images not in (len(samples), part.n_whole):
            raise ValueError(
                f"{images} holds {n_images} images for {len(samples)} samples; give one each"
            )
        given["images"] = found if n_images == len(samples) else _some_images(found, part.rows)
        if names is not None and samples.ids is None:
            given["ids"] = part.of(names)
    if ids is not None:
        given["ids"] = part.of(lines_of_file(ids))
    had = {key: getattr(samples, key) for key in _SHOWN}
    return Samples(features=samples.features, kind=samples.kind, **(had | given))


def _some_images(images: Images, rows: NDArray[np.int64]) -> Images:
    if callable(images):
        return lambda numbers: images(rows[numbers])
    return images[rows]


_SHOWN = ("labels", "class_names", "texts", "images", "ids", "numbers")
