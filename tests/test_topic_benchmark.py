"""The benchmark of topics: its figures, ranks and bar, and how it is resumed without its peers."""

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module", name="topics")
def topics_module():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        yield import_module("benchmarks.topics")


@pytest.fixture
def folder(tmp_path, monkeypatch, topics):
    """Four kinds of texts with words of their own, as BBC News."""
    rng = np.random.default_rng(0)
    labels = np.arange(160) % 4
    vectors = np.eye(4, 12)[labels] + 0.1 * rng.standard_normal((160, 12))
    np.save(tmp_path / "bbc.npy", vectors.astype(np.float32))
    np.save(tmp_path / "bbc_labels.npy", labels)
    kinds = [[f"{kind}{end}" for end in "abcdefghijkl"] for kind in ("sea", "tax", "sun", "oak")]
    texts = [" ".join(rng.choice(kinds[label], 9, replace=False)) for label in labels]
    (tmp_path / "bbc_raw.json").write_text(json.dumps([{"text": text} for text in texts]))
    monkeypatch.setenv("NONNEG_EMBEDDINGS", str(tmp_path))
    monkeypatch.setitem(topics.SETS, "bbc", topics.SETS["bbc"]._replace(numbers=(4,)))
    absent = {
        name: topics.METHODS[name].__class__(
            topics.METHODS[name].title, topics.METHODS[name].model, needs=("no_such_package",)
        )
        for name in ("bertopic", "senstopic", "s3", "keynmf")
    }
    for name, method in absent.items():
        monkeypatch.setitem(topics.METHODS, name, method)
    return tmp_path


def test_clear_kinds_are_found_and_absent_peers_are_said_to_be(topics, folder, capsys):
    store = topics.Store(folder / topics.FILE)
    runs = topics.measure(["bbc"], list(topics.METHODS), (0, 1), store, is_run=True)
    for method in ("ncl", "kmeans"):
        found = runs["bbc", 4, method]
        assert [run["k"] for run in found] == [4, 4]
        assert min(run["ami"] for run in found) == pytest.approx(1)
        assert min(run["intruder"] for run in found) == 1
        assert min(run["diversity"] for run in found) == 1
        assert topics.stability(found) == pytest.approx(1)
        kinds = [{word[:3] for word in words} for words in found[0]["words"]]
        assert sorted(kinds, key=min) == [{"oak"}, {"sea"}, {"sun"}, {"tax"}]
    assert runs["bbc", 4, "bertopic"] == "not installed: no_such_package"
    text = "\n\n".join(topics.tables(runs))
    assert "| BERTopic | not installed: no_such_package |" in text
    assert "Bar of BBC News" in text


def test_what_is_there_is_not_measured_again(topics, folder, monkeypatch, capsys):
    path = folder / topics.FILE
    first = topics.measure(["bbc"], ["kmeans"], (0,), topics.Store(path), is_run=True)
    monkeypatch.setattr(
        topics.METHODS["kmeans"].__class__, "run", lambda *_: pytest.fail("measured again")
    )
    again = topics.measure(["bbc"], ["kmeans"], (0,), topics.Store(path), is_run=True)
    assert repr(again) == repr(first)
    others = topics.measure(["bbc"], ["kmeans"], (7,), topics.Store(path), is_run=False)
    assert others["bbc", 4, "kmeans"] == "not measured"


def runs_of(**figures):
    keys = ("npmi", "c_npmi", "ami", "intruder")
    return {
        ("bbc", 10, method): [dict(zip(keys, values, strict=True), npmi_new=np.nan)]
        for method, values in figures.items()
    }


def test_ranks_are_means_over_the_three_figures_and_ties_share_theirs(topics):
    some = {m: f for (_, _, m), f in runs_of(ncl=(3, 0, 2, 1), kmeans=(2, 0, 3, 1)).items()}
    some["ncl-features"] = [{"npmi": 9, "c_npmi": 9, "ami": 9, "intruder": 9}]  # is not ranked
    some["s3"] = "not installed"
    assert topics.mean_ranks(some) == {"ncl": 1.5, "kmeans": 1.5}


def test_the_bar_wants_the_best_rank_and_no_figure_far_behind(topics):
    held = topics.bar("bbc", runs_of(ncl=(0.5, 0.5, 0.69, 0.9), kmeans=(0.4, 0.4, 0.7, 0.9)))
    assert "with NPMI it is **missed**" in held  # the same rank
    held = topics.bar("bbc", runs_of(ncl=(0.5, 0.1, 0.7, 0.9), kmeans=(0.4, 0.2, 0.71, 0.8)))
    assert "with NPMI it is held: mean rank 1.33 (next 1.67)" in held
    assert "with c_npmi in its place it is **missed**" in held
    assert "new texts" not in held
    far = topics.bar("bbc", runs_of(ncl=(0.5, 0.5, 0.66, 0.9), kmeans=(0.4, 0.4, 0.7, 0.8)))
    assert "held" not in far
    assert "ami 0.040" in far


def test_a_text_without_a_topic_is_none_and_ties_are_drawn(topics):
    methods = import_module("benchmarks.topic_methods")
    found = methods._strongest([["a"], ["b"]], np.array([[0.2, 0.9], [0.0, 0.0], [-1.0, -2.0]]))
    assert found.assigned.tolist() == [1, -1, -1]
    labels = np.arange(60) % 2
    corpus = methods.Corpus(["aa bb", "cc dd"] * 30, np.eye(2)[labels], labels)
    made = methods.Topics([["aa", "bb"], ["cc", "dd"]], np.where(labels, 1, 0), np.ones(60), 1.5)
    figures = topics.figures(made, corpus, 0, ["aa cc", "bb dd", "aa bb"])
    assert figures["npmi_new"] == pytest.approx((np.log(3 / 4) / np.log(3) - 1) / 2)
    assert (figures["npmi"], figures["ami"], figures["intruder"]) == (
        pytest.approx(1),
        pytest.approx(1),
        1,
    )
    assert (figures["none"], figures["seconds"], figures["k"]) == (0, 1.5, 2)


def test_words_of_classes_are_those_of_loops(topics):
    methods = import_module("benchmarks.topic_methods")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["red", "blue", "green", "gold"], 6)) for _ in range(40)]
    corpus = methods.Corpus(texts, np.ones((40, 2)), np.zeros(40, int))
    assigned = rng.integers(3, size=40)
    found = methods.class_words(corpus, assigned)
    counts = [dict.fromkeys(("red", "blue", "green", "gold"), 0) for _ in range(3)]
    for text, topic in zip(texts, assigned, strict=True):
        for word in text.split():
            counts[topic][word] += 1
    average = sum(sum(own.values()) for own in counts) / 3
    for words, own in zip(found, counts, strict=True):
        score = {
            word: n / sum(own.values()) * np.log(1 + average / sum(c[word] for c in counts))
            for word, n in own.items()
        }
        assert words == sorted(score, key=score.get, reverse=True)
