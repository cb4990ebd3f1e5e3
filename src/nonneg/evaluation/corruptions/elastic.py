"""What if the image were printed on rubber? Each part is moved a little, smoothly."""

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg.evaluation.corruptions.fields import smooth_field
from nonneg.evaluation.corruptions.pixels import as_floats, as_given
from nonneg.evaluation.corruptions.severity import at_severity, short_side
from nonneg.evaluation.corruptions.streams import Stream
from nonneg.pairs import Draws
from nonneg.pairs.rendering import check_images

# Std of the way at a point of the grid, as a share of the shorter side: shape has no pixels.
SHIFT = (0.012, 0.020, 0.029, 0.038, 0.048)
_N_POINTS = 6  # a side of the grid whose points are moved


def elastic(images: Tensor, *, severity: int, draws: Draws) -> Tensor:
    """Images stretched and squeezed: 6 x 6 points move at random, what is between moves along.

    Beyond its border an image goes on as it ends.

    Args:
        images: uint8, or floats in [0, 1], ``(n, c, h, w)`` with 1 or 3 channels.
        severity: 1 to 5.
        draws: Of these samples.
    """
    check_images(images, len(draws.indices))
    shift = at_severity(SHIFT, severity) * short_side(images)
    height, width = images.shape[2:]
    moves = draws.normal(2 * _N_POINTS**2, stream=Stream.ELASTIC)
    moves = smooth_field(moves.unflatten(1, (2, _N_POINTS, _N_POINTS)), (height, width))
    down, across = moves.mul_(shift).unbind(1)
    rows = torch.arange(height, device=images.device)[:, None] + down
    columns = torch.arange(width, device=images.device) + across
    # grid_sample counts from -1 at the left edge of the first pixel to 1 at the right of the last.
    grid = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], dim=3)
    moved = F.grid_sample(as_floats(images), grid, padding_mode="border", align_corners=False)
    return as_given(moved, images)
