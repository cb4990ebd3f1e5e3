import pytest
import torch

from nonneg.evaluation.corruptions import sketch, stylised
from nonneg.pairs import Draws


def draws(n, seed=0):
    return Draws(seed, 0, torch.arange(n))


def squares(n=1, *, channels=3, side=32, inner=0.9, outer=0.2):
    images = torch.full((n, channels, side, side), outer)
    images[:, :, side // 4 : -side // 4, side // 4 : -side // 4] = inner
    return images


def near_outline(side):
    """Pixels up to two beside the border of the square."""
    place = torch.arange(side)
    inside = (place >= side // 4) & (place < side - side // 4)
    border = inside.int().diff().nonzero()[:, 0]
    close = (place[:, None] - border).sub(0.5).abs().min(1).values < 2
    covered = inside | close
    return (close[:, None] & covered) | (covered[:, None] & close)


@pytest.mark.parametrize("side", [16, 32, 64])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("inner", "outer"), [(0.9, 0.2), (0.2, 0.9), (0.5, 0.35)])
def test_a_sketch_is_dark_on_outlines_and_white_elsewhere(inner, outer, channels, side):
    drawn = sketch(squares(channels=channels, side=side, inner=inner, outer=outer))[0]
    outline = near_outline(side)
    assert torch.equal(drawn[:, ~outline], torch.ones(channels, int((~outline).sum())))
    middle = drawn[0, side // 2]
    assert float(middle[side // 4 - 1 : side // 4 + 1].max()) < 0.2
    assert torch.equal(drawn[0], drawn[-1])


@pytest.mark.parametrize("value", [0, 3, 128, 255])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_constant_image_gives_an_empty_sheet(channels, value):
    images = torch.full((2, channels, 8, 12), value, dtype=torch.uint8)
    assert torch.equal(sketch(images), torch.full_like(images, 255))


def test_a_sketch_does_not_know_how_strong_the_contrast_was_nor_its_sign():
    images = torch.rand(3, 1, 20, 20)
    for changed in (0.5 * images, 1 - images, 0.3 * images + 0.6):
        torch.testing.assert_close(sketch(changed), sketch(images), atol=1e-4, rtol=0)


def test_noise_of_one_step_of_a_byte_is_not_drawn_in_black():
    images = 100 + torch.randint(0, 2, (4, 1, 32, 32))
    assert sketch(images.to(torch.uint8)).min() > 100


def test_stylised_images_do_not_know_the_colour_of_what_they_show():
    fill = stylised(torch.zeros(5, 3, 16, 16), draws=draws(5))
    for colour in ((1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.2, 0.5, 0.7)):
        images = torch.tensor(colour)[:, None, None].expand(5, 3, 16, 16)
        assert torch.equal(stylised(images, draws=draws(5)), fill)


def test_stylised_images_do_not_know_brightness_or_contrast():
    images = torch.rand(4, 1, 16, 16)
    first = stylised(images, draws=draws(4))
    second = stylised(0.4 * images + 0.3, draws=draws(4))
    torch.testing.assert_close(first, second, atol=1e-3, rtol=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_outlines_remain(channels):
    images = squares(60, channels=channels)
    painted = stylised(images, draws=draws(60))
    middle, corner = painted[:, :, 10:22, 10:22], painted[:, :, :6, :6]
    # Two levels lie at least a fourth of the scale apart in lightness, and waves cancel out.
    weights = torch.tensor([0.299, 0.587, 0.114] if channels == 3 else [1.0])[:, None, None]
    gap = ((middle.mean((2, 3)) - corner.mean((2, 3))) * weights[:, 0, 0]).sum(1).abs()
    assert (gap > 0.1).float().mean() > 0.9


def test_lightness_is_shuffled():
    images = squares(400, channels=1)
    painted = stylised(images, draws=draws(400))
    middle, corner = painted[:, 0, 10:22, 10:22], painted[:, 0, :6, :6]
    brighter = (middle.mean((1, 2)) > corner.mean((1, 2))).float().mean()
    assert abs(brighter - 0.5) < 5 * 0.5 / 20


def test_textures_are_new_for_each_sample_and_seed():
    images = torch.zeros(50, 3, 16, 16)
    fill = stylised(images, draws=draws(50)).flatten(1)
    assert (torch.pdist(fill) > 0.5).all()
    other = stylised(images, draws=draws(50, seed=1)).flatten(1)
    assert ((fill - other).square().sum(1).sqrt() > 0.5).all()
    # Each has a texture, not only a colour; where one channel is at its end, others are not.
    assert (fill.view(50, 3, -1).std(2).amax(1) > 0.02).all()


@pytest.mark.parametrize("size", [(8, 8), (32, 20), (224, 224)])
def test_grey_images_stay_grey_and_sizes_stay(size):
    painted = stylised(torch.rand(2, 1, *size), draws=draws(2))
    assert painted.shape == (2, 1, *size)
    assert torch.isfinite(painted).all()
