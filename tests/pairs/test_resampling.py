import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nonneg.pairs.rendering import blur_weights, crop_centres, crop_weights


def weights(start, length, n_in, n_out):
    centres = crop_centres(torch.tensor([start]), torch.tensor([length]), n_out)
    return crop_weights(centres, torch.tensor([abs(length) / n_out]), n_in)[0]


def test_whole_crop_of_the_same_size_is_the_identity():
    assert torch.equal(weights(0.0, 7.0, 7, 7), torch.eye(7))


def test_negative_length_mirrors():
    assert torch.equal(weights(7.0, -7.0, 7, 7), torch.eye(7).flip(0))
    forwards, backwards = weights(1.5, 4.0, 9, 6), weights(5.5, -4.0, 9, 6)
    torch.testing.assert_close(backwards, forwards.flip(0))


def test_half_a_pixel_further_is_the_mean_of_two():
    expected = torch.tensor([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0]])
    assert torch.equal(weights(0.5, 2.0, 4, 2), expected)


@settings(deadline=None, max_examples=100)
@given(
    n_in=st.integers(1, 40),
    n_out=st.integers(1, 40),
    start=st.floats(0, 1),
    share=st.floats(0.01, 1),
    seed=st.integers(0, 2**31),
)
def test_weights_are_those_of_pillow(n_in, n_out, start, share, seed):
    length = max(share * n_in, 0.05)
    begin = start * (n_in - length)
    row = np.random.default_rng(seed).random(n_in).astype(np.float32)
    image = Image.fromarray(row[None])
    box = (begin, 0, min(begin + length, n_in), 1)
    expected = np.asarray(image.resize((n_out, 1), Image.Resampling.BILINEAR, box))[0]
    ours = weights(begin, length, n_in, n_out) @ torch.from_numpy(row)
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize(("n_in", "n_out"), [(32, 32), (8, 20), (50, 11)])
def test_rows_are_shares(n_in, n_out):
    start = torch.rand(20, generator=torch.Generator().manual_seed(0)) * n_in / 2
    length = torch.linspace(0.05, 0.5, 20) * n_in
    found = crop_weights(crop_centres(start, length, n_out), length / n_out, n_in)
    assert found.shape == (20, n_out, n_in)
    assert found.min() >= 0
    torch.testing.assert_close(found.sum(2), torch.ones(20, n_out))


def test_blur_weights_are_a_normalised_gaussian():
    found = blur_weights(torch.tensor([0.8, 2.5]), 6)
    for image, sigma in enumerate((0.8, 2.5)):
        for i in range(6):
            row = [math.exp(-((i - j) ** 2) / (2 * sigma**2)) for j in range(6)]
            expected = torch.tensor(row) / sum(row)
            torch.testing.assert_close(found[image, i], expected, rtol=0, atol=1e-6)


def test_hardly_any_blur_is_the_identity():
    found = blur_weights(torch.tensor([0.1, 1e-30]), 5)
    assert torch.equal(found, torch.eye(5).expand(2, 5, 5))


def test_blur_keeps_the_mean_of_what_is_far_from_the_border():
    signal = torch.zeros(64)
    signal[28:36] = torch.rand(8, generator=torch.Generator().manual_seed(0))
    blurred = blur_weights(torch.tensor([2.0]), 64)[0] @ signal
    torch.testing.assert_close(blurred.sum(), signal.sum())
    # Its second moment grows by sigma squared.
    place = torch.arange(64.0)
    mean = (place * signal).sum() / signal.sum()
    spread = [((place - mean) ** 2 * s).sum() / s.sum() for s in (signal, blurred)]
    torch.testing.assert_close(spread[1] - spread[0], torch.tensor(4.0), rtol=1e-3, atol=0)


def test_no_weight_is_denormal():
    found = blur_weights(torch.linspace(0.01, 2, 200), 224)
    tiny = found[(found > 0)].min()
    assert tiny > torch.finfo(torch.float32).tiny
