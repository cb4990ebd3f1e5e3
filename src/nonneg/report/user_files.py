"""Features, texts, labels and images that a user gives, as files or values."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg.data.arrays import npy_array, numbered, numbered_words, read_labels, text_lines
from nonneg.data.dataset import Data
from nonneg.data.dates import is_no_date, read_date
from nonneg.data.feature_file import FeatureArray, read_features
from nonneg.data.folder import ImageFolder
from nonneg.io import read_json
from nonneg.metrics.inputs import FeatureLike
from nonneg.metrics.results import IntArray
from nonneg.report.samples import LARGEST_SIDE, Images, Samples, as_matrix
from nonneg.untrusted import json_value

# Of a class number; a longer row of digits is a word.
_MOST_DIGITS = 18
# Each is a file, or the values themselves.
FeatureSource = str | Path | FeatureLike
Texts = str | Path | Sequence[str]
Labels = str | Path | Sequence[Any] | NDArray[Any] | torch.Tensor
Dates = str | Path | Sequence[Any] | NDArray[np.datetime64]
Pictures = str | Path | NDArray[np.uint8] | Callable[[IntArray], NDArray[np.uint8]]


def path_of(value: object) -> Path | None:
    """The path that a text or path names; None for values in memory."""
    return Path(value) if isinstance(value, str | os.PathLike) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Extras:
    """What is known of samples beyond their features; a file or a value each.

    Args:
        texts: One per sample; with captions, one per caption.
        labels: One per sample, class numbers or words.
        class_names: Of class 0, 1, …
        images: One per sample: a folder, sorted by name, an npy file, an array, or a function as
            in :class:`Samples`.
        ids: One per sample.
        dates: One per sample: a text file with an ISO date per line, or dates; empty where one
            is not known.
        reference: An embedding that is trusted to tell what is alike ``(n, width)``.
        captions: Features ``(m, d)`` of captions.
        caption_of: For each caption the number of its sample ``(m,)``.
    """

    texts: Texts | None = None
    labels: Labels | None = None
    class_names: Texts | None = None
    images: Pictures | None = None
    ids: str | Path | Sequence[Any] | None = None
    dates: Dates | None = None
    reference: FeatureSource | None = None
    captions: FeatureSource | None = None
    caption_of: str | Path | Sequence[int] | IntArray | None = None


class PartOf(NamedTuple):
    """The samples that are shown, where they are some of a larger set."""

    n_whole: int
    rows: NDArray[np.int64]
    """Their numbers in that set ``(n,)``."""

    def of(self, values: Any) -> Any:  # noqa: ANN401
        """Of a value for each sample of the set, those that are shown; others as they are."""
        if len(values) != self.n_whole:
            return values
        if isinstance(values, list):
            return [values[row] for row in self.rows]
        return values[self.rows]


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Features ``(n, d)`` of a file or in memory.

    Args:
        features: Dense or SciPy CSR.
        path: Of the file; None for features in memory.
        beside: Further arrays of the file, such as ``labels``.
    """

    features: FeatureArray
    path: Path | None = None
    beside: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, source: FeatureSource) -> "FeatureSet":
        """The features of an npz file (see ``nonneg embed``), an npy file, or in memory."""
        path = path_of(source)
        if path is None:
            return cls(as_matrix(source))  # type: ignore[arg-type]
        return cls(*_read(path))

    def samples(self, kind: str = "sample") -> Samples:
        """The samples with the labels and ids that the file holds."""
        beside = self.beside
        names = tuple(str(name) for name in beside.get("class_names", ()))
        labels: Any = beside.get("labels")
        if labels is not None and labels.dtype.kind == "U":
            labels, names = numbered_words(str(self.path), labels, names)
        return Samples(
            features=self.features,
            labels=labels,
            class_names=names,
            ids=None if "ids" not in beside else beside["ids"].tolist(),
            kind=kind,
        )


def _read(path: Path) -> tuple[FeatureArray, Path, Mapping[str, NDArray[Any]]]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is neither a run folder nor a file; give a folder that nonneg train or "
            "nonneg fit made, or a file of features"
        )
    if path.suffix == ".npy":
        return npy_array(path, mapped=True), path, {}
    features, beside = read_features(path)
    return features, path, beside


def text_list(texts: str | Path | Sequence[Any]) -> list[str]:
    """Texts in memory as a list, or those of a file.

    A text file has one per line, a json file a list, a jsonl file a "text" per line.

    Raises:
        ValueError: If a line of a jsonl file is not an object with a "text".

    Example:
        >>> text_list(("one", 2))
        ['one', '2']
    """
    path = path_of(texts)
    if path is None:
        return [str(text) for text in texts]  # type: ignore[union-attr]
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
        value = json_value(line)
    except ValueError as error:
        raise ValueError(f"line {number} of {path} is not JSON ({error})") from error
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or "text" not in value:
        raise ValueError(f'line {number} of {path} has no "text"; give {{"text": …}} per line')
    return str(value["text"])


