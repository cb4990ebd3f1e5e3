import pickle

import pytest
import torch
from PIL import Image

from nonneg.data import ArrayData, ImageFolder
from nonneg.pairs import Batch, Draws, FileViews, ImageViews, ViewSettings, recipe

CROPS_ONLY = ViewSettings(crop_scale=(0.2, 0.9), crop_ratio=(0.75, 4 / 3))


class Recorder:
    """Crops that are blank, and a memory of what was asked for."""

    def crops(self, indices, boxes, size):
        self.indices, self.boxes, self.size = indices, boxes, size
        return torch.zeros(len(indices), 3, size, size, dtype=torch.uint8)


class WideRecorder(Recorder):
    def aspect_ratios(self, indices):
        return torch.full((len(indices),), 2.0)


@pytest.fixture
def folder(tmp_path):
    noise = torch.rand(6, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(noise, (40, 40), mode="bilinear")
    images = (smooth * 255).to(torch.uint8)
    for number, image in enumerate(images):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / f"{number}.png")
    return ImageFolder(tmp_path, image_size=40), images


def views_of(pairs, data, numbers, *, epoch=0):
    draws = Draws(3, epoch, numbers)
    return pairs(Batch(pairs.prepare(data, numbers, draws), numbers, draws, data.fetch))


@pytest.mark.parametrize("settings", [CROPS_ONLY, recipe("colour")], ids=["crops", "colour"])
@pytest.mark.parametrize("size", [16, 48])
def test_views_of_files_are_those_of_the_images_up_to_rounding(folder, settings, size):
    data, images = folder
    numbers = torch.tensor([4, 0, 5])
    found = views_of(FileViews(settings, size), data, numbers)
    draws = Draws(3, 0, numbers)
    expected = ImageViews(settings, size)(Batch(images[numbers], numbers, draws, None))
    for one, two in zip(found, expected, strict=True):
        assert one.shape == (3, 3, size, size)
        # Crops are rounded to bytes, and colours then stretched by at most 1.8 · 1.8 · 1.8.
        assert (one - two).abs().max() < 6 * 2 / 255
        assert (one - two).abs().mean() < 1.5 / 255


def test_prepared_crops_are_bytes_two_a_sample(folder):
    data, _ = folder
    numbers = torch.arange(4)
    prepared = FileViews(CROPS_ONLY, 16).prepare(data, numbers, Draws(0, 0, numbers))
    assert prepared.dtype == torch.uint8
    assert prepared.shape == (4, 2, 3, 16, 16)


def test_both_crops_of_a_file_are_asked_for_together():
    data, numbers = Recorder(), torch.tensor([8, 3])
    FileViews(CROPS_ONLY, 16).prepare(data, numbers, Draws(0, 0, numbers))
    assert data.indices.tolist() == [8, 8, 3, 3]
    assert data.boxes.shape == (4, 4)
    assert data.size == 16
    assert len(data.boxes.unique(dim=0)) == 4


def test_ratio_is_that_of_the_pixels_where_the_shape_of_the_file_is_known():
    numbers, settings = torch.arange(50), ViewSettings(crop_scale=(0.1, 0.3))
    for data, expected in ((Recorder(), 1.0), (WideRecorder(), 0.5)):
        FileViews(settings, 16).prepare(data, numbers, Draws(0, 0, numbers))
        ratio = data.boxes[:, 3] / data.boxes[:, 2]
        torch.testing.assert_close(ratio, torch.full((100,), expected))


def test_views_do_not_depend_on_the_batch_and_change_by_epoch(folder):
    data, _ = folder
    pairs = FileViews(recipe("colour"), 16)
    whole = views_of(pairs, data, torch.arange(6))
    part = views_of(pairs, data, torch.tensor([5, 2]))
    later = views_of(pairs, data, torch.arange(6), epoch=1)
    for view, expected, other in zip(part, whole, later, strict=True):
        assert torch.equal(view, expected[[5, 2]])
        assert not torch.equal(other, expected)


def test_crops_without_further_changes_are_the_views(folder):
    data, _ = folder
    numbers = torch.arange(3)
    pairs, draws = FileViews(CROPS_ONLY, 16), Draws(0, 0, numbers)
    prepared = pairs.prepare(data, numbers, draws)
    before = prepared.clone()
    view_a, view_b = pairs(Batch(prepared, numbers, draws, data.fetch))
    assert torch.equal(view_a, prepared[:, 0].float() / 255)
    assert torch.equal(view_b, prepared[:, 1].float() / 255)
    assert torch.equal(prepared, before)


def test_pairs_can_be_sent_to_a_worker():
    pairs = FileViews(recipe("colour"), 16)
    assert pickle.loads(pickle.dumps(pairs)) == pairs


def test_wrong_arguments_are_named():
    numbers = torch.arange(2)
    draws, pairs = Draws(0, 0, numbers), FileViews(CROPS_ONLY, 16)
    data = ArrayData(torch.zeros(2, 3, 8, 8))
    with pytest.raises(TypeError, match="ArrayData cannot do that; use ImageViews for images in"):
        pairs.prepare(data, numbers, draws)
    with pytest.raises(ValueError, match=r"of shape \(n, 2, c, h, w\), got \(2, 3, 8, 8\)"):
        pairs(Batch(data.inputs, numbers, draws, data.fetch))
    with pytest.raises(ValueError, match=r"1 or 3 channels, got \(2, 4, 8, 8\)"):
        pairs(Batch(torch.zeros(2, 2, 4, 8, 8), numbers, draws, data.fetch))
    with pytest.raises(ValueError, match="the size of a view must be at least 1, got 0"):
        FileViews(CROPS_ONLY, 0)
