"""Approximate neighbours: nearly all of the exact ones, never the sample itself, always k."""

import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nonneg.pairs import nearest_neighbors, neighbours
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


class FakeIndex:
    """As faiss.IndexIVFFlat, but every other row is found with one neighbour too few."""

    def __init__(self, _centers, n_columns, n_lists, metric):
        assert (n_columns, metric) == (16, "inner product")
        self.cp, self.nprobe, self.n_lists = SimpleNamespace(), 1, n_lists

    def train(self, rows):
        assert self.n_lists <= len(rows)

    def add(self, rows):
        self.rows = rows

    def search(self, queries, k):
        cosine = queries @ self.rows.T
        found = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
        found[::2, -1] = -1
        return np.take_along_axis(cosine, found, axis=1), found


FAKE = SimpleNamespace(
    IndexFlatIP=lambda n_columns: None, IndexIVFFlat=FakeIndex, METRIC_INNER_PRODUCT="inner product"
)


@pytest.fixture(params=["fake", "faiss", "pynndescent"])
def library(request, monkeypatch):
    """One of the libraries; lists are small, so that most of them are not looked into."""
    if request.param != "fake":
        pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    for name in ("faiss", "pynndescent"):
        module = import_module(name) if name == request.param else None
        is_fake = request.param == "fake" and name == "faiss"
        monkeypatch.setitem(sys.modules, name, FAKE if is_fake else module)
    monkeypatch.setattr(neighbours, "_EXACT_UP_TO", 100)
    monkeypatch.setattr(neighbours, "_EXACT_AT_MOST", 200)
    monkeypatch.setattr(neighbours, "_LIST_SIZE", 64)
    monkeypatch.setattr(neighbours, "_N_LISTS", 10)
    return request.param


def test_nine_of_ten_neighbors_are_found(library):
    n = 1500 if library == "fake" else 6000
    vectors = clustered(n, n // 40)
    found, expected = nearest_neighbors(vectors, 10), exact(vectors, 10)
    assert recall(found, expected) > (0.999 if library == "fake" else 0.9)
    assert (found != torch.arange(n)[:, None]).all()
    assert all(len(set(row)) == 10 for row in found[:500].tolist())


def test_the_nearest_comes_first(library):
    vectors = clustered(1500, 30)
    unit = unit_rows(vectors)
    cosine = (unit[:, None] * unit[nearest_neighbors(vectors, 5)]).sum(dim=2)
    assert (cosine.diff(dim=1) <= 1e-6).all()


def test_the_same_vectors_give_the_same(library):
    vectors = clustered(1500, 30)
    before = torch.get_rng_state()
    found = nearest_neighbors(vectors, 5)
    assert torch.equal(found, nearest_neighbors(vectors, 5))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("k", [1, 40, 699])
def test_there_are_always_k_others(library, k, monkeypatch):
    monkeypatch.setattr(neighbours, "_N_LISTS", 1)
    vectors = torch.cat([clustered(690, 3), torch.zeros(10, 16)])
    found = nearest_neighbors(vectors, k)
    assert found.shape == (700, k)
    assert found.dtype == torch.int64
    assert (found != torch.arange(700)[:, None]).all()
    assert int(found.min()) >= 0
    assert all(len(set(row)) == k for row in found.tolist()[::50])


def test_equal_vectors_find_each_other(library):
    found = nearest_neighbors(torch.ones(300, 16), 3)
    assert (found != torch.arange(300)[:, None]).all()


def test_length_does_not_matter(library):
    vectors = clustered(1500, 30)
    longer = vectors * torch.linspace(0.1, 10, 1500)[:, None]
    assert recall(nearest_neighbors(longer, 5), nearest_neighbors(vectors, 5)) > 0.95


def test_few_samples_are_searched_exactly_whatever_is_installed(library, monkeypatch):
    monkeypatch.setattr(neighbours, "_approximate_search", lambda: pytest.fail("was asked for"))
    vectors = clustered(100, 10)
    assert recall(nearest_neighbors(vectors, 5), exact(vectors, 5)) > 0.999


def broken(name):
    raise OSError(f"libgomp.so cannot be loaded for {name}")


@pytest.mark.parametrize("how", ["missing", "broken"])
def test_without_a_library_the_search_is_exact_up_to_a_number_of_samples(monkeypatch, how):
    if how == "broken":
        monkeypatch.setattr(neighbours, "import_module", broken)
    else:
        for name in ("faiss", "pynndescent"):
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(neighbours, "_EXACT_UP_TO", 100)
    monkeypatch.setattr(neighbours, "_EXACT_AT_MOST", 300)
    vectors = clustered(301, 10)
    assert recall(nearest_neighbors(vectors[:300], 5), exact(vectors[:300], 5)) > 0.999
    sentence = (
        "^the neighbours of 301 samples need faiss or pynndescent; install them with: "
        "pip install faiss-cpu pynndescent$"
    )
    with pytest.raises(ImportError, match=sentence):
        nearest_neighbors(vectors, 5)
