"""How do thousands of small images fit into one page? As a few sheets, each one image file."""

import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from nonneg.metrics.results import IntArray
from nonneg.report.samples import Images, Pixels

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
class Sprites:
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


def sprites(images: Images, numbers: IntArray) -> Sprites:
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
    return Sprites(width, height, a_row, a_sheet, tuple(sheets))


def largest_side(n_images: int) -> int:
    """Pixels a side that so many images may have: between 64 and 128.

    Example:
        >>> largest_side(100), largest_side(10_000), largest_side(4_000)
        (128, 64, 101)
    """
    return int(np.clip(math.isqrt(_MAX_PIXELS // n_images), _SMALLEST_SIDE, LARGEST_SIDE))


def small_images(images: Pixels, side: int) -> Pixels:
    """Images ``(n, h, w, c)`` of at most ``side`` pixels a side, from any of the usual shapes.

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
