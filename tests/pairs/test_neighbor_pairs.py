import math

import pytest
import torch

from nonneg.pairs import Batch, Draws
from nonneg.pairs import neighbours as exact
from nonneg.pairs.neighbours import NeighborPairs, nearest_neighbors

VECTORS = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


def batch_of(vectors, numbers, *, epoch=0):
    return Batch(vectors[numbers], numbers, Draws(0, epoch, numbers), vectors.__getitem__)


@pytest.mark.parametrize("tile_entries", [1 << 26, 7 * 60])
def test_neighbors_are_those_of_a_plain_loop(monkeypatch, tile_entries):
    monkeypatch.setattr(exact, "_TILE_ENTRIES", tile_entries)
    rows = VECTORS.double().tolist()
    for i, found in enumerate(nearest_neighbors(VECTORS, 4).tolist()):
        others = sorted((j for j in range(60) if j != i), key=lambda j: -cosine(rows[i], rows[j]))
        assert found == others[:4]


def test_equal_rows_find_each_other_and_never_themselves():
    found = nearest_neighbors(torch.ones(5, 3), 4)
    assert [sorted(row) for row in found.tolist()] == [
        [j for j in range(5) if j != i] for i in range(5)
    ]


def test_every_neighbor_is_drawn_about_equally_often():
    table = torch.tensor([[1, 2, 3]] * 3000)
    partners = NeighborPairs(table)(batch_of(torch.arange(3000.0), torch.arange(3000)))[1]
    counts = torch.bincount(partners.long())
    assert counts[:1].tolist() == [0]
    assert (counts[1:] - 1000).abs().max() < 120


def test_partners_change_by_epoch_and_belong_to_the_sample():
    pairs, numbers = NeighborPairs(nearest_neighbors(VECTORS, 8)), torch.arange(60)
    _, first = pairs(batch_of(VECTORS, numbers))
    _, some = pairs(batch_of(VECTORS, numbers[20:30]))
    _, later = pairs(batch_of(VECTORS, numbers, epoch=1))
    assert torch.equal(some, first[20:30])
    assert not torch.equal(later, first)


@pytest.mark.parametrize("k", [0, 60])
def test_too_many_neighbors_are_refused(k):
    with pytest.raises(ValueError, match=f"between 1 and 59, got {k}; lower it or give more"):
        nearest_neighbors(VECTORS, k)


def test_a_wrong_table_is_refused():
    with pytest.raises(ValueError, match=r"int64 of shape \(n, k\), got torch\.float32"):
        NeighborPairs(torch.zeros(3, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.uint8])
def test_vectors_may_be_of_any_real_type(dtype):
    vectors = torch.randint(0, 100, (60, 5), generator=torch.Generator().manual_seed(1))
    expected = nearest_neighbors(vectors.double(), 4)
    assert torch.equal(nearest_neighbors(vectors.to(dtype), 4), expected)


def test_vectors_that_are_not_finite_are_refused_with_their_place():
    vectors = VECTORS.clone()
    vectors[7, 2] = math.nan
    with pytest.raises(ValueError, match=r"vectors holds nan in row 7, column 2"):
        nearest_neighbors(vectors, 4)
