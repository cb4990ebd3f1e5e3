"""Two views of an image: random crops of pixels in memory, or of files as they are decoded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from nonneg.data.dataset import Data
from nonneg.pairs.protocol import Batch, Draws
from nonneg.pairs.rendering import check_images, rendered
from nonneg.pairs.view_settings import VIEW_STREAMS, ViewSettings, drawn_plan


@dataclass(frozen=True)
class ImageViews:
    """Two augmented views of each image, made for the whole batch at once on its device.

    What happens to a sample depends on seed, epoch and sample alone. On a CPU its views are equal
    bit by bit whatever the batch around it; on other devices up to rounding.

    Args:
        settings: What may happen to an image.
        size: Height and width of a view; None keeps those of the images.

    Example:
        >>> import torch
        >>> from nonneg.pairs import Batch, Draws, recipe
        >>> images, numbers = torch.rand(4, 3, 32, 32), torch.arange(4)
        >>> batch = Batch(images, numbers, Draws(0, 0, numbers), fetch=images.__getitem__)
        >>> view_a, view_b = ImageViews(recipe("colour"), size=24)(batch)
        >>> view_a.shape, torch.equal(view_a, view_b)
        (torch.Size([4, 3, 24, 24]), False)
    """

    settings: ViewSettings
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise ValueError(f"the size of a view must be at least 1, got {self.size}")

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Two views, each float32 ``(n, c, size, size)`` in [0, 1].

        Args:
            batch: ``inputs`` are uint8 or floats in [0, 1], ``(n, c, h, w)``, with 1 or 3 channels.
        """
        view_a, view_b = self._views(batch, VIEW_STREAMS).tensor_split(2)
        return view_a, view_b

    def one_view(self, batch: Batch) -> Tensor:
        """The first of the two views alone, for learning from labels."""
        return self._views(batch, VIEW_STREAMS[:1])

    def _views(self, batch: Batch, streams: Sequence[int]) -> Tensor:
        images = batch.inputs
        check_images(images, len(batch.draws.indices))
        height, width = images.shape[2:]
        size = (height, width) if self.size is None else (self.size, self.size)
        stretch = (width * size[0]) / (height * size[1])
        plan = drawn_plan(self.settings, batch.draws, streams=streams, stretch=stretch)
        return rendered(images, plan, self.settings, size)


@runtime_checkable
class CropSource(Protocol):
    """Data that can cut crops out of its images, such as an ``ImageFolder``.

    It may also have ``aspect_ratios(indices)``, width over height of these images, float ``(n,)``.
    Without it images are taken for squares, and ``crop_ratio`` is relative to their shape.
    """

    def crops(self, indices: Tensor, boxes: Tensor, size: int) -> Tensor:
        """Parts of images, uint8 ``(n, c, size, size)``.

        Args:
            indices: Sample numbers ``(n,)``; equal ones follow each other.
            boxes: Top, left, height, width as shares of the image, float ``(n, 4)``.
            size: Pixels per side of the result.
        """
        ...


@dataclass(frozen=True)
class FileViews:
    """Two augmented views of each file: ``prepare`` decodes and crops, a call does the rest.

    The draws are those of ``ImageViews``. Only crops of the final size travel from the worker to
    the training device, never whole photographs.

    Args:
        settings: What may happen to an image.
        size: Height and width of a view.
    """

    settings: ViewSettings
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the size of a view must be at least 1, got {self.size}")

    def prepare(self, data: Data, indices: Tensor, draws: Draws) -> Tensor:
        """Both crops of each sample, uint8 ``(n, 2, c, size, size)``.

        Args:
            data: A ``CropSource``.
            indices: Sample numbers, int64 ``(n,)``.
            draws: Of these samples.
        """
        if not isinstance(data, CropSource):
            raise TypeError(
                f"FileViews cuts crops out of image files, and {type(data).__name__} cannot do "
                "that; use ImageViews for images in memory"
            )
        aspect_ratios = getattr(data, "aspect_ratios", None)
        stretch = 1.0 if aspect_ratios is None else aspect_ratios(indices)
        first, second = drawn_plan(self.settings, draws, stretch=stretch).boxes.tensor_split(2)
        boxes = torch.stack([first, second], dim=1).flatten(0, 1)
        crops = data.crops(indices.repeat_interleave(2), boxes, self.size)
        return crops.view(len(indices), 2, *crops.shape[1:])

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Two views, each float32 ``(n, c, size, size)`` in [0, 1].

        Args:
            batch: ``inputs`` are what ``prepare`` gave.
        """
        view_a, view_b = self._views(batch, VIEW_STREAMS).tensor_split(2)
        return view_a, view_b

    def one_view(self, batch: Batch) -> Tensor:
        """The first of the two views alone, for learning from labels."""
        return self._views(batch, VIEW_STREAMS[:1])

    def _views(self, batch: Batch, streams: Sequence[int]) -> Tensor:
        crops = batch.inputs
        if crops.ndim != 5 or crops.shape[1] != 2:
            raise ValueError(
                "FileViews is given what its prepare returns, of shape (n, 2, c, h, w), "
                f"got {tuple(crops.shape)}"
            )
        check_images(crops[:, 0], len(batch.draws.indices))
        images = crops[:, : len(streams)].transpose(0, 1).flatten(0, 1)
        plan = drawn_plan(self.settings, batch.draws, streams=streams)
        whole = torch.tensor([0.0, 0.0, 1.0, 1.0], device=crops.device).expand_as(plan.boxes)
        plan, size = replace(plan, boxes=whole), (crops.shape[3], crops.shape[4])
        return rendered(images, plan, self.settings, size)
