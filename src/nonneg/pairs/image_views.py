"""Which two views has an image? Two random crops of it, each with its own colours and blur."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from nonneg.pairs.plan import VIEW_STREAMS, drawn_plan
from nonneg.pairs.protocol import Batch
from nonneg.pairs.rendering import check_images, rendered
from nonneg.pairs.view_settings import ViewSettings


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
