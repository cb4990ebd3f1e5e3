import pytest
import torch

from nonneg.losses.info_nce import PairRows, mean_positive, pair_mean


def pairs(n, seed=0):
    rows = torch.randn(2 * n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    groups = torch.randint(3, (n,), generator=torch.Generator().manual_seed(seed))
    return PairRows(rows, torch.arange(n), groups)


def slow_mean_positive(own, everyone, negatives):
    found = []
    for i, group in enumerate(own.groups.tolist()):
        anchors = []
        for view in (0, 1):
            anchor, number = own.rows[2 * i + view], int(own.numbers[i])
            products = []
            for j, other in enumerate(everyone.groups.tolist()):
                for their_view in (0, 1):
                    is_itself = int(everyone.numbers[j]) == number and view == their_view
                    is_wanted = not is_itself if negatives == "both" else view != their_view
                    if other == group and is_wanted:
                        products.append(float(anchor @ everyone.rows[2 * j + their_view]))
            anchors.append(sum(products) / len(products))
        found.append(anchors)
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("negatives", ["both", "cross"])
@pytest.mark.parametrize("seed", range(4))
def test_mean_positive_agrees_with_loops(negatives, seed):
    everyone = pairs(7, seed)
    part = PairRows(everyone.rows[4:10], everyone.numbers[2:5], everyone.groups[2:5])
    for own in (everyone, part):
        expected = slow_mean_positive(own, everyone, negatives)
        torch.testing.assert_close(mean_positive(own, everyone, negatives), expected)


def test_rows_of_a_pair_are_neighbours():
    rows = torch.arange(8.0).view(4, 2)
    batch = PairRows(rows, torch.arange(2), torch.tensor([5, 3]))
    a, b = batch.views()
    assert a.tolist() == [[0, 1], [4, 5]]
    assert b.tolist() == [[2, 3], [6, 7]]
    assert batch.keys(of_groups=True).tolist() == [5, 5, 3, 3]
    assert batch.keys(of_groups=False).tolist() == [0, 1, 2, 3]
    moved = batch.numbered_from(10)
    assert moved.numbers.tolist() == [10, 11]
    assert moved.groups.tolist() == [5, 3]
    alone = PairRows(rows, batch.numbers, batch.numbers).numbered_from(10)
    assert alone.groups.tolist() == [10, 11]


def test_a_total_from_elsewhere():
    losses = torch.tensor([[1.0, 3.0], [5.0, 5.0]])
    assert float(pair_mean(losses, None)) == 3.5
    assert float(pair_mean(losses, torch.tensor([1.0, 1.0]), total=torch.tensor(4.0))) == 1.75
