import pytest
import torch

from nonneg.estimators.cross import grouped_batches, spread_order


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_without_groups_every_order_is_as_likely():
    firsts = [int(spread_order(torch.arange(4), generator(seed))[0]) for seed in range(400)]
    for sample in range(4):
        assert 60 < firsts.count(sample) < 140


def test_every_sample_comes_once_and_orders_differ():
    groups = torch.tensor([3, 3, 3, 9, 9, 1, 0, 0, 0, 0])
    draws = generator()
    orders = [spread_order(groups, draws).tolist() for _ in range(5)]
    for order in orders:
        assert sorted(order) == list(range(10))
    assert len({tuple(order) for order in orders}) == 5


def test_five_captions_of_an_image_come_in_five_parts_of_the_epoch():
    order = spread_order(torch.arange(100).repeat_interleave(5), generator())
    for part in (order // 5).split(100):
        assert len(part.unique()) == 100


def test_every_member_of_a_group_may_come_first():
    groups = torch.tensor([0, 0, 0, 1])
    firsts = {
        int(next(i for i in spread_order(groups, generator(seed)) if i < 3)) for seed in range(50)
    }
    assert firsts == {0, 1, 2}


@pytest.mark.parametrize("batch_size", [2, 3, 7])
def test_batches_have_one_size_and_several_groups_however_uneven_these_are(batch_size):
    groups = torch.tensor([0] * 18 + [1, 2])
    batches = list(grouped_batches(groups, batch_size, 40, generator()))
    assert len(batches) == 40
    for batch in batches:
        assert len(batch.unique()) == batch_size
        assert len(groups[batch].unique()) > 1
