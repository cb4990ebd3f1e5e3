import pytest
import torch

from nonneg.evaluation.corruptions.kinds import (
    BRIGHTNESS,
    CONTRAST,
    FOG,
    brightness,
    contrast,
    fog,
)
from nonneg.pairs import Draws

IMAGES = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
DRAWS = Draws(0, 0, torch.arange(4))


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_contrast_keeps_the_mean_and_shrinks_the_rest(severity):
    flat = contrast(IMAGES, severity=severity, draws=DRAWS)
    torch.testing.assert_close(flat.mean((2, 3)), IMAGES.mean((2, 3)))
    ratio = flat.std((2, 3)) / IMAGES.std((2, 3))
    torch.testing.assert_close(ratio, torch.full((4, 3), CONTRAST[severity - 1]))


@pytest.mark.parametrize("value", [0, 1, 77, 255])
def test_contrast_leaves_a_constant_image_as_it_is(value):
    images = torch.full((1, 3, 9, 9), value, dtype=torch.uint8)
    draws = Draws(0, 0, torch.arange(1))
    assert torch.equal(contrast(images, severity=5, draws=draws), images)


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_brightness_adds_and_stops_at_white(severity):
    added = BRIGHTNESS[severity - 1]
    bright = brightness(IMAGES, severity=severity, draws=DRAWS)
    assert torch.equal(bright, (IMAGES + added).clamp(max=1))
    images = torch.tensor([0, 100, 250], dtype=torch.uint8).view(3, 1, 1, 1)
    expected = [round(255 * added), round(100 + 255 * added), 255]
    found = brightness(images, severity=severity, draws=Draws(0, 0, torch.arange(3)))
    assert found.flatten().tolist() == expected


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("side", [8, 32, 224])
def test_fog_on_black_is_its_density_and_leaves_white(severity, side):
    density = fog(
        torch.zeros(2, 3, side, side), severity=severity, draws=Draws(0, 0, DRAWS.indices[:2])
    )
    for image in density:
        torch.testing.assert_close(float(image.max()), FOG[severity - 1], atol=1e-5, rtol=0)
        torch.testing.assert_close(float(image.min()), 0.4 * FOG[severity - 1], atol=1e-5, rtol=0)
        assert torch.equal(image[0], image[2])
    white = torch.ones(2, 1, side, side)
    assert torch.equal(fog(white, severity=5, draws=Draws(0, 0, DRAWS.indices[:2])), white)


def test_fog_keeps_the_light_that_it_does_not_cover():
    density = fog(torch.zeros_like(IMAGES), severity=4, draws=DRAWS)
    foggy = fog(IMAGES, severity=4, draws=DRAWS)
    torch.testing.assert_close(foggy, (1 - density) * IMAGES + density)
