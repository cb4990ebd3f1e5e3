"""Approximate neighbours: nearly all of the exact ones, never the sample itself, always k."""

import sys

import pytest
import torch

from nonneg.pairs import nearest_neighbors, neighbours
from nonneg.pairs import neighbours as approximate
from nonneg.pairs.neighbours import approximate_neighbors
from nonneg.rows import unit_rows


def clustered(n, n_kinds, n_columns=16, spread=0.5, seed=0):
    """Kinds of samples around random directions, kinds themselves around fewer directions."""
    generator = torch.Generator().manual_seed(seed)
    fields = torch.randn(max(2, n_kinds // 8), n_columns, generator=generator)
    within = torch.randint(len(fields), (n_kinds,), generator=generator)
    kinds = fields[within] + 0.7 * torch.randn(n_kinds, n_columns, generator=generator)
    y = torch.randint(n_kinds, (n,), generator=generator)
    return kinds[y] + spread * torch.randn(n, n_columns, generator=generator)


def exact(vectors, k):
    cosine = unit_rows(vectors) @ unit_rows(vectors).T
    cosine.fill_diagonal_(-2)
    return cosine.topk(k, dim=1).indices


def recall(found, expected):
    hits = (found[:, :, None] == expected[:, None, :]).any(dim=1)
    return float(hits.double().mean())


@pytest.fixture(params=["groups", "faiss"])
def way(request, monkeypatch):
    """Both ways to search; groups are small, so that most of them are not looked into."""
    if request.param == "faiss":
        pytest.importorskip("faiss")
    else:
        monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(approximate, "_GROUP_SIZE", 64)
    monkeypatch.setattr(approximate, "_N_NEAR", 10)
    return request.param


def test_nine_of_ten_neighbors_are_found(way):
    vectors = clustered(6000, 150)
    found, expected = approximate_neighbors(vectors, 10), exact(vectors, 10)
    assert recall(found, expected) > 0.9
    assert (found != torch.arange(6000)[:, None]).all()
    assert all(len(set(row)) == 10 for row in found[:500].tolist())


def test_the_nearest_comes_first(way):
    vectors = clustered(1500, 30)
    unit = unit_rows(vectors)
    cosine = (unit[:, None] * unit[approximate_neighbors(vectors, 5)]).sum(dim=2)
    assert (cosine.diff(dim=1) <= 1e-6).all()


def test_the_same_vectors_give_the_same(way):
    vectors = clustered(1500, 30)
    before = torch.get_rng_state()
    found = approximate_neighbors(vectors, 5)
    assert torch.equal(found, approximate_neighbors(vectors, 5))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("k", [1, 40, 699])
def test_there_are_always_k_others(way, k, monkeypatch):
    monkeypatch.setattr(approximate, "_N_NEAR", 1)
    vectors = torch.cat([clustered(690, 3), torch.zeros(10, 16)])
    found = approximate_neighbors(vectors, k)
    assert found.shape == (700, k)
    assert (found != torch.arange(700)[:, None]).all()
    assert int(found.min()) >= 0
    assert all(len(set(row)) == k for row in found.tolist()[::50])


def test_equal_vectors_find_each_other(way):
    found = approximate_neighbors(torch.ones(300, 4), 3)
    assert (found != torch.arange(300)[:, None]).all()


def test_length_does_not_matter(way):
    vectors = clustered(1500, 30)
    longer = vectors * torch.linspace(0.1, 10, 1500)[:, None]
    assert recall(approximate_neighbors(longer, 5), approximate_neighbors(vectors, 5)) > 0.95


def test_many_samples_are_searched_approximately_and_few_exactly(monkeypatch):
    vectors = clustered(300, 10)
    assert recall(nearest_neighbors(vectors, 5), exact(vectors, 5)) > 0.999
    asked = []
    monkeypatch.setattr(neighbours, "_EXACT_UP_TO", 299)
    monkeypatch.setattr(neighbours, "approximate_neighbors", lambda v, k: asked.append(k) or v)
    assert torch.equal(nearest_neighbors(vectors, 5), vectors)
    assert asked == [5]
