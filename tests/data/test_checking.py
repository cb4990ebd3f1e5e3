import re

import pytest
import torch

from nonneg.data import ArrayData, Sprites, check, digits, split_off
from nonneg.data import checking as checking_module


class Counting:
    """A data set of the user's own that notes how it is read."""

    name, labels, class_names = "counting", None, ()

    def __init__(self, inputs):
        self.inputs = inputs
        self.sample_shape = tuple(inputs.shape[1:])
        self.largest = self.total = 0

    def __len__(self):
        return len(self.inputs)

    def fetch(self, indices):
        self.largest = max(self.largest, len(indices))
        self.total += len(indices)
        return self.inputs[indices]


def sentence(data):
    with pytest.raises(ValueError, match=r".") as caught:
        check(data)
    return str(caught.value)


def test_good_data_passes():
    check(digits())
    check(Sprites(torch.tensor([3, 4])))
    check(ArrayData(torch.randn(5, 3) * 100, labels=torch.tensor([0, 4, 1, 1, 2])))
    check(ArrayData(torch.rand(2, 3, 4, 4)))
    check(ArrayData(torch.tensor([0.0, 1.0]).view(2, 1, 1, 1), name="both ends"))
    check(ArrayData(torch.randn(5, 3, dtype=torch.float64)))
    for part in split_off(digits(), 100):
        check(part)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (torch.zeros(0, 4), "mine holds no samples"),
        (torch.zeros(0), "mine holds no samples"),
        (
            torch.zeros(7),
            "mine has inputs of shape (7,); give images (n, c, h, w) or vectors (n, d)",
        ),
        (
            torch.zeros(7, 8, 8),
            "mine has inputs of shape (7, 8, 8); give images (n, c, h, w) or vectors (n, d)",
        ),
        (torch.zeros(7, 0), "mine has inputs of shape (7, 0): its samples are empty"),
        (
            torch.zeros(7, 2).long(),
            "mine has vectors of type int64; give them as float32",
        ),
        (
            torch.zeros(7, 2, dtype=torch.uint8),
            "mine has vectors of type uint8; give them as float32",
        ),
        (
            torch.zeros(7, 2, dtype=torch.complex64),
            "mine has vectors of type complex64; give them as float32",
        ),
        (
            torch.zeros(7, 3, 8, 8).int(),
            "mine has images of type int32; give them as uint8 or as float32 in [0, 1]",
        ),
        (
            torch.zeros(7, 8, 8, 3),
            "mine has inputs of shape (7, 8, 8, 3), channels last; give (n, c, h, w)",
        ),
        (
            torch.full((2, 1, 2, 2), 255.0),
            "mine has float images with values from 255 to 255; scale them to [0, 1] or give them"
            " as uint8",
        ),
        (
            torch.tensor([-0.25, 1.0]).view(1, 1, 1, 2),
            "mine has float images with values from -0.25 to 1; scale them to [0, 1] or give them"
            " as uint8",
        ),
    ],
)
def test_bad_inputs_have_one_sentence(inputs, expected):
    assert sentence(ArrayData(inputs, name="mine")) == expected


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("shape", [(100, 6), (100, 1, 2, 3)])
@pytest.mark.parametrize("chunk", [1, 6, 50, 1 << 22])
def test_broken_numbers_are_counted_across_chunks(monkeypatch, bad, shape, chunk):
    monkeypatch.setattr(checking_module, "_CHUNK", chunk)
    inputs = torch.rand(shape)
    inputs.view(100, -1)[[13, 57, 99], [5, 0, 1]] = bad
    inputs.view(100, -1)[57, 3] = bad
    assert sentence(ArrayData(inputs, name="mine")) == (
        "mine has NaN or Inf in 3 of 100 samples, first in sample 13; repair or drop them"
    )


def test_values_too_large_for_float32_are_seen():
    inputs = torch.ones(3, 2, dtype=torch.float64)
    inputs[2, 0] = 1e300
    assert "in 1 of 3 samples, first in sample 2" in sentence(ArrayData(inputs))


@pytest.mark.parametrize(
    ("labels", "class_names", "expected"),
    [
        (
            torch.zeros(4).long(),
            (),
            "mine has labels of shape (4,) for 3 samples; give one per sample, (3,)",
        ),
        (
            torch.zeros(3, 1).long(),
            (),
            "mine has labels of shape (3, 1) for 3 samples; give one per sample, (3,)",
        ),
        (torch.zeros(3), (), "mine has labels of type float32; give int64"),
        (torch.zeros(3).int(), (), "mine has labels of type int32; give int64"),
        (torch.tensor([0, -1, 2]), (), "mine has the label -1; labels count from 0"),
        (
            torch.tensor([0, 1, 2]),
            ("a", "b"),
            "mine has the label 2 but names only for classes 0 to 1",
        ),
    ],
)
def test_bad_labels_have_one_sentence(labels, class_names, expected):
    data = ArrayData(torch.ones(3, 2), labels=labels, name="mine", class_names=class_names)
    assert sentence(data) == expected


def test_large_float_data_is_read_once_and_in_parts(monkeypatch):
    monkeypatch.setattr(checking_module, "_CHUNK", 64)
    data = Counting(torch.rand(1000, 4))
    check(data)
    assert data.largest == 16
    assert data.total <= 1000 + 2


def test_bytes_are_not_read_beyond_the_first_sample():
    data = Counting(torch.zeros(1000, 1, 4, 4, dtype=torch.uint8))
    check(data)
    assert data.total <= 2


def test_a_fetch_of_another_shape_is_refused():
    data = Counting(torch.rand(10, 4))
    data.sample_shape = (5,)
    expected = (
        "counting says its samples have shape (5,), but fetching one gave (1, 4);"
        " fetch must give (1, *sample_shape)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        check(data)
