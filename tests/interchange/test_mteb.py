"""Runs as models of mteb, its mock tasks, and tasks that read local folders."""

import gzip
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from nonneg.interchange import mteb_model
from nonneg.interchange.mteb_model import MtebModel, SparseBackend, local_task

# What mteb and scikit-learn say of their own tasks.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{said}")
    for said in (
        "To copy construct from a tensor",
        "Precision is ill-defined",
        "Mean of empty slice",
        "invalid value encountered in scalar divide",
    )
]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")


@pytest.fixture(scope="module")
def mteb():
    return pytest.importorskip("mteb", reason="the extra mteb is not installed")


class Words:
    """Each word is a feature; what RunModel is to a run."""

    digest = "a1" * 32
    folder = Path("runs/of words")

    def __init__(self, n_features=512):
        self.n_features = n_features

    def of_texts(self, texts):
        Z = np.zeros((len(texts), self.n_features), np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                Z[row, zlib.crc32(word.encode()) % self.n_features] += 1
        return sparse.csr_array(Z)


def write(path, records):
    lines = "".join(json.dumps(record) + "\n" for record in records)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    else:
        path.write_text(lines)


THINGS = ("bread", "river", "engine", "violin")


@pytest.fixture
def texts(tmp_path):
    """Four kinds of texts, each with words of its own; one query per kind."""
    kinds = [(kind, number) for kind in range(4) for number in range(12)]
    labelled = [
        {"text": f"{THINGS[kind]} {THINGS[kind]} note{number}", "label": kind}
        for kind, number in kinds
    ]
    corpus = [
        {"id": f"d{kind}-{number}", "title": THINGS[kind], "text": f"about x{number}"}
        for kind, number in kinds
    ]
    queries = [
        {"id": str(kind), "text": f"a {thing}",
         "relevant": [f"d{kind}-{number}" for number in range(12)]}
        for kind, thing in enumerate(THINGS)
    ]  # fmt: skip
    write(tmp_path / "train.jsonl", labelled)
    write(tmp_path / "test.jsonl.gz", labelled)
    write(tmp_path / "corpus.jsonl.gz", corpus)
    write(tmp_path / "queries_test.jsonl", queries)
    return tmp_path


@pytest.mark.slow
def test_the_mock_tasks_pass_offline(mteb):
    results = mteb.mock_run(MtebModel(Words()))
    ran = [name for name, status in results.items() if status is not None]
    assert len(ran) >= 28
    assert results.all_passed, results.to_markdown()
    assert not any("ImportError" in str(results[name]) for name in ran)


def scores(mteb, model, task):
    (result,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False).task_results
    (found,) = result.scores["test"]
    return result.task_name, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "score"),
    [("SciFact", "ndcg_at_10"), ("CLINC150", "accuracy"), ("20Newsgroups", "v_measure")],
)
def test_a_local_task_of_four_kinds_is_solved(mteb, texts, name, score):
    told, found = scores(mteb, MtebModel(Words()), local_task(name, texts))
    assert told == f"Local{name}"
    assert found["main_score"] == found[score]
    assert found[score] > 0.95


@pytest.mark.slow
def test_a_local_task_tells_a_model_that_knows_nothing(mteb, texts):
    class Nothing(Words):
        def of_texts(self, texts):
            Z = np.zeros((len(texts), self.n_features), np.float32)
            Z[:, 0] = 1
            return sparse.csr_array(Z)

    _, found = scores(mteb, MtebModel(Nothing()), local_task("CLINC150", texts))
    assert found["accuracy"] < 0.5


@pytest.mark.slow
def test_the_index_finds_what_mteb_finds(mteb, texts):
    """Against mteb's own search of all documents by cosine."""
    ours = MtebModel(Words())

    class Dense:
        """The same embeddings without an index."""

        def __init__(self):
            self.mteb_model_meta = ours.mteb_model_meta

        encode = staticmethod(ours.encode)
        similarity = staticmethod(ours.similarity)
        similarity_pairwise = staticmethod(ours.similarity_pairwise)

    _, sparse_scores = scores(mteb, ours, local_task("SciFact", texts))
    _, dense_scores = scores(mteb, Dense(), local_task("SciFact", texts))
    for key in ("ndcg_at_10", "recall_at_10", "map_at_10", "recall_at_100"):
        assert sparse_scores[key] == pytest.approx(dense_scores[key], abs=1e-5), key


