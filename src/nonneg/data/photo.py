"""Image files, decoded no larger than needed and only from formats that are known to be safe."""

import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

Box = tuple[float, float, float, float]

# What is opened, with the endings of its files. Pillow goes by the content and knows many formats
# more; for PostScript it would start another program.
FORMATS = {
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "JPEG": (".jpeg", ".jpg"),
    "PNG": (".png",),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
_JPEG_SCALES = (8, 4, 2)  # what a JPEG can be shrunk by while it is decoded
_WIDE_PIXELS = ("I", "F")  # modes of more than 8 bits start with one of these
# What Pillow raises for damaged files.
_UNREADABLE = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    LookupError,
    OverflowError,
    struct.error,
)


class Photo:
    """One image file, decoded when a part of it is asked for, once for each shrinking factor.

    Args:
        path: Of one of ``FORMATS``, whatever its ending, with 8 bits per channel. Rotation marks of
            cameras are not applied.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoded: dict[int, Image.Image] = {}
        with _naming(path):
            self._content = path.read_bytes()
        with opened(path, self._content) as image:
            self.width, self.height = image.size
            self._is_jpeg = image.format == "JPEG"
            if image.mode.startswith(_WIDE_PIXELS):
                raise ValueError(f"its pixels are {image.mode}, not 8 bits a channel")

    def centre(self, size: int) -> Tensor:
        """The middle square of the image, as large as it can be, ``uint8 (3, size, size)``."""
        side = min(self.width, self.height)
        left, top = (self.width - side) / 2, (self.height - side) / 2
        return self._resized((left, top, left + side, top + side), size)

    def crop(self, box: Box, size: int) -> Tensor:
        """A part of the image, ``uint8 (3, size, size)``.

        Args:
            box: Top, left, height and width as shares of the image, all in [0, 1].
            size: Pixels a side of the result.
        """
        top, left, height, width = box
        right, bottom = min(left + width, 1.0), min(top + height, 1.0)
        edges = (left * self.width, top * self.height, right * self.width, bottom * self.height)
        return self._resized(edges, size)

    def _resized(self, edges: Box, size: int) -> Tensor:
        """The pixels between left, top, right and bottom, averaged or interpolated to ``size``."""
        shortest = min(edges[2] - edges[0], edges[3] - edges[1])
        fits = (scale for scale in _JPEG_SCALES if self._is_jpeg and shortest >= scale * size)
        scale = next(fits, 1)
        left, top, right, bottom = (edge / scale for edge in edges)
        image = self._at_scale(scale)
        resized = image.resize((size, size), Image.Resampling.BILINEAR, (left, top, right, bottom))
        return torch.from_numpy(np.array(resized)).permute(2, 0, 1)

    def _at_scale(self, scale: int) -> Image.Image:
        if scale not in self._decoded:
            with opened(self._path, self._content) as image:
                if scale > 1:
                    image.draft(None, (self.width // scale, self.height // scale))
                # By way of RGBA, a palette with transparent entries loses them without a warning.
                opaque = image.convert("RGBA") if image.mode == "P" else image
                self._decoded[scale] = opaque.convert("RGB")
        return self._decoded[scale]


def aspect_ratio(path: Path) -> float:
    """Width over height of an image file, from its header alone."""
    with opened(path) as image:
        return image.width / image.height


@contextmanager
def opened(path: Path, content: bytes | None = None) -> Iterator[Image.Image]:
    """An image file, open for the block; the only place where Pillow opens a user's file.

    Args:
        path: The file, which every error names.
        content: Its bytes, where they have been read already.

    Raises:
        ValueError: If the file is of no format in ``FORMATS``, is damaged or has too many pixels,
            or if the block fails to decode it.
    """
    source = path if content is None else io.BytesIO(content)
    with _naming(path), warnings.catch_warnings():
        # Pillow warns of damaged metadata, which is not used; damaged pixels are an error.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(source, formats=tuple(FORMATS)) as image:
            yield image


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Any failure to read becomes one sentence that names the file."""
    try:
        yield
    except UnidentifiedImageError as error:
        *others, last = FORMATS
        raise ValueError(
            f"cannot read image {path}: it is not a {', '.join(others)} or {last} file, or it is "
            "damaged; convert or remove it"
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(
            f"cannot read image {path}: it has more than {Image.MAX_IMAGE_PIXELS:,} pixels; "
            "scale it down or remove it"
        ) from error
    except _UNREADABLE as error:
        raise ValueError(f"cannot read image {path}: {error}") from error
