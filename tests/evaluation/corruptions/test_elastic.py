import pytest
import torch

from nonneg.evaluation.corruptions import CORRUPTIONS
from nonneg.evaluation.corruptions.kinds import SHIFT
from nonneg.pairs import Draws

elastic = CORRUPTIONS["elastic"]


@pytest.mark.parametrize("side", [16, 32, 64])
@pytest.mark.parametrize("severity", [1, 5])
def test_points_move_by_the_stated_share_of_the_side(severity, side):
    # Two slopes show where each pixel came from: a value is a place, in units of the short side.
    n, height, width = 300, 2 * side, side
    rows, columns = ((torch.arange(size) + 0.5) / side for size in (height, width))
    slopes = torch.stack([rows[:, None].expand(height, width), columns.expand(height, width)]) / 2
    images = torch.cat([slopes, slopes[:1]]).expand(n, 3, height, width)
    came_from = elastic(images, severity=severity, draws=Draws(0, 0, torch.arange(n)))
    ways = 2 * (came_from[:, :2] - slopes)
    ways = ways[:, :, height // 4 : -height // 4, width // 4 : -width // 4]
    # Between the points of the grid the mean of several is taken, whose std is smaller.
    assert 0.6 < float(ways.std()) / SHIFT[severity - 1] < 1
    assert float(ways.mean().abs()) < 0.1 * SHIFT[severity - 1]
    down, across = ways.transpose(0, 1).flatten(1)
    assert abs(float(torch.corrcoef(torch.stack([down, across]))[0, 1])) < 0.1
    # Neighbours move together; if they did not, this ratio would be the root of 2.
    assert float(torch.diff(ways, dim=3).abs().mean()) < 0.7 * float(ways.abs().mean())


def test_a_constant_image_stays_as_it_is():
    images = torch.full((2, 3, 9, 11), 200, dtype=torch.uint8)
    assert torch.equal(elastic(images, severity=5, draws=Draws(0, 0, torch.arange(2))), images)


def test_no_value_is_made_up():
    images = torch.rand(20, 1, 12, 30) * 0.5 + 0.25
    moved = elastic(images, severity=5, draws=Draws(0, 0, torch.arange(20)))
    assert float(moved.min()) >= float(images.min()) - 1e-6
    assert float(moved.max()) <= float(images.max()) + 1e-6
