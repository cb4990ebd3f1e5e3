"""The batched renderer against one that walks over images, pixels and neighbours."""

import math

import pytest
import torch

from nonneg.pairs import Draws, ViewSettings, recipe, rendering
from nonneg.pairs.rendering import check_images, rendered
from nonneg.pairs.view_settings import drawn_plan

EVERYTHING = ViewSettings(
    crop_scale=(0.1, 1),
    crop_ratio=(0.5, 2),
    flip_rate=0.5,
    jitter_rate=0.7,
    brightness=0.5,
    contrast=1.2,
    saturation=0.9,
    hue=0.5,
    grey_rate=0.3,
    blur_rate=0.6,
    blur_sigma=(0.2, 1.7),
    solarise_rate=0.4,
    solarise_threshold=0.55,
)


def luminance(pixel):
    if len(pixel) == 1:
        return pixel[0]
    return 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]


def sampled(image, box, height, width):
    """Crop and resize by summing over every input pixel under a triangle; rows of pixels."""
    n_rows, n_columns = len(image), len(image[0])
    top, left = box[0] * n_rows, box[1] * n_columns
    step_y, step_x = box[2] * n_rows / height, box[3] * n_columns / width
    result = []
    for i in range(height):
        line = []
        for j in range(width):
            y, x = top + (i + 0.5) * step_y, left + (j + 0.5) * step_x
            total, pixel = 0.0, [0.0] * len(image[0][0])
            for r in range(n_rows):
                for s in range(n_columns):
                    near_y = max(0.0, 1 - abs(r + 0.5 - y) / max(1.0, step_y))
                    near_x = max(0.0, 1 - abs(s + 0.5 - x) / max(1.0, step_x))
                    total += near_y * near_x
                    pixel = [
                        p + near_y * near_x * q for p, q in zip(pixel, image[r][s], strict=True)
                    ]
            line.append([p / total for p in pixel])
        result.append(line)
    return result


def blurred(image, sigma):
    result = []
    for i in range(len(image)):
        line = []
        for j in range(len(image[0])):
            total, pixel = 0.0, [0.0] * len(image[0][0])
            for r in range(len(image)):
                for s in range(len(image[0])):
                    weight = math.exp(-((r - i) ** 2 + (s - j) ** 2) / (2 * sigma**2))
                    total += weight
                    pixel = [p + weight * q for p, q in zip(pixel, image[r][s], strict=True)]
            line.append([p / total for p in pixel])
        result.append(line)
    return result


def turned(pixel, share):
    """The chroma, in an orthonormal basis across the grey axis, turned; the luminance restored."""
    angle = 2 * math.pi * share
    first = (2 * pixel[0] - pixel[1] - pixel[2]) / math.sqrt(6)
    second = (pixel[1] - pixel[2]) / math.sqrt(2)
    u = first * math.cos(angle) - second * math.sin(angle)
    v = first * math.sin(angle) + second * math.cos(angle)
    moved = [
        2 * u / math.sqrt(6),
        -u / math.sqrt(6) + v / math.sqrt(2),
        -u / math.sqrt(6) - v / math.sqrt(2),
    ]
    lift = luminance(pixel) - luminance(moved)
    return [value + lift for value in moved]


def recoloured(image, brightness, contrast, saturation, hue):
    image = [[[brightness * v for v in pixel] for pixel in line] for line in image]
    greys = [luminance(pixel) for line in image for pixel in line]
    mean = sum(greys) / len(greys)
    result = []
    for line in image:
        new_line = []
        for pixel in line:
            pixel = [mean + contrast * (v - mean) for v in pixel]
            if len(pixel) == 3:
                grey = luminance(pixel)
                pixel = [grey + saturation * (v - grey) for v in pixel]
                pixel = turned(pixel, hue)
            new_line.append([min(1.0, max(0.0, v)) for v in pixel])
        result.append(new_line)
    return result


def slow_view(image, plan, row, height, width):
    """One view ``(c, height, width)`` before solarising, of one image ``(c, h, w)``."""
    pixels = image.permute(1, 2, 0).tolist()
    view = sampled(pixels, plan.boxes[row].tolist(), height, width)
    if plan.mirrored[row]:
        view = [line[::-1] for line in view]
    if plan.sigma[row] > 0:
        view = blurred(view, plan.sigma[row].item())
    view = recoloured(
        view,
        plan.brightness[row].item(),
        plan.contrast[row].item(),
        plan.saturation[row].item(),
        plan.hue[row].item(),
    )
    return torch.tensor(view, dtype=torch.float64).permute(2, 0, 1)


@pytest.mark.parametrize(
    ("channels", "size_in", "size_out"),
    [
        (3, (9, 7), (6, 6)),
        (3, (5, 5), (8, 8)),
        (1, (8, 8), (8, 8)),
        (1, (12, 6), (5, 9)),
        (3, (4, 11), (7, 5)),
    ],
)
def test_views_equal_those_of_loops(channels, size_in, size_out):
    images = torch.rand(12, channels, *size_in, generator=torch.Generator().manual_seed(1))
    plan = drawn_plan(EVERYTHING, Draws(5, 0, torch.arange(12)), streams=[1])
    found = rendered(images, plan, EVERYTHING, size_out)
    assert plan.mirrored.any()
    assert (plan.sigma > 0).any()
    assert plan.solarised.any()
    for row in range(12):
        expected = slow_view(images[row], plan, row, *size_out)
        near = (expected - 0.55).abs() < 1e-4
        if plan.solarised[row]:
            expected = torch.where(expected >= 0.55, 1 - expected, expected)
        # Values at the threshold itself may fall to either side.
        error = (found[row] - expected).abs().masked_fill(near, 0)
        assert error.max() < 1e-5


def test_result_does_not_depend_on_how_the_batch_is_cut(monkeypatch):
    images = torch.rand(50, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    plan = drawn_plan(EVERYTHING, Draws(0, 0, torch.arange(50)), streams=[1])
    whole = rendered(images, plan, EVERYTHING, (16, 16))
    monkeypatch.setitem(rendering._MOST_FLOATS, "cpu", 3 * 16 * 16 * 7)
    assert torch.equal(rendered(images, plan, EVERYTHING, (16, 16)), whole)
    monkeypatch.setitem(rendering._MOST_FLOATS, "cpu", 1)
    assert torch.equal(rendered(images, plan, EVERYTHING, (16, 16)), whole)


def test_autocast_does_not_blunt_views():
    images = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    plan = drawn_plan(recipe("colour"), Draws(0, 0, torch.arange(4)), streams=[1])
    expected = rendered(images, plan, recipe("colour"), (8, 8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = rendered(images, plan, recipe("colour"), (8, 8))
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        (
            torch.zeros(4, 32, 32),
            ValueError,
            r"images must have shape \(n, c, h, w\) with 1 or 3 channels, got \(4, 32, 32\)",
        ),
        (torch.zeros(4, 4, 8, 8), ValueError, r"1 or 3 channels, got \(4, 4, 8, 8\)"),
        (torch.zeros(4, 8, 8, 3), ValueError, r"1 or 3 channels, got \(4, 8, 8, 3\)"),
        (
            torch.zeros(4, 3, 8, 8, dtype=torch.int64),
            TypeError,
            r"images must be uint8, or floats in \[0, 1\], got torch.int64",
        ),
        (torch.zeros(3, 1, 8, 8), ValueError, "3 images came with the draws of 4 samples"),
    ],
)
def test_wrong_images_are_named(images, error, message):
    with pytest.raises(error, match=message):
        check_images(images, 4)
