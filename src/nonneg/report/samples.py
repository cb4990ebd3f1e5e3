"""The samples of an atlas: rows of features with what can be seen of each, images in sheets."""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import sparse
from torch import Tensor

from nonneg.estimators.tokens import check_texts
from nonneg.metrics.inputs import FeatureLike, LabelLike, SparseRows, checked_labels
from nonneg.metrics.results import BoolArray, IntArray

Pixels = NDArray[np.uint8]
# All images, or a function that gives those with some numbers: large sets need not be in memory.
Images = Pixels | Callable[[IntArray], Pixels]


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Samples, their features, and what can be shown of them.

    Args:
        features: ``(n, d)``, dense or SciPy CSR; rows are scaled to length 1 for the page.
        labels: Class numbers ``(n,)``.
        class_names: The name of class 0, 1, …; left out, classes that occur are called by their
            number.
        texts: One per sample.
        images: uint8 ``(n, h, w)``, ``(n, c, h, w)`` or ``(n, h, w, c)``, c being 1 or 3; or a
            function from numbers ``(k,)`` to such an array.
        ids: One per sample, to find it again elsewhere.
        dates: Days ``(n,)``, datetime64, NaT where one is not known.
        numbers: Whole numbers ``(n,)``, no two alike: what samples without ids are called, such as
            the rows of a file that these are some of; left out, 0, 1, …
        kind: What one of them is called on the page.

    Raises:
        ValueError: If labels, texts, images, ids, dates or numbers are not one per sample.

    Example:
        >>> Samples(features=[[1, 0], [0, 1]], texts=["one"])
        Traceback (most recent call last):
        ...
        ValueError: texts has 1 entries for 2 samples; give one each
    """

    features: FeatureLike
    labels: LabelLike | None = None
    class_names: Sequence[str] = ()
    texts: Sequence[str] | None = None
    images: Images | None = None
    ids: Sequence[Any] | None = None
    dates: NDArray[np.datetime64] | None = None
    numbers: IntArray | None = None
    kind: str = "sample"

    def __post_init__(self) -> None:
        matrix = as_matrix(self.features)
        object.__setattr__(self, "features", matrix)
        if len(matrix.shape) != 2 or 0 in matrix.shape:
            raise ValueError(
                f"the features have shape {tuple(matrix.shape)}; an atlas needs at least one "
                "sample and one feature, (n_samples, n_features)"
            )
        for name in ("texts", "images", "ids", "dates", "numbers"):
            given = getattr(self, name)
            if given is not None and not callable(given) and len(given) != len(self):
                raise ValueError(
                    f"{name} has {len(given)} entries for {len(self)} {self.kind}s; give one each"
                )
        if self.numbers is not None and len(np.unique(self.numbers)) < len(self):
            raise ValueError(f"numbers has some twice; give each {self.kind} its own")
        if self.texts is not None:
            check_texts(self.texts)
        if self.dates is not None:
            object.__setattr__(self, "dates", _checked_dates(self.dates))
        if self.labels is not None:
            self._name_classes(checked_labels(self.labels, len(self), "labels"))

    def _name_classes(self, labels: IntArray) -> None:
        """Classes without names get their numbers as names, those that occur only."""
        names = list(self.class_names)
        if not names:
            present, labels = np.unique(labels, return_inverse=True)
            names = [str(number) for number in present]
        elif labels.max() >= len(names):
            raise ValueError(
                f"labels go up to {labels.max()}, but there are only {len(names)} class names"
            )
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "class_names", names)

    def __len__(self) -> int:
        return int(self.features.shape[0])  # type: ignore[union-attr]

    @property
    def n_features(self) -> int:
        """Columns of the features."""
        return int(self.features.shape[1])  # type: ignore[union-attr]

    @property
    def classes(self) -> IntArray | None:
        """The labels as checked numbers, or None."""
        return None if self.labels is None else np.asarray(self.labels)

    @property
    def own_numbers(self) -> IntArray:
        """What samples without ids are called ``(n,)``."""
        return np.arange(len(self)) if self.numbers is None else np.asarray(self.numbers)

    def finite_rows(self) -> BoolArray:
        """Which samples have only finite features, ``(n,)``."""
        return finite_rows(self.features)

    def take(self, numbers: IntArray) -> Self:
        """The samples with these numbers, in this order."""
        images = self.images
        if callable(images):
            fetch = images
            images = lambda some: fetch(numbers[some])  # noqa: E731
        elif images is not None:
            images = images[numbers]
        return replace(
            self,
            features=rows_of(self.features, numbers),
            labels=None if self.classes is None else self.classes[numbers],
            texts=None if self.texts is None else [self.texts[i] for i in numbers],
            images=images,
            ids=None if self.ids is None else [self.ids[i] for i in numbers],
            dates=None if self.dates is None else self.dates[numbers],
            numbers=self.own_numbers[numbers],
        )


def _checked_dates(dates: NDArray[np.datetime64]) -> NDArray[np.datetime64] | None:
    """Days ``(n,)``; None where no date at all is known."""
    given = np.asarray(dates)
    if given.dtype.kind != "M":
        raise ValueError(
            f"dates holds {given.dtype}; give numpy.datetime64, such as "
            'numpy.array(["2024-05-01"], dtype="datetime64[D]")'
        )
    days = given.astype("datetime64[D]")
    return None if np.isnat(days).all() else days


def as_matrix(features: FeatureLike) -> Any:  # noqa: ANN401
    """An array, or SciPy's CSR where the features are sparse, on the CPU."""
    if isinstance(features, Tensor):
        return features.detach().cpu().numpy()
    return sparse.csr_array(features) if sparse.issparse(features) else np.asarray(features)


