"""The benchmark of embeddings: its figures, its divisions, its bars and how it is resumed."""

import json
import math
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
NAMES = ("bars", "figures", "peers", "runs", "sets", "speed", "vectors")


@pytest.fixture(scope="module")
def parts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        found = {name: import_module(f"benchmarks.embedding_{name}") for name in NAMES}
        yield SimpleNamespace(**found, tables=import_module("benchmarks.embeddings"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.arange(160) % 4
    vectors = np.eye(4, 12)[labels] + 0.1 * rng.standard_normal((160, 12))
    np.save(tmp_path / "bbc.npy", vectors.astype(np.float32))
    np.save(tmp_path / "bbc_labels.npy", labels)
    np.save(tmp_path / "cranfield_corpus.npy", vectors[:50].astype(np.float32))
    np.save(tmp_path / "cranfield_queries.npy", vectors[50:].astype(np.float32))
    (tmp_path / "cranfield_corpus_ids.json").write_text(json.dumps([str(n) for n in range(50)]))
    questions = [
        {"relevant": [str(n) for n in range(50) if labels[n] == label]} for label in labels[50:]
    ]
    (tmp_path / "cranfield_queries_raw.json").write_text(json.dumps(questions))
    monkeypatch.setenv("NONNEG_EMBEDDINGS", str(tmp_path))
    return tmp_path


def test_twins_are_counted_by_loops_alike(parts):
    Z = np.random.default_rng(0).random((30, 8)).astype(np.float32)
    Z[:, 3] = 2 * Z[:, 5] + 0.01 * Z[:, 0]
    Z[:, 7] = 0
    alive = [column for column in Z.T if column.any()]
    twins = 0
    for i, a in enumerate(alive):
        cosines = [a @ b / math.sqrt((a @ a) * (b @ b)) for j, b in enumerate(alive) if j != i]
        twins += max(cosines) > 0.9
    assert 0 < twins < len(alive)
    assert parts.figures.twin_rate(Z) == pytest.approx(twins / len(alive))
    assert math.isnan(parts.figures.twin_rate(np.zeros((3, 2), dtype=np.float32)))


def test_ndcg_of_places_zeros_and_more_than_ten_wanted(parts):
    corpus = np.eye(20, dtype=np.float32)
    queries = np.zeros((3, 20), dtype=np.float32)
    queries[0] = np.arange(20, 0, -1)  # finds rows 0, 1, 2, …
    queries[1] = queries[0]
    wanted = [[2], list(range(20)), [0]]
    scores = parts.figures.ndcg_per_query(queries, corpus, wanted)
    assert scores == pytest.approx([1 / 2, 1, 0])


def test_rows_of_zeros_are_never_found(parts):
    corpus = np.zeros((12, 2), dtype=np.float32)
    corpus[0] = [0, 1]
    found = parts.figures.ndcg_per_query(np.array([[1, 0.1]]), corpus, [[5]])
    assert found == pytest.approx([0])


def test_an_interval_is_that_of_the_normal_distribution(parts):
    differences = np.random.default_rng(1).normal(0.2, 1, 2000)
    low, high = parts.figures.bootstrap_interval(differences)
    margin = 1.96 * differences.std() / math.sqrt(2000)
    assert [low, high] == pytest.approx(
        [differences.mean() - margin, differences.mean() + margin], abs=0.004
    )


def test_parts_do_not_share_what_is_asked(parts, folder):
    test, validation = (parts.sets.read_set("bbc", part) for part in ("test", "validation"))
    assert [len(test.train), len(test.queries)] == [112, 48]
    assert [len(validation.train), len(validation.queries)] == [84, 28]

    def rows(vectors):
        return {row.tobytes() for row in vectors}

    assert rows(validation.train) | rows(validation.queries) == rows(test.train)
    assert not rows(test.queries) & rows(test.train)
    searches = [parts.sets.read_set("cranfield", part) for part in ("validation", "test")]
    assert [len(search.queries) for search in searches] == [75, 35]
    with pytest.raises(ValueError, match="unknown part 'train'; known: validation, test"):
        parts.sets.read_set("bbc", "train")


def test_a_stopped_benchmark_measures_only_what_is_missing(parts, folder, capsys):
    path = folder / "runs.jsonl"
    plan = parts.runs.Plan("test", ["bbc", "cranfield"], ["dense"], [0])
    first = parts.runs.measure(plan, parts.runs.Store(path))
    assert len(path.read_text().splitlines()) == 2
    path.write_text(path.read_text()[:-30])  # killed while writing the second
    capsys.readouterr()
    again = parts.runs.measure(plan, parts.runs.Store(path))
    assert capsys.readouterr().err.startswith("cranfield, test, dense")
    assert again["bbc"] == first["bbc"]
    assert again["cranfield"]["dense"][0]["ndcg"] == first["cranfield"]["dense"][0]["ndcg"]
    assert len(path.read_text().splitlines()) == 3
    parts.runs.measure(plan, parts.runs.Store(path))
    assert capsys.readouterr().err == ""
    np.save(folder / "bbc.npy", np.load(folder / "bbc.npy") * 2)  # other vectors, other runs
    parts.runs.measure(plan, parts.runs.Store(path))
    assert capsys.readouterr().err.startswith("bbc, test, dense")


def test_tables_say_what_is_held_missed_and_missing(parts, folder):
    dense = {"p10": 0.9, "nn1": 0.95, "active": 384.0, "purity": 0.3, "twins": 0.0}
    ours = {**dense, "p10": 0.92, "nn1": 0.935, "active": 15.0, "purity": 0.76}
    said = parts.bars.checked(parts.bars.DEFAULT["newsgroups20"], ours, dense)
    assert said == (
        "**P@10 ≥ 0.930 missed (0.9200)**; **1-NN ≥ 0.940 missed (0.9350)**; active ≤ 16.0 held; "
        "purity ≥ 0.750 held; twins ≤ 0.050 held"
    )
    plan = parts.runs.Plan("test", ["bbc", "scifact"], ["dense"], [0])
    runs = parts.runs.measure(plan, parts.runs.Store(folder / "runs.jsonl"))
    table = parts.tables.default_table(runs)
    assert "| BBC News: vectors | 1.000 |" in table
    assert f"| SciFact | {folder} lacks scifact_corpus.npy" in table


def test_every_set_has_bars_and_files_that_are_made(parts):
    assert set(parts.bars.DEFAULT) == set(parts.sets.SETS)
    made = {output.name for outputs in parts.vectors.OUTPUTS.values() for output in outputs}
    modalities = import_module("benchmarks.modalities")
    asked = {name for chosen in parts.sets.SETS.values() for name in chosen.files}
    assert asked | set(modalities.FILES) <= made


def test_vectors_that_are_there_are_left_alone(parts, tmp_path):
    calls = []

    def make(data):
        calls.append(data)
        return np.ones(3)

    output = parts.vectors.Output("ones.npy", make)
    parts.vectors._make(output, tmp_path, tmp_path)
    parts.vectors._make(output, tmp_path, tmp_path)
    assert len(calls) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["ones.npy"]


def test_searching_in_tiles_is_searching_at_once(parts):
    X, groups = parts.speed.planted(500, 5, 0)
    asked, wanted = parts.speed.planted(20, 5, 1)
    found = parts.speed._nearest(asked, (X[start : start + 70] for start in range(0, 500, 70)))
    whole = np.argsort(-(asked @ X.T), axis=1)[:, :10]
    assert [set(row) for row in found.tolist()] == [set(row) for row in whole.tolist()]
    assert (groups[found] == wanted[:, None]).mean() > 0.99
