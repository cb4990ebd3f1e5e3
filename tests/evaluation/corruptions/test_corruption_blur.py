import math

import pytest
import torch

from nonneg.evaluation.corruptions.kinds import (
    RADIUS,
    TRAVEL,
    defocus_blur,
    disk,
    lines,
    motion_blur,
)
from nonneg.pairs import Draws

IMAGES = torch.rand(3, 3, 12, 17, generator=torch.Generator().manual_seed(0))
DRAWS = Draws(0, 0, torch.arange(3))


def slowly_blurred(image, kernel):
    """One plane by loops; beyond the border its nearest pixel counts."""
    height, width, reach = *image.shape, len(kernel) // 2
    out = torch.zeros(height, width)
    for y in range(height):
        for x in range(width):
            for i in range(-reach, reach + 1):
                for j in range(-reach, reach + 1):
                    near = image[min(max(y + i, 0), height - 1), min(max(x + j, 0), width - 1)]
                    out[y, x] += kernel[reach + i, reach + j] * near
    return out


@pytest.mark.parametrize("severity", [1, 5])
def test_defocus_is_the_mean_over_a_disk(severity):
    blurred = defocus_blur(IMAGES, severity=severity, draws=DRAWS)
    kernel = disk(0.5 + RADIUS[severity - 1] * 12)
    expected = slowly_blurred(IMAGES[1, 2], kernel)
    torch.testing.assert_close(blurred[1, 2], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("severity", [1, 5])
def test_motion_is_the_mean_along_a_line_of_each_image(severity):
    blurred = motion_blur(IMAGES, severity=severity, draws=DRAWS)
    angles = math.pi * DRAWS.uniform(1, stream=104)[:, 0]
    kernels = lines(angles, TRAVEL[severity - 1] * 12)
    for row in (0, 2):
        expected = slowly_blurred(IMAGES[row, 1], kernels[row])
        torch.testing.assert_close(blurred[row, 1], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("radius", [0.5, 0.6, 1.0, 1.9, 3.3, 10.4])
def test_a_disk_is_round_even_and_of_its_size(radius):
    kernel = disk(radius)
    torch.testing.assert_close(kernel.sum(), torch.tensor(1.0))
    assert torch.equal(kernel, kernel.T)
    assert torch.equal(kernel, kernel.flip(0))
    # Full weights times their number is the area, π r² up to the pixels of the rim.
    area = 1 / float(kernel.max())
    assert abs(area - math.pi * radius**2) < 0.2 * math.pi * radius + 0.3
    reach = len(kernel) // 2
    steps = torch.arange(-reach, reach + 1)
    outside = torch.hypot(steps[:, None].float(), steps.float()) >= radius + 0.5
    assert float(kernel[outside].sum()) == 0


def test_lines_are_symmetric_and_point_where_they_should():
    angles = torch.linspace(0, math.pi, 13)
    kernels = lines(angles, 9.0)
    torch.testing.assert_close(kernels.sum((1, 2)), torch.ones(13))
    torch.testing.assert_close(kernels, kernels.flip(1, 2))
    steps = torch.arange(-5, 6).float()
    for angle, kernel in zip(angles.tolist(), kernels, strict=True):
        moments = [
            float((kernel * a * b).sum())
            for a, b in ((steps[:, None] ** 2, 1), (steps**2, 1), (steps[:, None], steps))
        ]
        # The second moments of a line of length 9, of whose points the ends count as much as
        # the others, and of a tent, at most 1/4 in each direction.
        spread = sum((9 * k / 20) ** 2 for k in range(-10, 11)) / 21
        assert abs(moments[0] - spread * math.sin(angle) ** 2) < 0.26
        assert abs(moments[1] - spread * math.cos(angle) ** 2) < 0.26
        assert abs(moments[2] - spread * math.sin(angle) * math.cos(angle)) < 1e-4


def test_a_line_of_no_length_is_a_point():
    assert torch.equal(lines(torch.tensor([0.3]), 0.0), torch.ones(1, 1, 1))


@pytest.mark.parametrize("blur", [defocus_blur, motion_blur])
@pytest.mark.parametrize("side", [8, 32, 224])
def test_a_constant_image_is_not_changed(blur, side):
    images = torch.full((2, 1, side, side), 77, dtype=torch.uint8)
    draws = Draws(0, 0, torch.arange(2))
    assert torch.equal(blur(images, severity=5, draws=draws), images)
    blurred = blur(images / 255, severity=5, draws=draws)
    torch.testing.assert_close(blurred, images / 255, atol=1e-5, rtol=0)


@pytest.mark.parametrize("side", range(8, 72, 3))
@pytest.mark.parametrize("blur", [defocus_blur, motion_blur])
def test_rounding_does_not_depend_on_the_batch(blur, side):
    images = torch.rand(23, 1, side, side, generator=torch.Generator().manual_seed(side))
    whole = blur(images, severity=5, draws=Draws(0, 0, torch.arange(23)))
    for numbers in (torch.tensor([1, 4]), torch.tensor([5, 2, 0]), torch.arange(1, 23)):
        found = blur(images[numbers], severity=5, draws=Draws(0, 0, numbers))
        assert torch.equal(found, whole[numbers])


def test_motion_goes_in_all_directions():
    # A point moves along the rows as often as along the columns, up as often as down.
    images = torch.zeros(4000, 1, 9, 9)
    images[:, :, 4, 4] = 1
    moved = motion_blur(images, severity=5, draws=Draws(0, 0, torch.arange(4000))).mean(0)[0]
    torch.testing.assert_close(moved, moved.T, atol=0.01, rtol=0)
    torch.testing.assert_close(moved, moved.flip(0), atol=0.01, rtol=0)
