"""The clean probe on spoilt images: what it means, on an encoder whose answer is known."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from nonneg import Encoder, EncoderSettings
from nonneg.data import ArrayData
from nonneg.evaluation import fitted_probe, robustness
from nonneg.evaluation.corruptions import AVERAGED, CORRUPTIONS


class Brightness(nn.Module):
    """The mean of the left and of the right half."""

    def forward(self, images):
        return torch.stack([images[..., :8].mean((1, 2, 3)), images[..., 8:].mean((1, 2, 3))], 1)


def halves(n=60):
    """Class 0 is bright on the left, class 1 on the right."""
    labels = torch.arange(n) % 2
    images = torch.full((n, 1, 16, 16), 60, dtype=torch.uint8)
    images[labels == 0, :, :, :8] = 180
    images[labels == 1, :, :, 8:] = 180
    return ArrayData(images, labels=labels, name="halves")


@pytest.fixture(scope="module")
def found():
    encoder = Encoder(EncoderSettings(), (1, 16, 16), backbone=Brightness())
    data = halves()
    probe = fitted_probe(encoder.encode(data).hidden, data.labels)
    said = []
    result = robustness(encoder, probe, data, severities=(1, 3), watch=said.append)
    return result, said


def test_all_versions_are_measured(found):
    result, said = found
    assert list(result.corrupted) == list(CORRUPTIONS)
    assert all(list(row) == [1, 3] for row in result.corrupted.values())
    assert set(result.drawn) == {"sketch", "stylised"}
    assert len(said) == 1 + len(CORRUPTIONS) * 2 + 2
    assert said[0] == "halves"
    assert "halves, fog 3" in said


def test_means_are_over_severities_and_corruptions(found):
    result, _ = found
    assert result.clean == 1.0
    assert result.by_corruption["contrast"] == sum(result.corrupted["contrast"].values()) / 2
    averaged = [result.by_corruption[name] for name in AVERAGED]
    assert result.corruption == pytest.approx(sum(averaged) / 11)


def test_a_new_corruption_leaves_the_published_mean_as_it_is(found):
    result, _ = found
    assert AVERAGED == (
        "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "motion_blur", "contrast",
        "brightness", "fog", "pixelate", "jpeg", "elastic",
    )  # fmt: skip
    assert set(AVERAGED) <= set(CORRUPTIONS)
    more = replace(result, corrupted={**result.corrupted, "snow": {1: 0.0, 3: 0.0}})
    assert more.by_corruption["snow"] == 0
    assert more.corruption == result.corruption


def test_a_feature_that_corruptions_keep_is_robust_and_outlines_alone_are_not(found):
    result, _ = found
    for name in ("gaussian_noise", "defocus_blur", "pixelate", "jpeg"):
        assert result.by_corruption[name] == 1.0, name
    # A sketch has the same line for both classes.
    assert result.drawn["sketch"] == pytest.approx(0.5, abs=0.01)


def test_labels_are_needed():
    encoder = Encoder(EncoderSettings(), (1, 16, 16), backbone=Brightness())
    with pytest.raises(ValueError, match="bare has no labels"):
        robustness(encoder, None, ArrayData(halves().inputs, name="bare"))
