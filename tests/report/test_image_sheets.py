import io

import numpy as np
import pytest
from PIL import Image

from nonneg.report.samples import image_sheets, small_images


def opened(sheet):
    return np.asarray(Image.open(io.BytesIO(sheet.content)))


def test_small_grey_images_come_back_exactly_from_any_sheet():
    images = np.random.default_rng(0).integers(0, 256, size=(7000, 28, 28), dtype=np.uint8)
    numbers = np.arange(0, 7000)[::-1]
    found = image_sheets(images, numbers)
    assert len(found.sheets) == 2
    assert {sheet.media_type for sheet in found.sheets} == {"image/png"}
    pixels = [opened(sheet) for sheet in found.sheets]
    for position in (0, 1, found.a_row, found.a_sheet - 1, found.a_sheet, 6999):
        sheet, place = divmod(position, found.a_sheet)
        top, left = place // found.a_row * 28, place % found.a_row * 28
        np.testing.assert_array_equal(
            pixels[sheet][top : top + 28, left : left + 28], images[numbers[position]]
        )


def test_colour_images_are_webp_and_near():
    ramp = np.linspace(0, 255, 32).astype(np.uint8)
    images = np.broadcast_to(ramp, (5, 3, 32, 32)).copy()
    images[:, 0] //= 2
    found = image_sheets(images, np.arange(5))
    assert found.sheets[0].media_type == "image/webp"
    sheet = opened(found.sheets[0]).astype(int)
    assert sheet.shape == (32, 160, 3)
    assert np.abs(sheet[:, 32:64] - np.moveaxis(images[1], 0, -1)).mean() < 4


def test_large_images_are_fetched_by_number_and_shrunk():
    asked = []

    def fetch(numbers):
        asked.append(len(numbers))
        return np.stack([np.full((3, 224, 112), n, np.uint8) for n in numbers])

    found = image_sheets(fetch, np.array([9, 200]))
    assert (found.height, found.width) == (128, 64)
    sheet = opened(found.sheets[0])
    assert sheet[:, :64].mean() == pytest.approx(9, abs=2)
    assert sheet[:, 64:].mean() == pytest.approx(200, abs=2)
    assert max(asked) <= 256


@pytest.mark.parametrize("shape", [(2, 8, 8), (2, 1, 8, 8), (2, 8, 8, 1)])
def test_layouts_of_grey_images(shape):
    images = np.arange(128, dtype=np.uint8).reshape(shape)
    np.testing.assert_array_equal(small_images(images, 64)[..., 0], np.arange(128).reshape(2, 8, 8))


def test_other_pixels_are_refused():
    with pytest.raises(TypeError, match="images have type float32; give bytes"):
        small_images(np.zeros((2, 8, 8), np.float32), 64)
    with pytest.raises(ValueError, match=r"each image has shape \(2, 8, 8\)"):
        small_images(np.zeros((2, 2, 8, 8), np.uint8), 64)
