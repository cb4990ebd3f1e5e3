from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg.pairs import RECIPES, Batch, Draws, ImageViews, ViewSettings, recipe

N = 512


def images_of(channels, size, n=N):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, channels, size, size), dtype=torch.uint8, generator=generator)


def batch_of(images, numbers=None, *, seed=0, epoch=0):
    numbers = torch.arange(len(images)) if numbers is None else numbers
    return Batch(images[numbers], numbers, Draws(seed, epoch, numbers), images.__getitem__)


def views(images, changes, size=None):
    return ImageViews(ViewSettings(**changes), size)(batch_of(images))


COLOUR = images_of(3, 32)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(("channels", "size"), [(1, 8), (1, 28), (3, 32)])
def test_views_are_float_images_in_range(name, channels, size):
    for view in ImageViews(recipe(name))(batch_of(images_of(channels, size, 20))):
        assert view.shape == (20, channels, size, size)
        assert view.dtype == torch.float32
        assert view.is_contiguous()
        assert view.min() >= 0
        assert view.max() <= 1


def test_no_settings_return_the_image():
    images = images_of(3, 32, 8)
    for view in views(images, {}):
        assert torch.equal(view, images.float() / 255)


def test_no_settings_return_an_image_that_is_no_square():
    images = torch.rand(3, 1, 6, 11)
    for view in views(images, {}):
        assert torch.equal(view, images)


def test_size_resizes_whole_images_without_stretching_what_is_left():
    # Twice as wide as high: a square view takes half of it, unscaled.
    column = torch.arange(16.0).expand(4, 1, 8, 16) / 16
    for view in views(column, {}, size=8):
        torch.testing.assert_close(view[..., 1:] - view[..., :-1], torch.full((4, 1, 8, 7), 1 / 16))


def test_flip_mirrors():
    images = images_of(3, 16, 8)
    for view in views(images, {"flip_rate": 1}):
        assert torch.equal(view, images.flip(3).float() / 255)


def test_grey_makes_channels_equal():
    for view in views(COLOUR[:8], {"grey_rate": 1}):
        expected = torch.einsum(
            "nchw,c->nhw", COLOUR[:8].float() / 255, torch.tensor([0.299, 0.587, 0.114])
        )
        for channel in range(3):
            torch.testing.assert_close(view[:, channel], expected)


def test_solarise_inverts_what_is_bright():
    image = torch.tensor([0.1, 0.6, 0.7, 0.9]).view(1, 1, 2, 2)
    for view in views(image, {"solarise_rate": 1, "solarise_threshold": 0.65}):
        torch.testing.assert_close(view.flatten(), torch.tensor([0.1, 0.6, 0.3, 0.1]))


def test_constant_image_stays_constant_under_crop_flip_and_blur():
    images = torch.full((50, 3, 20, 20), 0.3)
    changes = {"crop_scale": (0.05, 1), "flip_rate": 0.5, "blur_rate": 1, "blur_sigma": (0.1, 5)}
    for view in views(images, changes, size=13):
        torch.testing.assert_close(view, torch.full((50, 3, 13, 13), 0.3), rtol=0, atol=1e-6)


def test_contrast_and_saturation_keep_a_constant_grey():
    images = torch.full((50, 3, 8, 8), 0.3)
    changes = {"jitter_rate": 1, "contrast": 0.9, "saturation": 0.9, "hue": 0.5}
    for view in views(images, changes):
        torch.testing.assert_close(view, images)


def test_brightness_scales_and_contrast_pulls_to_the_mean():
    images = torch.tensor([0.2, 0.4]).view(1, 1, 1, 2).expand(50, 1, 1, 2)
    for view in views(images, {"jitter_rate": 1, "brightness": 0.9}):
        torch.testing.assert_close(view[..., 1], 2 * view[..., 0])
        assert view.std() > 0.1
    for view in views(images, {"jitter_rate": 1, "contrast": 0.9}):
        torch.testing.assert_close(view.mean((1, 2, 3)), torch.full((50,), 0.3))
        assert view[..., 1].min() < 0.35
        assert view[..., 1].max() > 0.45


def test_crop_shows_a_part_of_the_image():
    # A ramp from 0 to 1: the range of the view is the width of the crop.
    ramp = ((torch.arange(64.0) + 0.5) / 64).expand(100, 1, 64, 64)
    for view in views(ramp, {"crop_scale": (0.25, 0.25)}):
        step = (view[..., 1:] - view[..., :-1])[..., 2:-2]
        torch.testing.assert_close(step, torch.full_like(step, 0.5 / 64), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "channels", "size"), [("colour", 3, 32), ("grey", 1, 28)])
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_views_do_not_depend_on_the_batch_to_the_last_bit(name, channels, size, n):
    images = images_of(channels, size)
    pairs = ImageViews(recipe(name, solarise_rate=0.2))
    whole = pairs(batch_of(images))
    numbers = torch.randperm(N, generator=torch.Generator().manual_seed(n))[:n]
    for view, expected in zip(pairs(batch_of(images, numbers)), whole, strict=True):
        assert torch.equal(view, expected[numbers])


