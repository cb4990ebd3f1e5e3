from collections import Counter

import pytest
import torch
from sklearn.datasets import load_digits

from nonneg.data import digits


def test_counts_types_and_names():
    for split, n in (("train", 1437), ("test", 360)):
        data = digits(split)
        assert len(data) == len(data.labels) == n
        assert data.inputs.dtype == torch.uint8
        assert data.labels.dtype == torch.int64
        assert data.sample_shape == (1, 8, 8)
        assert data.class_names[7] == "7"


def test_both_parts_hold_each_digit_in_the_same_share():
    test = Counter(digits("test").labels.tolist())
    both = test + Counter(digits("train").labels.tolist())
    assert both == Counter(load_digits().target.tolist())
    for digit in range(10):
        assert abs(test[digit] - both[digit] / 5) < 1


def test_the_two_parts_are_scikit_learns_images_each_once():
    images = torch.cat([digits("train").inputs, digits("test").inputs]).view(1797, 64)
    levels = Counter(tuple(row) for row in (images.float() * 16 / 255).round().int().tolist())
    assert levels == Counter(tuple(row) for row in load_digits().data.astype(int).tolist())
    assert int(images.max()) == 255


def test_sorted_by_digit_every_fifth_is_for_testing():
    targets = load_digits().target.tolist()
    in_order = [i for digit in range(10) for i, target in enumerate(targets) if target == digit]
    chosen = sorted(i for place, i in enumerate(in_order) if place % 5 == 0)
    expected = torch.tensor(load_digits().data[chosen] / 16 * 255).round().byte()
    assert torch.equal(digits("test").inputs.view(-1, 64), expected)


def test_labels_belong_to_their_images():
    known = {
        tuple(row): target
        for row, target in zip(
            load_digits().data.astype(int).tolist(), load_digits().target.tolist(), strict=True
        )
    }
    for split in ("train", "test"):
        data = digits(split)
        rows = (data.inputs.view(-1, 64).float() * 16 / 255).round().int().tolist()
        assert [known[tuple(row)] for row in rows] == data.labels.tolist()


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match=r"^unknown split 'val'; known: train, test$"):
        digits("val")
