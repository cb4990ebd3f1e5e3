"""The benchmarks of search: rows like those of a fit, recall, bars, and ways to rank."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def search():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        yield import_module("benchmarks.search")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    rates = np.linspace(0.02, 0.4, 40)
    rows = rng.random((500, 40), dtype=np.float32) * (rng.random((500, 40)) < rates)
    return sparse.csr_array(rows)


def test_rows_are_like_those_of_the_fit(search, fitted):
    rows = search.many_rows(fitted, 20_000)
    assert rows.has_canonical_format
    rates = [(part > 0).sum(axis=0) / part.shape[0] for part in (fitted, rows)]
    assert np.corrcoef(*rates)[0, 1] > 0.99
    assert rows.nnz / 20_000 == pytest.approx(fitted.nnz / 500, rel=0.05)
    assert np.log(rows.data).mean() == pytest.approx(np.log(fitted.data).mean(), abs=0.1)


def test_recall_takes_ties_for_found(search):
    exact = np.tile(np.array([[1.0] * 3 + [0.9] * 9 + [0.1] * 8]), (2, 1))
    every = np.tile(np.arange(10), (2, 1))
    assert search.recall_at_k(every, exact) == 1
    assert search.recall_at_k(every + 2, exact) == 1  # rows 2 to 11: ties of the tenth
    assert search.recall_at_k(every + 3, exact) == pytest.approx(0.9)
    assert search.recall_at_k(np.full((2, 10), -1), exact) == 0


def test_engines_find_the_same(search, fitted, monkeypatch):
    monkeypatch.setattr(search, "fitted_rows", lambda active: (fitted, fitted[:100]))
    names = ["torch", "nonneg", "nonneg, float16", "nonneg, no numba", "SciPy"]
    measured = search.measure(8, 3000, names)
    assert not any(timed.why_not for timed in measured["engines"].values())
    exact = [t.recall for name, t in measured["engines"].items() if name not in ("torch", names[2])]
    assert exact == [1, 1, 1]
    assert measured["difference"] < 1e-6
    text = search.table({8: measured})
    assert "cosines exact to 1e-6" in text
    assert "faiss" not in text.replace("faiss flat", "")


def test_what_is_not_installed_is_said(search, fitted, monkeypatch):
    def absent(_rows):
        raise ImportError("no such engine")

    monkeypatch.setattr(search, "fitted_rows", lambda active: (fitted, fitted[:100]))
    monkeypatch.setitem(search.SPARSE, "Seismic", absent)
    measured = search.measure(8, 2000, ["nonneg", "Seismic"])
    assert "| Seismic | no such engine |" in search.table({8: measured})


def test_missed_bars_are_bold(search):
    assert search._bar("speed ≥ 2", 1.0, False, ".1f") == "**speed ≥ 2: 1.0, missed**"
    assert search._bar("speed ≥ 2", 3.0, True, ".1f") == "speed ≥ 2: 3.0, held"


def test_ways_to_rank(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    retrieval = import_module("benchmarks.retrieval")
    rng = np.random.default_rng(0)
    Z = rng.random((60, 12), dtype=np.float32) * (rng.random((60, 12)) < 0.4)
    Z[:, 0] += 0.1
    found = retrieval.Features(Z, Z[:9], Z, Z[:9])
    relevant = [[row] for row in range(9)]
    for way, rank in retrieval.WAYS.items():
        if way == "idf, of queries only":  # a text is then no longer nearest to itself
            continue
        ids = rank(found)
        assert (ids[:, 0] == np.arange(9)).all(), way
        np.testing.assert_allclose(retrieval.ndcg(ids, relevant), 1)
    worse = np.roll(retrieval.WAYS["dense vectors"](found)[:, :10], 1, axis=1)
    np.testing.assert_allclose(retrieval.ndcg(worse, relevant), 1 / np.log2(3))
