"""What holds for each corruption and drawing, whatever it does."""

import itertools

import pytest
import torch

from nonneg.data import digits
from nonneg.evaluation.corruptions import CORRUPTIONS, DRAWINGS, N_SEVERITIES, sketch, stylised
from nonneg.pairs import Draws

NAMES = list(CORRUPTIONS)
ALL_NAMES = [*NAMES, *DRAWINGS]


def applied(name, images, *, severity=3, numbers=None, seed=0):
    draws = Draws(seed, 0, torch.arange(len(images)) if numbers is None else numbers)
    if name == "sketch":
        return sketch(images)
    if name == "stylised":
        return stylised(images, draws=draws)
    return CORRUPTIONS[name](images, severity=severity, draws=draws)


def scenes(n, channels, side):
    """A bright ring, a dark bar and a slope of light, in colours and places of their own."""
    generator = torch.Generator().manual_seed(7)
    place = (torch.arange(side) + 0.5) / side
    rows, columns = place[:, None], place[None]
    colours = 0.3 + 0.6 * torch.rand(n, 3, channels, 1, 1, generator=generator)
    images = []
    for (ring, bar, slope), (y, x) in zip(
        colours, 0.3 + 0.4 * torch.rand(n, 2, generator=generator), strict=True
    ):
        image = slope * (0.4 + 0.6 * rows) + 0 * columns
        distance = torch.hypot(rows - y, columns - x)
        image = torch.where((distance > 0.15) & (distance < 0.27), ring, image)
        images.append(torch.where((columns - x).abs() < 0.05, 0.3 * bar, image))
    return (torch.stack(images) * 255).round().to(torch.uint8)


def test_the_names_and_their_order():
    assert NAMES == [
        "gaussian_noise",
        "shot_noise",
        "impulse_noise",
        "defocus_blur",
        "motion_blur",
        "contrast",
        "brightness",
        "fog",
        "pixelate",
        "jpeg",
        "elastic",
    ]
    assert DRAWINGS == ("sketch", "stylised")
    with pytest.raises(TypeError):
        CORRUPTIONS["more"] = sketch


@pytest.mark.parametrize("side", [8, 32, 224])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_each_severity_damages_more_than_the_last(name, channels, side):
    images = scenes(2 if side == 224 else 64, channels, side)
    damage = [
        (applied(name, images, severity=severity).float() - images.float()).abs().mean()
        for severity in range(1, N_SEVERITIES + 1)
    ]
    assert damage[0] > 0
    assert all(more > less for less, more in itertools.pairwise(damage)), damage


@pytest.mark.parametrize("name", NAMES)
def test_a_person_can_still_see_the_content_at_severity_3(name):
    # A person is not at hand: the nearest clean image of a damaged one is its own, by the
    # correlation of their pixels.
    images = digits().fetch(torch.arange(100)) if name == "elastic" else scenes(60, 3, 32)
    damaged = applied(name, images).float().flatten(1)
    correlation = torch.corrcoef(torch.cat([damaged, images.float().flatten(1)]))
    found = correlation[: len(images), len(images) :].argmax(1)
    assert (found == torch.arange(len(images))).float().mean() >= 0.95


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ALL_NAMES)
def test_shape_type_and_range_are_kept_and_the_images_too(name, channels, dtype):
    images = scenes(5, channels, 20)[:, :, :, 3:]  # 20 x 17, not contiguous
    images = images if dtype == torch.uint8 else (images / 255).to(dtype)
    before = images.clone()
    damaged = applied(name, images, severity=5)
    assert (damaged.shape, damaged.dtype) == (images.shape, dtype)
    assert damaged.data_ptr() != images.data_ptr()
    assert torch.equal(images, before)
    if dtype != torch.uint8:
        assert float(damaged.min()) >= 0
        assert float(damaged.max()) <= 1


@pytest.mark.parametrize("name", ALL_NAMES)
def test_floats_and_bytes_come_to_the_same(name):
    images = scenes(4, 3, 32)
    as_bytes, as_floats = applied(name, images), applied(name, images / 255)
    # Within the rounding of bytes, but for a rare value that floats put on the other side.
    assert ((as_bytes - 255 * as_floats).abs() > 0.51).float().mean() < 1e-3


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize(("side", "channels"), [(8, 3), (28, 1), (28, 3), (69, 1)])
@pytest.mark.parametrize("name", ALL_NAMES)
def test_a_sample_does_not_depend_on_its_batch(name, side, channels, floats):
    images = scenes(12, channels, side)
    images = images / 255 if floats else images
    whole = applied(name, images)
    for numbers in ([5, 9], [9, 7, 5], [11]):
        some = torch.tensor(numbers)
        assert torch.equal(applied(name, images[some], numbers=some), whole[some])


RANDOM = ["gaussian_noise", "shot_noise", "impulse_noise", "motion_blur", "fog", "elastic"]


@pytest.mark.parametrize("name", ALL_NAMES)
def test_what_is_random_differs_by_sample_and_seed(name):
    images = scenes(1, 3, 32).repeat(2, 1, 1, 1)
    first, second = applied(name, images)
    other = applied(name, images, seed=1)[0]
    is_random = name in [*RANDOM, "stylised"]
    assert torch.equal(first, second) is not is_random
    assert torch.equal(first, other) is not is_random
    assert torch.equal(applied(name, images)[0], first)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_no_images_give_no_images(name):
    assert applied(name, torch.zeros(0, 3, 9, 8)).shape == (0, 3, 9, 8)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_global_random_state_is_left_alone(name):
    state = torch.get_rng_state()
    applied(name, scenes(1, 1, 8))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("severity", [0, 6, -1, 2.0, None])
@pytest.mark.parametrize("name", NAMES)
def test_a_severity_outside_1_to_5_is_named(name, severity):
    with pytest.raises(ValueError, match=f"whole number from 1 to 5, got {severity}"):
        applied(name, scenes(1, 1, 8), severity=severity)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_what_is_no_image_is_named(name):
    with pytest.raises(ValueError, match=r"with 1 or 3 channels, got \(2, 4, 8, 8\)"):
        applied(name, torch.zeros(2, 4, 8, 8))
    with pytest.raises(TypeError, match=r"uint8, or floats in \[0, 1\], got torch.int64"):
        applied(name, torch.zeros(2, 1, 8, 8, dtype=torch.int64))


@pytest.mark.parametrize("name", [*NAMES, "stylised"])
def test_draws_of_other_samples_are_named(name):
    with pytest.raises(ValueError, match="2 images came with the draws of 3 samples"):
        applied(name, torch.zeros(2, 1, 8, 8), numbers=torch.arange(3))