def finite_rows(features: FeatureLike) -> BoolArray:
    """Which rows of a matrix ``(n, d)`` hold neither NaN nor infinity, ``(n,)``.

    Example:
        >>> finite_rows(np.array([[1.0, np.nan], [0.0, 2.0]]))
        array([False,  True])
    """
    if hasattr(features, "indptr"):
        rows: SparseRows = features  # type: ignore[assignment]
        fine = np.ones(rows.shape[0], dtype=bool)
        bad = ~np.isfinite(rows.data)
        fine[np.searchsorted(rows.indptr, np.flatnonzero(bad), side="right") - 1] = False
        return fine
    result: BoolArray = np.isfinite(np.asarray(features)).all(axis=1)
    return result


def rows_of(features: FeatureLike, numbers: IntArray) -> FeatureLike:
    """Some rows of a dense or sparse matrix."""
    return features[numbers]  # type: ignore[index]


def random_draw(n: int, limit: int, seed: int) -> IntArray:
    """At most ``limit`` of the numbers 0 … n - 1, drawn at random once for a seed, in order.

    Example:
        >>> random_draw(3, 10, seed=0)
        array([0, 1, 2])
    """
    if n <= limit:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size=limit, replace=False))


# No browser refuses an image of this size, and a phone decodes it at once.
_SHEET_SIDE = 2048
# Few images may be large, many must be small: 10,000 of 64 pixels, or 2,500 of 128.
LARGEST_SIDE = 128
_SMALLEST_SIDE = 64
_MAX_PIXELS = 10_000 * 64 * 64
# Small grey images are kept exactly; WebP of this quality takes a tenth for photographs.
_EXACT_UP_TO = 32
_QUALITY = 80
_BATCH = 256


@dataclass(frozen=True)
class Sheet:
    """Some images in rows, from left to right and top to bottom.

    Args:
        content: The image file.
        media_type: Such as ``"image/png"``.
    """

    content: bytes
    media_type: str


@dataclass(frozen=True)
class ImageSheets:
    """All images on sheets.

    Args:
        width: Pixels of one image.
        height: The same.
        a_row: Images in a row of a sheet.
        a_sheet: Images on a sheet; the last one may hold fewer.
        sheets: In order.
    """

    width: int
    height: int
    a_row: int
    a_sheet: int
    sheets: tuple[Sheet, ...]


