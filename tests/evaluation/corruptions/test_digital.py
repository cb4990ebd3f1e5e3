import io
import math

import numpy as np
import pytest
import torch
from PIL import Image

from nonneg.evaluation.corruptions.kinds import BLOCK_EXCESS, jpeg, jpeg_quality, pixelate
from nonneg.pairs import Draws

BYTES = torch.randint(
    0, 256, (3, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
DRAWS = Draws(0, 0, torch.arange(3))


def test_an_image_in_blocks_already_stays_as_it_is():
    blocky = BYTES[:, :, :16, :16].repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert torch.equal(pixelate(blocky, severity=4, draws=DRAWS), blocky)
    assert not torch.equal(pixelate(BYTES, severity=4, draws=DRAWS), BYTES)


def test_a_block_is_the_mean_of_its_pixels():
    found = pixelate(BYTES / 255, severity=4, draws=DRAWS)
    for y in range(0, 32, 2):
        for x in range(0, 32, 2):
            part = found[1, 2, y : y + 2, x : x + 2]
            mean = float(BYTES[1, 2, y : y + 2, x : x + 2].float().mean()) / 255
            assert part.flatten().tolist() == pytest.approx([mean] * 4, abs=1e-6)


@pytest.mark.parametrize("side", [8, 28, 32, 224])
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_there_are_as_many_blocks_as_fit(severity, side):
    slope = torch.linspace(0, 1, side).expand(1, 1, side, side)
    found = pixelate(slope, severity=severity, draws=Draws(0, 0, torch.arange(1)))
    block = 1 + BLOCK_EXCESS[severity - 1] * math.sqrt(max(1, side / 32))
    assert len(found[0, 0, 0].unique()) == round(side / block)


@pytest.mark.parametrize("side", [1, 2, 5])
def test_a_tiny_image_is_at_least_one_block(side):
    images = torch.rand(1, 1, side, side)
    found = pixelate(images, severity=5, draws=Draws(0, 0, torch.arange(1)))
    assert found.shape == images.shape


@pytest.mark.parametrize(("severity", "quality"), [(1, 75), (3, 42), (5, 19)])
@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_that_of_pillow(channels, severity, quality):
    found = jpeg(BYTES[:, :channels], severity=severity, draws=DRAWS)
    for image, expected in zip(found, BYTES, strict=True):
        values = expected[:channels].permute(1, 2, 0).numpy()
        buffer = io.BytesIO()
        Image.fromarray(values[..., 0] if channels == 1 else values).save(
            buffer, "JPEG", quality=quality
        )
        decoded = np.asarray(Image.open(buffer))
        decoded = decoded[None] if channels == 1 else decoded.transpose(2, 0, 1)
        assert np.array_equal(image.numpy(), decoded)


def test_jpeg_keeps_a_grey_that_it_can_code():
    # 128 is the zero of the code: nothing is left to round.
    grey = torch.full((3, 1, 19, 13), 128, dtype=torch.uint8)
    assert torch.equal(jpeg(grey, severity=5, draws=DRAWS), grey)


def test_larger_images_are_coded_more_coarsely():
    assert [jpeg_quality(2.7 * scale) for scale in (1, math.sqrt(7))] == [19, 7]


@pytest.mark.parametrize("quality", range(10, 100, 10))
def test_the_quality_is_the_one_whose_steps_are_that_coarse(quality):
    # By Pillow's own tables: the step of the mean, 16 at quality 50.
    buffer = io.BytesIO()
    Image.new("L", (8, 8)).save(buffer, "JPEG", quality=quality)
    step = Image.open(buffer).quantization[0][0]
    assert abs(jpeg_quality(step / 16) - quality) <= 2


def test_coarseness_beyond_the_code_is_quality_1():
    assert jpeg_quality(1000.0) == 1
