"""The world of a real data set whose views are finitely many."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from nonneg.factorization.checking import FloatArray, IntArray
from nonneg.factorization.worlds import LatentWorld

# Every step of at most one pixel.
NEAR_SHIFTS = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1))


def augmentation_world(view_numbers: ArrayLike) -> LatentWorld:
    """The world in which an image is drawn, then two of its views: ``P = E A(x|x̄) A(x'|x̄)``.

    It is a latent-class world whose classes are the images. Images are equally likely, and so are
    the columns of an image; a view that occurs in two columns counts twice.

    Args:
        view_numbers: For each image the numbers of its views ``(n_images, n_views)``; images that
            share a number share a view. Every number from 0 to the largest must occur.

    Example:
        Two images with one view in common:

        >>> augmentation_world([[0, 1], [1, 2]]).joint.toarray()
        array([[0.125, 0.125, 0.   ],
               [0.125, 0.25 , 0.125],
               [0.   , 0.125, 0.125]])
    """
    numbers = np.asarray(view_numbers)
    if numbers.ndim != 2 or not numbers.size or numbers.dtype.kind not in "iu":
        raise ValueError(
            "view_numbers must be whole numbers (n_images, n_views), "
            f"got {numbers.dtype} of shape {numbers.shape}"
        )
    if numbers.min() < 0:
        raise ValueError(f"view_numbers has the entry {numbers.min()}; numbers count from 0")
    n_images, n_views = numbers.shape
    images = np.repeat(np.arange(n_images), n_views)
    shares = np.full(numbers.size, 1 / n_views)
    likelihood = sparse.coo_array((shares, (numbers.ravel(), images)))  # repeated entries add up
    return LatentWorld(np.full(n_images, 1 / n_images), likelihood.tocsr())


@dataclass(frozen=True, eq=False)
class ShiftedViews:
    """The distinct views of a set of images.

    Args:
        images: The views as pictures, float64 in [0, 1], ``(n, h, w)``.
        numbers: For each original image the numbers of its views ``(n_images, n_shifts)``.
    """

    images: FloatArray
    numbers: IntArray

    def label_rates(self, labels: ArrayLike) -> FloatArray:
        """P(y | view) ``(n, n_labels)``: the labels of the images that a view comes from.

        Args:
            labels: Class number of each original image, from 0 ``(n_images,)``.
        """
        repeated = np.repeat(np.asarray(labels), self.numbers.shape[1])
        counts = np.zeros((len(self.images), int(repeated.max()) + 1))
        np.add.at(counts, (self.numbers.ravel(), repeated), 1)
        rates: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        return rates


def shifted_views(
    images: ArrayLike,
    *,
    shifts: Sequence[tuple[int, int]] = NEAR_SHIFTS,
    pool: int = 2,
    levels: int = 2,
) -> ShiftedViews:
    """Every image at every shift, coarsened, equal pictures only once.

    Fine pictures of two images are never equal, and then each image is a world of its own; coarse
    ones often are, which is what connects images of one kind.

    Args:
        images: Grey values in [0, 1] ``(n_images, h, w)``.
        shifts: Steps down and right; what moves in is 0.
        pool: Blocks of so many pixels per side are averaged after shifting; divides h and w.
        levels: Grey levels that are left.

    Example:
        A dot in the left of two blocks leaves it with the step to the right:

        >>> views = shifted_views([[[0.0, 1.0, 0.0, 0.0]]], shifts=[(0, 0), (0, 1)], pool=1)
        >>> views.images.tolist(), views.numbers.tolist()
        ([[[0.0, 0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]]], [[1, 0]])
    """
    pixels = np.asarray(images, dtype=np.float64)
    if pixels.ndim != 3 or not pixels.size:
        raise ValueError(f"images must be (n_images, height, width), got shape {pixels.shape}")
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise ValueError(
            f"images has values from {pixels.min():.3g} to {pixels.max():.3g}; scale to [0, 1]"
        )
    n, height, width = pixels.shape
    if pool < 1 or height % pool or width % pool:
        raise ValueError(f"pool is {pool}; it must divide the height {height} and width {width}")
    if levels < 2 or not shifts:
        raise ValueError(f"need at least 2 levels and 1 shift, got {levels} and {len(shifts)}")
    moved = np.stack([_moved(pixels, down, right) for down, right in shifts], axis=1)
    blocks = moved.reshape(n, len(shifts), height // pool, pool, width // pool, pool)
    coarse = np.minimum(np.floor(blocks.mean(axis=(3, 5)) * levels), levels - 1)
    flat = coarse.reshape(n * len(shifts), -1)
    distinct, numbers = np.unique(flat, axis=0, return_inverse=True)
    return ShiftedViews(
        images=distinct.reshape(-1, height // pool, width // pool) / (levels - 1),
        numbers=numbers.reshape(n, len(shifts)).astype(np.int64),
    )


def _moved(pixels: FloatArray, down: int, right: int) -> FloatArray:
    """The pictures moved by whole pixels, zeros moving in."""
    height, width = pixels.shape[1:]
    moved = np.zeros_like(pixels)
    if abs(down) < height and abs(right) < width:
        moved[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = (
            pixels[:, max(-down, 0) : height - max(down, 0), max(-right, 0) : width - max(right, 0)]
        )
    return moved
