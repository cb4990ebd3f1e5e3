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


def test_of_several_labels_one_is_shared_each_as_often_and_the_others_by_chance():
    generator = torch.Generator().manual_seed(0)
    labels = torch.stack([torch.randint(m, (4000,), generator=generator) for m in (2, 5, 8)], dim=1)
    same = torch.cat([labels[partners(labels, epoch=e)] == labels for e in range(5)]).double()
    assert same.any(dim=1).all()
    # A third of the pairs is drawn by this label; of the others one in m agrees.
    expected = torch.tensor([1 / 3 + 2 / 3 / m for m in (2, 5, 8)])
    assert same.mean(dim=0) == pytest.approx(expected, abs=0.015)


def test_one_column_is_as_good_as_none():
    labels = torch.randint(4, (300,), generator=torch.Generator().manual_seed(1))
    assert torch.equal(partners(labels[:, None], epoch=2), partners(labels, epoch=2))


def test_a_sample_alone_by_one_of_its_labels_is_its_own_partner_when_that_is_drawn():
    labels = torch.tensor([[0, 7], [0, 1], [0, 1]])
    found = [int(partners(labels, epoch=e)[0]) for e in range(40)]
    assert set(found) == {0, 1, 2}
    assert LabelPairs(labels).n_alone == 1


def test_wrong_labels_are_refused():
    with pytest.raises(ValueError, match="no two samples have the same label"):
        LabelPairs(torch.arange(5))
    with pytest.raises(
        ValueError, match=r"whole numbers of shape \(n,\) or \(n, k\), got torch\.float32"
    ):
        LabelPairs(torch.zeros(5))
    with pytest.raises(ValueError, match=r"got torch\.int64 of shape \(5, 0\)"):
        LabelPairs(torch.zeros(5, 0, dtype=torch.int64))
    with pytest.raises(ValueError, match="no two samples have the same label"):
        LabelPairs(torch.stack([torch.zeros(5), torch.arange(5)], dim=1).long())