@pytest.mark.slow
def test_a_corpus_goes_into_the_index_part_by_part(mteb, texts, monkeypatch):
    _, whole = scores(mteb, MtebModel(Words()), local_task("SciFact", texts))
    monkeypatch.setattr(mteb_model, "_CHUNK", 7)
    _, parts = scores(mteb, MtebModel(Words()), local_task("SciFact", texts))
    assert parts["ndcg_at_10"] == whole["ndcg_at_10"]
    assert parts["recall_at_100"] == whole["recall_at_100"]


def test_embeddings_and_similarities(mteb):
    model = MtebModel(Words())
    Z = model.encode([{"text": ["a b", "a"]}, {"text": ["", "b b"]}])
    assert Z.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), [1, 1, 0, 1], rtol=1e-6)
    half = 0.5**0.5
    expected = [[1, half, 0, half], [half, 1, 0, 0]]
    np.testing.assert_allclose(model.similarity(Z[:2], 3 * Z), expected, atol=1e-6)
    pairs = model.similarity_pairwise(torch.from_numpy(Z[:2]), Z[1:3])
    np.testing.assert_allclose(pairs, [half, 0], atol=1e-6)
    assert model.encode([]).shape == (0, 512)
    meta = model.mteb_model_meta
    assert (meta.name, meta.revision, meta.embed_dim) == ("nonneg/of-words", "a1" * 32, 512)
    assert MtebModel(Words(), name="me/mine").mteb_model_meta.name == "me/mine"


# The backend by itself needs no mteb.


def test_the_backend_against_brute_force():
    generator = np.random.default_rng(0)
    Z = generator.random((50, 20)) * (generator.random((50, 20)) < 0.2)
    Zq = generator.random((8, 20)) * (generator.random((8, 20)) < 0.3)
    backend = SparseBackend()
    ids = [f"d{number}" for number in range(50)]
    backend.add_documents(Z[:30], ids[:30])
    backend.add_documents(torch.from_numpy(Z[30:]), ids[30:])
    unit, unit_q = (z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-9) for z in (Z, Zq))
    expected = unit_q @ unit.T
    cosines, places = backend.search(Zq, 5)
    for row, (found, where) in enumerate(zip(cosines, places, strict=True)):
        best = np.sort(expected[row])[::-1][:5]
        np.testing.assert_allclose(found, best[best > 0], atol=1e-6)
        np.testing.assert_allclose(expected[row, where], found, atol=1e-6)


def test_the_backend_puts_given_documents_in_order():
    backend = SparseBackend()
    backend.add_documents(np.array([[1, 0], [1, 1], [0, 1], [1, 3]]), ["a", "b", "c", "d"])
    cosines, places = backend.search(
        np.array([[1.0, 0.0], [0.0, 2.0]]), 3,
        top_ranked={"q": ["c", "b", "a"]}, query_idx_to_id={0: "q", 1: "other"},
    )  # fmt: skip
    assert places == [[2, 1, 0], []]
    np.testing.assert_allclose(cosines[0], [1, 0.5**0.5, 0], atol=1e-6)
    assert cosines[1] == []
    backend.clear()
    with pytest.raises(ValueError, match="there are no documents"):
        backend.search(np.ones((1, 2)), 1)


# What is wrong is one sentence.


def test_refusals(mteb, texts):
    with pytest.raises(ValueError, match="unknown task 'Scifact'; known: SciFact, CLINC150, 20N"):
        local_task("Scifact", texts)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none; give the one with"):
        local_task("SciFact", texts / "none")
    (texts / "train.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "b"}\n')
    with pytest.raises(ValueError, match=r"line 2 of .*train.jsonl lacks one of text, label"):
        local_task("CLINC150", texts).load_data()
    (texts / "train.jsonl").write_text("{")
    with pytest.raises(ValueError, match=r"line 1 of .*train.jsonl is not readable JSON"):
        local_task("CLINC150", texts).load_data()
    (texts / "corpus.jsonl.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks corpus.jsonl or corpus.jsonl.gz"):
        local_task("SciFact", texts).load_data()


def test_without_the_extra_its_command_is_named(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(mteb_model, "import_module", missing)
    for call in (lambda: MtebModel(Words()), lambda: local_task("SciFact", tmp_path)):
        with pytest.raises(ImportError, match=r"pip install 'nonneg\[mteb\]'"):
            call()
