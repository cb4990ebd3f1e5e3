"""The real files, where they are in the default data folder."""

import pytest
import torch

from nonneg.data import check, load


def official(name, split):
    try:
        return load(name, split=split)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(("split", "n"), [("train", 60_000), ("test", 10_000)])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_sets(name, split, n):
    data = official(name, split)
    assert (len(data), data.sample_shape, data.name) == (n, (1, 28, 28), name)
    assert data.inputs.dtype == torch.uint8
    counts = data.labels.bincount()
    if name == "fashion-mnist":
        assert counts.tolist() == [n // 10] * 10
    else:
        assert len(counts) == 10
        assert counts.min() > 0.08 * n
    check(data)


def test_fashion_mnist_begins_as_published():
    data = official("fashion-mnist", "train")
    assert data.labels[:5].tolist() == [9, 0, 0, 3, 0]
    assert data.class_names[int(data.labels[0])] == "Ankle boot"
    assert official("fashion-mnist", "test").labels[:5].tolist() == [9, 2, 1, 1, 6]


def test_mnist_begins_as_published():
    assert official("mnist", "train").labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert official("mnist", "test").labels[:5].tolist() == [7, 2, 1, 0, 4]


@pytest.mark.parametrize(("split", "n"), [("train", 50_000), ("test", 10_000)])
def test_cifar10(split, n):
    data = official("cifar10", split)
    assert (len(data), data.sample_shape, data.name) == (n, (3, 32, 32), "cifar10")
    assert data.labels.bincount().tolist() == [n // 10] * 10
    assert data.class_names[:3] in ((), ("airplane", "automobile", "bird"))
    check(data)


def test_cifar10_has_the_known_mean_colour():
    # The published channel means of the training images, .4914 .4822 .4465.
    images = official("cifar10", "train").inputs
    means = images[::10].float().mean(dim=(0, 2, 3)) / 255
    assert means.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.005)


@pytest.mark.parametrize("split", ["train", "test"])
def test_cifar100_fine_classes_lie_within_coarse_ones(split):
    data = official("cifar100", split)
    assert data.sample_shape == (3, 32, 32)
    assert int(data.labels.max()) < 100
    pairs = set(zip(data.labels.tolist(), data.coarse_labels.tolist(), strict=True))
    assert len(pairs) == len(data.labels.unique())
    assert len(data.coarse_labels) == len(data)
    check(data)