def days(dates: Dates) -> NDArray[np.datetime64]:
    """Days ``(n,)`` of dates in memory, or of a file of texts, NaT where one is empty.

    Raises:
        ValueError: If one is no date; see :func:`nonneg.data.dates.read_date`.

    Example:
        >>> days(["2024-05-01", "", "2024-05-02T10:30"])
        array(['2024-05-01',        'NaT', '2024-05-02'], dtype='datetime64[D]')
    """
    if isinstance(dates, np.ndarray) and dates.dtype.kind == "M":
        return dates.astype("datetime64[D]")
    path = path_of(dates)
    values: Any = dates if path is None else text_list(path)
    found = [_day(path, number, value) for number, value in enumerate(values, start=1)]
    return np.array(found, dtype="datetime64[D]")


def _day(path: Path | None, number: int, value: Any) -> datetime | str:  # noqa: ANN401
    if is_no_date(value):
        return "NaT"
    found = read_date(value)
    if found is None:
        where = f"entry {number} of dates" if path is None else f"line {number} of {path}"
        raise ValueError(f"{where} is {str(value)!r}; give dates such as 2024-05-01")
    return found


def class_numbers(labels: Labels) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class numbers ``(n,)`` and the names of the classes, none where labels are numbers.

    Example:
        >>> class_numbers(["tea", "ale", "tea"])
        (array([1, 0, 1]), ('ale', 'tea'))
    """
    path = path_of(labels)
    if path is None:
        found = labels.cpu().numpy() if isinstance(labels, torch.Tensor) else labels
        are_words = isinstance(found, list | tuple) and any(isinstance(v, str) for v in found)
        found = np.array(found, dtype=object) if are_words else np.asarray(found)
    else:
        found = _labels_of_file(path)
    numbers, names = numbered(found)
    return numbers[0].numpy(), names


def _labels_of_file(path: Path) -> NDArray[Any]:
    labels = read_labels(path)
    if labels.dtype.kind not in "UO" or not all(_is_number(label) for label in labels.tolist()):
        return labels
    return np.array([int(label) for label in labels.tolist()], dtype=np.int64)


def _is_number(label: str) -> bool:
    digits = label.strip()
    return digits.isdecimal() and len(digits) <= _MOST_DIGITS


def _images_of_file(path: Path) -> tuple[Images, int, list[str] | None]:
    """Images of a folder, sorted by name, or of an npy file of bytes; their number and names."""
    if path.is_dir():
        folder = ImageFolder(path, image_size=LARGEST_SIDE)
        return images_of_data(folder), len(folder), folder.file_names
    if not path.is_file():
        raise FileNotFoundError(f"there is no file or folder {path}")
    pixels = npy_array(path, mapped=True)
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


_SHOWN = ("labels", "class_names", "texts", "images", "ids", "dates", "numbers")


def with_extras(samples: Samples, extras: Extras, part: PartOf | None = None) -> Samples:
    """The samples with further facts about them, which replace those they had.

    Args:
        samples: What is shown.
        extras: One entry per sample, but for ``class_names``; captions and reference are no part
            of samples.
        part: Where the samples are some of a larger set: extras may be about all of that.
    """
    part = part or PartOf(len(samples), np.arange(len(samples)))
    given: dict[str, Any] = {}
    if extras.texts is not None:
        given["texts"] = part.of(text_list(extras.texts))
    if extras.labels is not None:
        numbers, given["class_names"] = class_numbers(extras.labels)
        given["labels"] = part.of(numbers)
    if extras.class_names is not None:
        has_labels = samples.labels is not None or extras.labels is not None
        given["class_names"] = _class_names(extras, given.get("class_names"), has_labels)
    if extras.images is not None:
        given |= _images(extras.images, samples, part)
    if extras.ids is not None:
        given["ids"] = part.of(text_list(extras.ids))
    if extras.dates is not None:
        given["dates"] = part.of(days(extras.dates))
    had = {key: getattr(samples, key) for key in _SHOWN}
    return Samples(features=samples.features, kind=samples.kind, **(had | given))


def _class_names(extras: Extras, words: Sequence[str] | None, has_labels: bool) -> list[str]:
    assert extras.class_names is not None
    who = path_of(extras.class_names) or "class_names"
    if not has_labels:
        raise ValueError(f"{who} names classes, but there are no labels; give labels too")
    if words:
        raise ValueError(
            f"{who} names the classes 0, 1, …, but {path_of(extras.labels) or 'labels'} has other "
            f"labels, such as {words[0]!r}; leave the class names out"
        )
    return text_list(extras.class_names)


def _images(images: Pictures, samples: Samples, part: PartOf) -> dict[str, Any]:
    path = path_of(images)
    if path is None:
        if callable(images):  # called with numbers of samples that are shown
            return {"images": images}
        found, names = np.asarray(images), None
        n_images = len(found)
    else:
        found, n_images, names = _images_of_file(path)  # type: ignore[assignment]
    if n_images not in (len(samples), part.n_whole):
        raise ValueError(
            f"{path or 'images'} holds {n_images} images for {len(samples)} samples; give one each"
        )
    given: dict[str, Any] = {
        "images": found if n_images == len(samples) else _some_images(found, part.rows)
    }
    if names is not None and samples.ids is None:
        given["ids"] = part.of(names)
    return given


def _some_images(images: Images, rows: NDArray[np.int64]) -> Images:
    if callable(images):
        return lambda numbers: images(rows[numbers])
    return images[rows]
