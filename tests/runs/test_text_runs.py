"""Runs on texts from Python: what they record, what is drawn of many, names without words."""

import json
import sys
from types import ModuleType

import numpy as np
import pytest
from word_sums import KINDS, TEXTS, THINGS, WordSums, installed, write_model

from nonneg.estimators import NCL
from nonneg.runs import fit_run, read_run, run_data, text_files, vector_experiment
from nonneg.runs.text_fits import DEFAULT_ENCODER, embedded_table

QUICK = ["n_components=16", "max_active=3", "max_steps=20"]


@pytest.fixture
def place(tmp_path):
    lines = [
        json.dumps({"text": text, "kind": kind, "year": 2000 + n % 3})
        for n, (text, kind) in enumerate(zip(TEXTS, KINDS, strict=True))
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    np.save(tmp_path / "v.npy", WordSums().encode(TEXTS))
    write_model(tmp_path / "model")
    return tmp_path


def fitted(place, *, out="run", table="t.jsonl", **given):
    given = {"text": "text", "vectors": place / "v.npy", **given}
    files = text_files(place / table, out=place / out, **given)
    experiment, machine = vector_experiment(files, QUICK)
    return fit_run(experiment, out=place / out, machine=machine)


def test_dates_and_labels_go_with_the_vectors(place):
    run = fitted(place, label="kind", date="year")
    train, test = run_data(read_run(run.folder))
    assert (len(train), len(test)) == (216, 24)
    assert train.class_names == tuple(sorted(THINGS))
    _, whole = run_data(read_run(run.folder), split="all")
    assert whole.dates.astype("datetime64[Y]").astype(str)[:4].tolist() == [
        "2000", "2001", "2002", "2000",
    ]  # fmt: skip
    assert [whole.class_names[n] for n in whole.labels] == KINDS
    assert list(whole.texts) == TEXTS


def test_of_many_some_are_drawn(place, monkeypatch):
    monkeypatch.setattr("nonneg.runs.text_fits._MOST_DESCRIBED", 100)
    monkeypatch.setattr("nonneg.runs.record._MOST_VECTORS", 50)
    described = []
    describe = NCL.describe

    def look(ncl, X, **given):
        described.append((X, given["texts"], given["labels"]))
        return describe(ncl, X, **given)

    monkeypatch.setattr(NCL, "describe", look)
    run = fitted(place, label="kind")
    ((X, texts, labels),) = described
    assert len(X) == len(texts) == len(labels) == 100
    assert [KINDS[TEXTS.index(text)] for text in texts] == labels
    np.testing.assert_allclose(X, WordSums().encode(texts), atol=1e-6)
    assert not NCL.load(run.folder).sparse_output
    _, shown = run_data(read_run(run.folder), split="all")
    assert len(shown) == 50


def test_names_of_texts_without_words(place):
    (place / "t.txt").write_text("\n".join("?!" for _ in TEXTS))
    run = fitted(place, table="t.txt", text=None, out="mute")
    assert any("features have no names: the texts hold no word" in note for note in run.notes)
    assert (place / "mute" / "config.json").exists()


def test_labels_that_are_numbers_say_so(place):
    """Where texts tell nothing, names are of labels."""
    lines = [json.dumps({"text": "same words", "n": sorted(THINGS).index(kind)}) for kind in KINDS]
    (place / "n.jsonl").write_text("\n".join(lines))
    run = fitted(place, table="n.jsonl", label="n", out="numbers")
    names = [name for name in run.ncl.feature_names_ if name]
    assert names
    assert all(name.startswith("label ") for name in names)


def test_an_encoder_may_be_named_beside_vectors(place, monkeypatch):
    loaded = installed(monkeypatch)
    run = fitted(place, encoder=place / "model")
    assert read_run(run.folder).fit.data.texts.encoder.width == 16
    files = read_run(run.folder).fit.data
    found = embedded_table(files, place / "t.jsonl", run=run.folder)
    np.testing.assert_array_equal(found.vectors, np.load(place / "v.npy"))
    assert all(one.local for one in loaded)
    np.save(place / "v.npy", np.ones((len(TEXTS), 5)))
    with pytest.raises(ValueError, match=r"has 5 columns, but .*model gives 16; name the encoder"):
        fitted(place, encoder=place / "model", out="other")


def test_a_model_of_the_hub_is_known_by_its_files(place, monkeypatch):
    """Without a name it is the default one."""
    library, hub = ModuleType("sentence_transformers"), ModuleType("huggingface_hub")
    asked = []
    library.SentenceTransformer = lambda name, **_: asked.append(name) or WordSums()

    def snapshot(name, *, local_files_only):
        assert local_files_only
        asked.append(name)
        return str(place / "model")

    hub.snapshot_download = snapshot
    installed(monkeypatch)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    run = fitted(place, vectors=None)
    assert set(asked) == {DEFAULT_ENCODER, f"sentence-transformers/{DEFAULT_ENCODER}"}
    encoder = read_run(run.folder).fit.data.texts.encoder
    assert (encoder.name, encoder.width) == (DEFAULT_ENCODER, 16)
    files = read_run(run.folder).fit.data
    embedded_table(files, place / "t.jsonl", run=run.folder)
    (place / "model" / "weights.bin").write_bytes(b"a new version")
    with pytest.raises(ValueError, match="is not the model that embedded the texts of"):
        embedded_table(files, place / "t.jsonl", run=run.folder)


def test_sparse_vectors_of_empty_texts(place):
    from scipy import sparse

    lines = (place / "t.jsonl").read_text().splitlines()
    lines[3] = json.dumps({"text": None})
    (place / "t.jsonl").write_text("\n".join(lines))
    sparse.save_npz(place / "v.npz", sparse.csr_array(np.load(place / "v.npy")))
    run = fitted(place, vectors=place / "v.npz")
    train, whole = run_data(read_run(run.folder), split="all")
    assert whole.vectors[[3]].nnz == 0
    assert whole.vectors[[2]].nnz == 16
    assert 3 not in train.indices.tolist()
    assert any("1 of 240 texts is empty" in note for note in run.notes)


def test_empty_texts_are_measured_nowhere(place):
    lines = (place / "t.jsonl").read_text().splitlines()
    empty = range(0, 240, 3)
    for number in empty:
        lines[number] = json.dumps({"text": " "})
    (place / "t.jsonl").write_text("\n".join(lines))
    run = fitted(place)
    parts = run_data(read_run(run.folder))
    assert sum(len(part) for part in parts) == 160
    assert not any(set(part.indices.tolist()) & set(empty) for part in parts)
    _, whole = run_data(read_run(run.folder), split="all")
    assert len(whole) == 240  # the page has them all


def test_nothing_but_empty_texts_is_refused(place):
    (place / "t.jsonl").write_text("\n".join([json.dumps({"text": ""})] * 240))
    with pytest.raises(ValueError, match=r"all 240 texts of .*t.jsonl are empty"):
        fitted(place)


def test_all_is_for_fitted_runs(tmp_path):
    from nonneg.runs import read_experiment, run_experiment

    changes = ["training.epochs=1", "training.warmup_epochs=0", "encoder.backbone.width=4"]
    run_experiment(read_experiment("digits", changes)[1], out=tmp_path / "digits")
    with pytest.raises(ValueError, match="was not fitted to vectors; its data is test or train"):
        run_data(read_run(tmp_path / "digits"), split="all")


def test_a_model_that_was_moved_is_the_same(place, monkeypatch):
    """A new run records where it lies now, and a run that is there is not another one."""
    installed(monkeypatch)
    model = place / "model"
    fitted(place, vectors=None, encoder=model)
    moved = model.rename(place / "moved")
    again = fitted(place, vectors=None, encoder=moved)
    assert not again.is_new
    other = fitted(place, vectors=None, encoder=moved, out="other")
    assert read_run(other.folder).fit.data.texts.encoder.name == str(moved)
    assert read_run(other.folder).recipe() == read_run(again.folder).recipe()
    files = read_run(other.folder).fit.data
    assert len(embedded_table(files, place / "t.jsonl", run=other.folder)) == len(TEXTS)


def test_one_record_without_a_label_is_refused_and_a_table_without_labels_is_not(
    place, monkeypatch
):
    installed(monkeypatch)
    run = fitted(place, vectors=None, encoder=place / "model", label="kind", date="year")
    files = read_run(run.folder).fit.data
    records = [
        {"text": text, "kind": kind, "year": 2000} for text, kind in zip(TEXTS, KINDS, strict=True)
    ][:5]

    def embedded(name, *without):
        """The table with columns missing, each in the records of some numbers."""
        told = [
            {key: value for key, value in record.items() if (number, key) not in without}
            for number, record in enumerate(records)
        ]
        (place / name).write_text("\n".join(map(json.dumps, told)))
        return embedded_table(files, place / name, run=run.folder)

    for number in (0, 2):
        with pytest.raises(ValueError, match=f"line {number + 1} of .* has no column 'kind'"):
            embedded("a.jsonl", (number, "kind"))
        with pytest.raises(ValueError, match=f"line {number + 1} of .* has no column 'year'"):
            embedded("a.jsonl", (number, "year"), *((n, "kind") for n in range(5)))
    bare = embedded("a.jsonl", *((n, key) for n in range(5) for key in ("kind", "year")))
    assert (bare.labels, bare.dates) == (None, None)
    dated = embedded("a.jsonl", *((n, "kind") for n in range(5)))
    assert dated.labels is None
    assert len(dated.dates) == 5
    (place / "N.TXT").write_text("rain and snow\n")
    assert len(embedded_table(files, place / "N.TXT", run=run.folder)) == 1