def image_sheets(images: Images, numbers: IntArray) -> ImageSheets:
    """Sheets of the images with these numbers; large ones are shrunk, see ``largest_side``.

    Args:
        images: uint8 ``(n, h, w)``, ``(n, c, h, w)`` or ``(n, h, w, c)``, or what gives them.
        numbers: Which, at least one, ``(k,)``.

    Raises:
        TypeError: If pixels are not bytes.
        ValueError: If the shape is another.
    """
    side = largest_side(len(numbers))
    first = small_images(_fetched(images, numbers[:1]), side)
    height, width, channels = first.shape[1:]
    a_row = max(1, _SHEET_SIDE // width)
    a_sheet = a_row * max(1, _SHEET_SIDE // height)
    sheets = []
    for start in range(0, len(numbers), a_sheet):
        some = numbers[start : start + a_sheet]
        n_rows = -(-len(some) // a_row)
        n_columns = a_row if len(some) > a_row else len(some)
        sheet = np.zeros((n_rows * height, n_columns * width, channels), dtype=np.uint8)
        for offset in range(0, len(some), _BATCH):
            batch = small_images(_fetched(images, some[offset : offset + _BATCH]), side)
            for i, image in enumerate(batch, start=offset):
                top, left = i // a_row * height, i % a_row * width
                sheet[top : top + height, left : left + width] = image
        sheets.append(_encoded(sheet, exact=channels == 1 and max(height, width) <= _EXACT_UP_TO))
    return ImageSheets(width, height, a_row, a_sheet, tuple(sheets))


def largest_side(n_images: int) -> int:
    """Pixels per side that so many images may have: between 64 and 128.

    Example:
        >>> largest_side(100), largest_side(10_000), largest_side(4_000)
        (128, 64, 101)
    """
    return int(np.clip(math.isqrt(_MAX_PIXELS // n_images), _SMALLEST_SIDE, LARGEST_SIDE))


def small_images(images: Pixels, side: int) -> Pixels:
    """Images ``(n, h, w, c)`` of at most ``side`` pixels per side, from any of the usual shapes.

    Example:
        >>> small_images(np.zeros((2, 3, 128, 256), np.uint8), 64).shape
        (2, 32, 64, 3)
    """
    pixels = np.asarray(images)
    if pixels.dtype != np.uint8:
        raise TypeError(f"images have type {pixels.dtype}; give bytes (uint8), 0 to 255")
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    elif pixels.ndim == 4 and pixels.shape[1] in (1, 3):
        pixels = np.moveaxis(pixels, 1, -1)
    if pixels.ndim != 4 or pixels.shape[-1] not in (1, 3):
        raise ValueError(
            f"each image has shape {np.shape(images)[1:]}; give (n, h, w), (n, c, h, w) or "
            "(n, h, w, c) with 1 or 3 channels"
        )
    height, width, channels = pixels.shape[1:]
    shrink = side / max(height, width)
    if shrink >= 1:
        return pixels
    size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
    resized = [np.asarray(_picture(image).resize(size, Image.Resampling.BOX)) for image in pixels]
    return np.stack(resized).reshape(len(pixels), size[1], size[0], channels)


def _fetched(images: Images, numbers: IntArray) -> Pixels:
    return images(numbers) if callable(images) else images[numbers]


def _picture(pixels: Pixels) -> Image.Image:
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def _encoded(sheet: Pixels, *, exact: bool) -> Sheet:
    buffer = io.BytesIO()
    if exact:
        _picture(sheet).save(buffer, format="png")
        return Sheet(buffer.getvalue(), "image/png")
    _picture(sheet).convert("RGB").save(buffer, format="webp", quality=_QUALITY, method=4)
    return Sheet(buffer.getvalue(), "image/webp")
