import pytest
import torch

from nonneg.pairs import Batch, Draws
from nonneg.pairs.relations import LabelPairs


def partners(labels, *, epoch=0):
    numbers = torch.arange(len(labels))
    batch = Batch(numbers, numbers, Draws(0, epoch, numbers), numbers.__getitem__)
    return LabelPairs(labels)(batch)[1]


def test_partners_share_the_label_and_are_another_sample():
    labels = torch.randint(-3, 4, (500,), generator=torch.Generator().manual_seed(0))
    for epoch in range(5):
        found = partners(labels, epoch=epoch)
        assert torch.equal(labels[found], labels)
        assert (found != torch.arange(500)).all()


def test_all_others_of_a_class_are_drawn():
    found = torch.stack([partners(torch.zeros(4, dtype=torch.int64), epoch=e) for e in range(60)])
    for i in range(4):
        assert sorted(set(found[:, i].tolist())) == [j for j in range(4) if j != i]


def test_a_sample_alone_in_its_class_is_its_own_partner():
    labels = torch.tensor([7, 1, 1, 4])
    assert partners(labels).tolist() == [0, 2, 1, 3]
    assert LabelPairs(labels).n_alone == 2


def test_wrong_labels_are_refused():
    with pytest.raises(ValueError, match="no two samples have the same label"):
        LabelPairs(torch.arange(5))
    with pytest.raises(ValueError, match=r"whole numbers of shape \(n,\), got torch\.float32"):
        LabelPairs(torch.zeros(5))