def test_views_of_large_images_do_not_depend_on_the_batch_to_the_last_bit():
    images = images_of(3, 224, 3)
    pairs = ImageViews(recipe("colour"))
    whole = pairs(batch_of(images))
    for view, expected in zip(pairs(batch_of(images, torch.tensor([2]))), whole, strict=True):
        assert torch.equal(view, expected[[2]])


def test_one_thread_gives_the_same_views():
    pairs, n_threads = ImageViews(recipe("colour")), torch.get_num_threads()
    many = pairs(batch_of(COLOUR))
    try:
        torch.set_num_threads(1)
        one = pairs(batch_of(COLOUR))
    finally:
        torch.set_num_threads(n_threads)
    assert all(torch.equal(a, b) for a, b in zip(many, one, strict=True))


def test_views_are_not_overwritten_by_later_calls():
    pairs = ImageViews(recipe("colour"))
    first = pairs(batch_of(COLOUR[:50]))
    kept = [view.clone() for view in first]
    pairs(batch_of(COLOUR[50:200], epoch=1))
    assert all(torch.equal(a, b) for a, b in zip(first, kept, strict=True))


def test_threads_do_not_disturb_each_other():
    pairs = ImageViews(recipe("colour"))

    def both(epoch):
        return torch.cat(pairs(batch_of(COLOUR[:100], epoch=epoch)))

    expected = [both(epoch) for epoch in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(both, range(8)))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_views_carry_no_gradient_and_can_be_made_in_inference_mode():
    pairs = ImageViews(recipe("colour"))
    images = (COLOUR[:3].float() / 255).requires_grad_()
    numbers = torch.arange(3)
    batch = Batch(images, numbers, Draws(0, 0, numbers), images.__getitem__)
    expected = pairs(batch)
    assert not expected[0].requires_grad
    with torch.inference_mode():
        inside = pairs(batch)
    assert torch.equal(inside[0], expected[0])
    assert torch.equal(pairs(batch)[1], expected[1])


def test_views_differ_between_epochs_seeds_samples_and_each_other():
    same = COLOUR[:1].expand(4, -1, -1, -1)
    pairs = ImageViews(recipe("colour"))
    first, second = pairs(batch_of(same))
    later, _ = pairs(batch_of(same, epoch=1))
    other, _ = pairs(batch_of(same, seed=1))
    seen = [*first, *second, *later, *other]
    for i, view in enumerate(seen):
        assert not any(torch.equal(view, earlier) for earlier in seen[:i])


def test_the_same_batch_gives_the_same_views_and_torch_draws_nothing():
    pairs = ImageViews(recipe("colour"))
    state = torch.get_rng_state()
    first = pairs(batch_of(COLOUR[:9]))
    torch.manual_seed(99)
    second = pairs(batch_of(COLOUR[:9]))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    torch.set_rng_state(state)
    pairs(batch_of(COLOUR[:9]))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("images", [COLOUR[:6], COLOUR[:6].float() / 255], ids=["uint8", "float"])
def test_inputs_are_not_changed(images):
    before = images.clone()
    batch = Batch(images, torch.arange(6), Draws(0, 0, torch.arange(6)), images.__getitem__)
    ImageViews(recipe("colour", solarise_rate=0.5))(batch)
    ImageViews(ViewSettings())(batch)
    assert torch.equal(images, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bytes_and_floats_agree(dtype):
    pairs = ImageViews(recipe("colour"))
    floats = COLOUR[:20].to(dtype) / 255
    for one, two in zip(pairs(batch_of(COLOUR[:20])), pairs(batch_of(floats)), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-6)


def test_inputs_need_not_be_contiguous():
    pairs = ImageViews(recipe("colour"))
    turned = COLOUR[:5].transpose(2, 3)
    expected = pairs(batch_of(turned.contiguous()))
    numbers = torch.arange(5)
    found = pairs(Batch(turned, numbers, Draws(0, 0, numbers), turned.__getitem__))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_no_images_give_no_views():
    view_a, view_b = ImageViews(recipe("colour"), 8)(batch_of(COLOUR[:0]))
    assert view_a.shape == view_b.shape == (0, 3, 8, 8)


@settings(deadline=None, max_examples=30)
@given(
    channels=st.sampled_from([1, 3]),
    height=st.integers(1, 20),
    width=st.integers(1, 20),
    size=st.integers(1, 20),
    name=st.sampled_from(list(RECIPES)),
)
def test_any_size_gives_finite_views_in_range(channels, height, width, size, name):
    images = torch.rand(5, channels, height, width, generator=torch.Generator().manual_seed(0))
    for view in ImageViews(recipe(name), size)(batch_of(images)):
        assert view.shape == (5, channels, size, size)
        assert ((view >= 0) & (view <= 1)).all()


def test_wrong_inputs_are_named():
    with pytest.raises(ValueError, match=r"1 or 3 channels, got \(4, 2, 8, 8\)"):
        ImageViews(ViewSettings())(batch_of(torch.zeros(4, 2, 8, 8)))
    with pytest.raises(ValueError, match="the size of a view must be at least 1, got 0"):
        ImageViews(ViewSettings(), size=0)


def test_equal_settings_are_equal_pairs_with_a_stable_name():
    assert ImageViews(recipe("grey")) == ImageViews(recipe("grey"))
    assert repr(ImageViews(ViewSettings(), 8)).startswith("ImageViews(settings=ViewSettings(")
