"""Folders of images: classes are subfolders, pixels are decoded when fetched."""

import copy
import io
import os
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from nonneg.data.dataset import of_split
from nonneg.untrusted import check_regular, read_regular

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
    """One image file, decoded on request, once for each reduction factor.

    Args:
        path: Of one of ``FORMATS``, whatever its ending, with 8 bits per channel. Orientation tags
            of cameras are not applied.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoded: dict[int, Image.Image] = {}
        with _naming(path):
            self._content = read_regular(path)
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
        check_regular(path)
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


_ENDINGS = tuple(ending for endings in FORMATS.values() for ending in endings)
_SPLIT_FOLDERS = {"train": ("train",), "test": ("test", "val")}


class ImageFolder:
    """Colour images ``uint8 (n, 3, s, s)`` from files that are decoded only when fetched.

    Three layouts are understood: ``root/train/<class>/…`` beside ``root/test`` or ``root/val``;
    ``root/<class>/…`` with no split; and a flat folder of images with no labels. Classes and
    files are sorted by name; with a split, class numbers are those of ``train``. The object holds
    file names only, so that sending it to a worker process is cheap.

    Args:
        root: The folder.
        split: ``"train"`` or ``"test"``; a folder without a split has only ``"train"``.
        image_size: Pixels per side of what ``fetch`` gives.
    """

    def __init__(self, root: str | Path, *, split: str = "train", image_size: int = 224) -> None:
        root = Path(root)
        if image_size < 1:
            raise ValueError(f"image_size must be at least 1, got {image_size}")
        if not root.is_dir():
            raise FileNotFoundError(
                f"{root} is not a folder; make it with {root.name}/train/CLASS/… and "
                f"{root.name}/val/CLASS/…, or {root.name}/CLASS/…"
            )
        folder, self.class_names = _layout(root, split)
        files, labels = _listing(folder, self.class_names)
        self.root = str(folder)
        self.name = root.resolve().name
        self.image_size = image_size
        self.labels = torch.tensor(labels) if self.class_names else None
        # One block of bytes, which pickles and forks faster than a million strings.
        self._files = np.array([os.fsencode(file) for file in files])

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """``(3, image_size, image_size)``."""
        return (3, self.image_size, self.image_size)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def file_names(self) -> list[str]:
        """The files of all samples, as paths within the folder of the split."""
        return [os.fsdecode(file) for file in self._files]

    def path(self, number: int) -> Path:
        """The file of a sample."""
        return Path(self.root, os.fsdecode(self._files[number]))

    def fetch(self, indices: Tensor) -> Tensor:
        """The middle squares of these images, as large as they can be, scaled to ``image_size``."""
        images = torch.empty(len(indices), *self.sample_shape, dtype=torch.uint8)
        for row, number in enumerate(indices.tolist()):
            images[row] = Photo(self.path(number)).centre(self.image_size)
        return images

    def crops(self, indices: Tensor, boxes: Tensor, size: int) -> Tensor:
        """Parts of these images, ``uint8 (n, 3, size, size)``.

        A number that follows itself (two views of one image) is read once.

        Args:
            indices: Sample numbers, ``(n,)``.
            boxes: Top, left, height and width as shares of the image, float ``(n, 4)`` in [0, 1].
            size: Pixels a side of the result.
        """
        _check_boxes(boxes, len(indices))
        images = torch.empty(len(indices), 3, size, size, dtype=torch.uint8)
        last, photo = None, None
        for row, (number, box) in enumerate(zip(indices.tolist(), boxes.tolist(), strict=True)):
            if photo is None or number != last:
                last, photo = number, Photo(self.path(number))
            images[row] = photo.crop(box, size)
        return images

    def aspect_ratios(self, indices: Tensor) -> Tensor:
        """Width over height of these images, float32 ``(n,)``; only file headers are read."""
        return torch.tensor([aspect_ratio(self.path(number)) for number in indices.tolist()])

    def take(self, indices: Tensor) -> "ImageFolder":
        """The images with these numbers."""
        part = copy.copy(self)
        part._files = self._files[indices.numpy()]
        part.labels = None if self.labels is None else self.labels[indices]
        return part


def has_split(root: str | Path, split: str) -> bool:
    """Whether a folder of images has a train folder, and one for the split beside it."""
    wanted = (_SPLIT_FOLDERS["train"], of_split(_SPLIT_FOLDERS, split))
    return all(any(Path(root, name).is_dir() for name in names) for names in wanted)


def _layout(root: Path, split: str) -> tuple[Path, tuple[str, ...]]:
    """The folder that holds the split, and the names of its classes."""
    train = root / "train"
    if not train.is_dir():
        if split != "train":
            raise ValueError(
                f"{root} has no {split} split: its images do not lie in {root.name}/train and"
                f" {root.name}/{split}"
            )
        classes = _subfolders(root)
        if classes and set(classes) <= {"test", "val"}:
            raise FileNotFoundError(f"{root} has a {classes[0]} folder, but no train folder")
        return root, classes
    choices = [root / name for name in of_split(_SPLIT_FOLDERS, split)]
    folder = next((choice for choice in choices if choice.is_dir()), None)
    if folder is None:
        raise FileNotFoundError(
            f"{root} has a train folder, but none for the {split} split; looked for"
            f" {' and '.join(choice.name for choice in choices)}"
        )
    return folder, _subfolders(train)


def _listing(folder: Path, class_names: tuple[str, ...]) -> tuple[list[str], list[int]]:
    """The image files within the folder, and a label for each where there are classes."""
    flat = sorted(entry.name for entry in folder.iterdir() if _is_image(entry.name))
    if class_names and flat:
        raise ValueError(
            f"{folder} holds both class folders and loose images, such as {flat[0]}; move the"
            " images into a class folder"
        )
    unknown = [name for name in _subfolders(folder) if name not in class_names]
    if unknown:
        raise ValueError(f"{folder / unknown[0]} is a class that the train folder does not have")
    files, labels = flat, []
    for label, name in enumerate(class_names):
        found = [f"{name}/{file}" for file in _images_below(folder / name)]
        if not found and (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a class without images; fill or remove it")
        files += found
        labels += [label] * len(found)
    if not files:
        raise ValueError(f"{folder} holds no images; known endings: {', '.join(_ENDINGS)}")
    return files, labels


def _subfolders(folder: Path) -> tuple[str, ...]:
    names = (entry.name for entry in folder.iterdir() if entry.is_dir())
    return tuple(sorted(name for name in names if not name.startswith(".")))


def _images_below(folder: Path) -> list[str]:
    """Images at any depth, as paths within the folder; strings, because there can be millions."""
    start = len(str(folder)) + 1
    return sorted(
        f"{parent}/{file}"[start:]
        for parent, _, files in os.walk(folder)
        for file in files
        if _is_image(file)
    )


def _is_image(file_name: str) -> bool:
    return file_name.lower().endswith(_ENDINGS) and not file_name.startswith(".")


def _check_boxes(boxes: Tensor, n: int) -> None:
    if boxes.shape != (n, 4):
        raise ValueError(f"boxes must be (n, 4) for n = {n} images, got {tuple(boxes.shape)}")
    top_left, extent = boxes[:, :2], boxes[:, 2:]
    inside = (top_left >= 0) & (extent > 0) & (top_left + extent <= 1 + 1e-5)
    if not inside.all():
        row = int((~inside.all(dim=1)).nonzero()[0])
        raise ValueError(
            f"box {row} is (top, left, height, width) = {boxes[row].tolist()}; it must have a"
            " positive size and lie in [0, 1]"
        )
