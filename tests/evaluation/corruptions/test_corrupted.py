import pickle

import pytest
import torch

from nonneg.data import ArrayData, Data, check, digits, subset
from nonneg.evaluation.corruptions import CORRUPTIONS, Corrupted, names, sketch, stylised
from nonneg.evaluation.corruptions import corrupted as module
from nonneg.pairs import Draws

PHOTOS = ArrayData(
    torch.randint(
        0, 256, (40, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    ),
    labels=torch.arange(40) % 2,
    name="photos",
    class_names=("cat", "dog"),
)
ALL = torch.arange(40)


@pytest.mark.parametrize("name", names())
def test_fetched_images_are_those_of_the_function(name):
    data = Corrupted(PHOTOS, name, seed=5)
    draws = Draws(5, 0, ALL)
    if name in CORRUPTIONS:
        expected = CORRUPTIONS[name](PHOTOS.inputs, severity=3, draws=draws)
    else:
        expected = (
            sketch(PHOTOS.inputs) if name == "sketch" else stylised(PHOTOS.inputs, draws=draws)
        )
    assert torch.equal(data.fetch(ALL), expected)
    some = torch.tensor([9, 7, 9, 5])
    assert torch.equal(data.fetch(some), expected[some])
    check(data)


@pytest.mark.parametrize("name", names())
def test_large_fetches_are_made_in_portions(name, monkeypatch):
    data = Corrupted(PHOTOS, name)
    whole = data.fetch(ALL)
    monkeypatch.setattr(module, "_MOST_NUMBERS", 7 * 3 * 16 * 16)
    assert torch.equal(data.fetch(ALL), whole)
    monkeypatch.setattr(module, "_MOST_NUMBERS", 1)
    assert torch.equal(data.fetch(ALL[:3]), whole[:3])


def test_all_else_stays_as_it_is():
    data: Data = Corrupted(PHOTOS, "fog", severity=5)
    assert (len(data), data.sample_shape, data.class_names) == (40, (3, 16, 16), ("cat", "dog"))
    assert torch.equal(data.labels, PHOTOS.labels)
    assert data.name == "photos, fog 5"
    assert Corrupted(PHOTOS, "jpeg").name == "photos, jpeg 3"
    assert Corrupted(PHOTOS, "sketch").name == "photos, sketch"
    assert Corrupted(ArrayData(PHOTOS.inputs), "fog").labels is None


def test_the_clean_data_is_not_touched():
    before = PHOTOS.inputs.clone()
    for name in names():
        Corrupted(PHOTOS, name).fetch(ALL)
    assert torch.equal(PHOTOS.inputs, before)


def test_another_seed_gives_other_noise():
    first, again, other = (Corrupted(PHOTOS, "fog", seed=seed).fetch(ALL) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_part_of_corrupted_data_has_the_images_of_the_whole():
    data, numbers = Corrupted(PHOTOS, "gaussian_noise"), torch.tensor([31, 4])
    part = subset(data, numbers)
    assert torch.equal(part.fetch(torch.arange(2)), data.fetch(numbers))
    assert torch.equal(part.labels, PHOTOS.labels[numbers])


def test_it_survives_the_way_to_a_worker_process():
    data = Corrupted(PHOTOS, "elastic", severity=2, seed=3)
    assert torch.equal(pickle.loads(pickle.dumps(data)).fetch(ALL), data.fetch(ALL))


def test_no_numbers_give_no_images():
    for name in names():
        assert Corrupted(PHOTOS, name).fetch(ALL[:0]).shape == (0, 3, 16, 16)


def test_floats_stay_floats():
    data = Corrupted(ArrayData(PHOTOS.inputs.double() / 255), "shot_noise")
    assert data.fetch(ALL).dtype == torch.float32  # as ArrayData fetches them


def test_an_unknown_corruption_is_answered_with_the_nearest():
    with pytest.raises(
        ValueError, match="unknown corruption 'gausian_noise'; nearest: gaussian_noise"
    ):
        Corrupted(PHOTOS, "gausian_noise")
    with pytest.raises(ValueError, match="unknown corruption 'sketches'; nearest: sketch"):
        Corrupted(PHOTOS, "sketches")
    with pytest.raises(
        ValueError, match=r"unknown corruption 'xyz'; known: gaussian_noise, .*stylised"
    ):
        Corrupted(PHOTOS, "xyz")


@pytest.mark.parametrize("shape", [(20,), (4, 8, 8), (8, 8)])
def test_what_is_no_image_is_refused(shape):
    data = ArrayData(torch.zeros(2, *shape), name="mine")
    with pytest.raises(
        ValueError, match=r"mine has samples of shape \(.*\); only images \(c, h, w\)"
    ):
        Corrupted(data, "fog")


@pytest.mark.parametrize("severity", [0, 6, 2.5, "3"])
def test_a_wrong_severity_is_refused_at_once(severity):
    with pytest.raises(ValueError, match=f"from 1 to 5, got {severity!r}"):
        Corrupted(digits(), "fog", severity=severity)


@pytest.mark.parametrize("name", ["sketch", "stylised"])
def test_a_drawing_has_no_severity(name):
    assert Corrupted(digits(), name).severity is None
    with pytest.raises(ValueError, match=f"{name} has one strength; leave out severity 3"):
        Corrupted(digits(), name, severity=3)


def test_a_seed_that_does_not_fit_is_refused_at_once():
    with pytest.raises(ValueError, match="seed 9223372036854775808 does not fit in 64 bits"):
        Corrupted(digits(), "fog", seed=2**63)
