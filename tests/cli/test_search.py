"""``nonneg index`` and ``nonneg search``: what is like a text, a vector or a sample, and why."""

import csv
import json
import os
import re
import shutil
from itertools import count

import numpy as np
import pytest
from word_sums import KINDS, TEXTS, WordSums, installed, write_model

import nonneg as library
from nonneg.data.arrays import npy_array
from nonneg.io import write_json
from nonneg.runs import RunSearch, index_run, search_run
from nonneg.search import idf_weights

QUICK = ["--set", "max_steps=60", "--set", "n_components=32", "--set", "max_active=4"]


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture(scope="module")
def place(nonneg, tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    with (folder / "reviews.csv").open("w", newline="") as file:
        rows = [(f"no {n}", TEXTS[n], KINDS[n]) for n in range(len(TEXTS))]
        csv.writer(file).writerows([("id", "body", "kind"), *rows])
    write_model(folder / "model")
    np.save(folder / "x.npy", WordSums().encode(TEXTS))
    with pytest.MonkeyPatch.context() as patched:
        installed(patched)
        for out, source in {
            "run": ("reviews.csv", "--text", "body", "--label", "kind", "--encoder", "model"),
            "vectors": ("x.npy", "--set", "max_steps=50"),
        }.items():
            ended = nonneg("fit", *QUICK, *source, "--out", out, cwd=folder)
            assert ended.returncode == 0, ended.stderr
        ended = nonneg("index", "run", "reviews.csv", "--id", "id", cwd=folder)
        assert ended.returncode == 0, ended.stderr
        assert f"{len(TEXTS)} samples × " in ended.stdout
        assert " kB: run/index" in ended.stdout  # not 0.0 MB
        assert "next: nonneg search run QUERY" in ended.stdout
        ended = nonneg("index", "vectors", "x.npy", "--out", "near/x", "--half", cwd=folder)
        assert "next: nonneg search vectors QUERY --index near/x" in ended.stdout, ended.stderr
    return folder


def test_a_text_finds_texts_and_says_why(nonneg, place):
    ended = nonneg("search", "run", TEXTS[5], "-k", 3, cwd=place)
    assert ended.returncode == 0, ended.stderr
    assert TEXTS[5] in ended.stdout
    assert "no 5" in ended.stdout
    assert KINDS[5] in ended.stdout
    assert ended.stdout.startswith("query: ")

    found = search_run(place / "run", TEXTS[5], k=5)
    assert found.samples[0].cosine == pytest.approx(1, abs=1e-5)
    ncl = library.NCL.load(place / "run")
    queries = ncl.transform(WordSums().encode([TEXTS[5]]))
    expected = library.SparseIndex.of(ncl.transform(np.load(place / "x.npy"))).search(queries, 5)
    assert [s.id for s in found.samples] == [f"no {n}" for n in expected.ids[0]]
    for sample in found.samples:
        number = int(sample.id.split()[1])
        assert (sample.text, sample.label) == (TEXTS[number], KINDS[number])
        assert sum(s.contribution for s in sample.why.shared) == pytest.approx(sample.cosine)
        assert [s.name for s in sample.why.shared] == [
            ncl.feature_names_[s.feature] for s in sample.why.shared
        ]


def test_a_query_can_be_edited_by_name(nonneg, place):
    strongest = search_run(place / "run", TEXTS[5]).query.shared[0]
    without = search_run(place / "run", TEXTS[5], without=[strongest.feature])
    assert strongest.feature not in [s.feature for s in without.query.shared]
    assert all(strongest.feature not in [f.feature for f in s.why.shared] for s in without.samples)
    boosted = search_run(place / "run", TEXTS[5], boost={strongest.feature: 3})
    assert boosted.query.shared[0].contribution > strongest.contribution
    ended = nonneg("search", "run", TEXTS[5], "--without", strongest.name, cwd=place)
    assert ended.returncode == 0, ended.stderr
    assert f"{strongest.name} " not in ended.stdout.splitlines()[0]
    ended = nonneg("search", "run", TEXTS[5], "--boost", f"{strongest.feature}=3", cwd=place)
    assert ended.returncode == 0, ended.stderr


def test_an_edit_without_effect_is_said(nonneg, place):
    query = search_run(place / "run", TEXTS[5]).query
    on = {s.feature for s in query.shared}
    off = next(n for n in range(len(on) + 1) if n not in on)
    ended = nonneg("search", "run", TEXTS[5], "--without", str(off), cwd=place)
    assert "the query has none of the features that were to be left out" in ended.stdout
    assert search_run(place / "run", TEXTS[5], without=[min(on)]).note is None


def test_the_index_in_the_folder_of_another_run_is_not_to_be_replaced(nonneg, place):
    ended = nonneg("search", "vectors", "--like", "3", "--index", "run/index", cwd=place)
    assert ended.returncode == 1
    said = " ".join(ended.stderr.split())
    assert "leave out --index, and make one with: nonneg index vectors DATA" in said
    assert "--out" not in said


def test_samples_and_rows_are_queries_too(place):
    like = search_run(place / "run", like="no 9", k=4)
    assert like.samples[0].cosine == pytest.approx(1, abs=1e-5)
    row = search_run(place / "run", row=9, of=str(place / "reviews.csv"), k=4)
    np.testing.assert_allclose(
        [s.cosine for s in row.samples], [s.cosine for s in like.samples], atol=1e-5
    )
    index, vectors = place / "near" / "x", np.load(place / "x.npy")
    answers = [
        search_run(place / "vectors", index=index, k=3, **query)
        for query in (
            {"query": vectors[9]},
            {"query": " ".join(map(str, vectors[9].tolist()))},
            {"row": 9, "of": str(place / "x.npy")},
            {"like": "9"},
        )
    ]
    assert len({tuple(s.id for s in found.samples) for found in answers[:3]}) == 1
    for found in answers:
        cosines = [s.cosine for s in found.samples]
        np.testing.assert_allclose(cosines, [s.cosine for s in answers[0].samples], atol=1e-4)
    assert answers[0].samples[0].cosine == pytest.approx(1, abs=1e-4)
    assert answers[0].samples[0].text is None


def test_a_label_narrows_the_search(place):
    whole = search_run(place / "run", TEXTS[5], k=len(TEXTS)).samples
    found = search_run(place / "run", TEXTS[5], k=len(TEXTS), label=KINDS[5]).samples
    assert [s.id for s in found] == [s.id for s in whole if s.label == KINDS[5]]
    assert found


def test_rare_features_may_count_more(nonneg, place, tmp_path):
    ended = nonneg("index", "run", "reviews.csv", "--idf", "--out", tmp_path / "i", cwd=place)
    assert ended.returncode == 0, ended.stderr
    Z = library.NCL.load(place / "run").transform(np.load(place / "x.npy"))
    weighted = RunSearch(place / "run", tmp_path / "i")
    np.testing.assert_allclose(weighted.index.weights, idf_weights(Z), rtol=1e-5)
    found = search_run(place / "run", TEXTS[5], index=tmp_path / "i")
    for sample in found.samples:
        assert sum(s.contribution for s in sample.why.shared) == pytest.approx(sample.cosine)


def test_a_query_without_features_finds_nothing(nonneg, place):
    names = [f"--without={n}" for n in range(library.NCL.load(place / "run").encoder_.n_features)]
    ended = nonneg("search", "run", TEXTS[5], *names, cwd=place)
    assert "no active feature" in ended.stdout


def test_an_index_is_replaced_and_nothing_is_left_over(place, tmp_path):
    for kept in (len(TEXTS), 10):
        table = tmp_path / "some.jsonl"
        lines = [json.dumps({"body": TEXTS[n], "kind": KINDS[n]}) for n in range(kept)]
        table.write_text("\n".join(lines))
        index_run(place / "run", str(table), out=tmp_path / "index")
        assert len(RunSearch(place / "run", tmp_path / "index").index) == kept
        assert len(list((tmp_path / "index").glob("beside-*"))) == 3
        assert len(list((tmp_path / "index").glob("part-*"))) == 1


def test_what_a_killed_writer_left_in_the_index_is_removed(place, tmp_path):
    (tmp_path / ".beside-0123456789abcdef-text-bytes.npy.ab12cd_9.part").write_bytes(b"half")
    index_run(place / "vectors", str(place / "x.npy"), out=tmp_path)
    assert not list(tmp_path.glob(".beside*"))


def _told(**changes):
    def change(index):
        facts = json.loads((index / "index.json").read_text())
        write_json(index / "index.json", {**facts, "about": {**facts["about"], **changes}})

    return change


def _part(name):
    def change(index):
        facts = json.loads((index / "index.json").read_text())
        write_json(index / "index.json", {**facts, "part": name})

    return change


def _labels(labels):
    def change(index):
        (path,) = index.glob("beside-*-labels.npy")
        np.save(path, labels)

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_told(files=["a"]), "does not say what lies beside the index; build it again"),
        (_told(files={"labels": 3}), "does not say what lies beside the index"),
        (_told(files={"labels": "/dev/zero"}), "no index has a file of this name"),
        (_told(files={"labels": "../../x.npy"}), "no index has a file of this name"),
        (_told(files={"labels": "beside-/../x.npy"}), "no index has a file of this name"),
        (_part(".."), r"not describe a whole index \(its part is '\.\.'\); build it again"),
        (_part("part-1/.."), "not describe a whole index"),
        (_part(1), "not describe a whole index"),
        (_told(class_names="abc"), "does not say what lies beside the index"),
        (_told(class_names=[1]), "does not say what lies beside the index"),
        (_labels(np.array(3)), r"cannot be read \(it holds int64 \(\)\); build the index again"),
        (_labels(np.ones(240)), r"cannot be read \(it holds float64 \(240,\)\)"),
        (_labels(np.full(240, 9)), "the label 9 of 4; build it again"),
        (_labels(np.full(240, -1)), "the label -1 of 4; build it again"),
    ],
)
def test_what_is_damaged_beside_an_index_is_said(place, tmp_path, damage, said):
    shutil.copytree(place / "run" / "index", tmp_path / "index")
    damage(tmp_path / "index")
    with pytest.raises(ValueError, match=said):
        search_run(place / "run", TEXTS[5], index=tmp_path / "index")


def test_an_index_that_cannot_be_written_leaves_the_old_one(place, tmp_path, monkeypatch):
    source = str(place / "reviews.csv")
    index_run(place / "run", source, out=tmp_path / "index")
    before = sorted((tmp_path / "index").rglob("*"))
    sync, n_failed = os.fsync, 0
    for fails_at in range(1, 20):
        counted = count()

        def full(handle, counted=counted, fails_at=fails_at):
            if next(counted) == fails_at:
                raise OSError(28, "No space left on device")
            sync(handle)

        with monkeypatch.context() as patched:
            patched.setattr("nonneg.io.os.fsync", full)
            try:
                index_run(place / "run", source, out=tmp_path / "index")
            except OSError as error:
                assert str(error).endswith("No space left on device")  # noqa: PT017
                n_failed += 1
                assert sorted((tmp_path / "index").rglob("*")) == before
        before = sorted((tmp_path / "index").rglob("*"))
        assert len(search_run(place / "run", TEXTS[0], index=tmp_path / "index").samples) == 10
    assert n_failed >= 6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["search", "run"], "give one query"),
        (["search", "lost", "tea"], "there is no run lost; give the folder of one"),
        (["search", "run", "tea", "--like", "no 3"], "give one query"),
        (["search", "run", "--row", 3], "give both its number and the file"),
        (["search", "run", " "], "the query is an empty text"),
        (["search", "run", "--like", "no 999"], "there is no sample with id 'no 999'"),
        (["search", "run", "1, 2, 3"], r"has 3 numbers; run reads vectors of \d+"),
        (["search", "run", "--row", 999, "--of", "x.npy"], "there is no row 999"),
        (["search", "run", "tea", "--label", "none"], "has the label 'none'; known: "),
        (["search", "run", "tea", "--boost", "tea"], "--boost takes a feature and its factor"),
        (["search", "run", "tea", "--without", "zebra"], "no feature is called 'zebra'"),
        (["search", "run", "tea", "--boost", "0=nan"], "boosted by NaN; use a factor from 0 on"),
        (["search", "run", "tea", "--index", "near/x"], "is the index of another run"),
        (["search", "run", "tea", "--index", "none"], "none holds no index; make one: nonneg ind"),
        (["search", "vectors", "tea"], "vectors/index holds no index; make one: nonneg index vec"),
        (["search", "vectors", "tea", "--index", "near/x"], "was not fitted to texts"),
        (["search", "vectors", "--like", "a", "--index", "near/x"], "called by their row numbers"),
        (["search", "vectors", "--like", 3, "--index", "near/x", "--label", "a"], "have no labels"),
        (["index", "run", "reviews.csv", "--id", "name"], "has no column 'name' to take ids from"),
        (["index", "run", "reviews.csv", "--id", "kind"], "ids holds one twice"),
        (["index", "vectors", "x.npy", "--id", "a"], "has no columns to take ids from"),
        (["index", "vectors", "reviews.csv"], "was not fitted to texts"),
        (["index", "lost", "x.npy"], "there is no run lost; give the folder of one"),
        (["index", "run", "reviews.csv", "--out", "model"], "holds something else than an index"),
    ],
)
def test_refusals_are_one_sentence(nonneg, place, arguments, sentence):
    before = sorted(place.rglob("*"))
    ended = nonneg(*arguments, cwd=place)
    assert ended.returncode == 1
    assert re.search(sentence, ended.stderr), ended.stderr
    assert ended.stderr.count("\n") == 1
    assert sorted(place.rglob("*")) == before


def test_a_curated_run_needs_its_index_again(nonneg, place, tmp_path):
    index_run(place / "run", str(place / "reviews.csv"), out=tmp_path / "index")
    ncl = library.NCL.load(place / "run")
    try:
        write_json(tmp_path / "changes.json", {"hide": [int(ncl.rank_[0])]})
        assert nonneg("curate", place / "run", tmp_path / "changes.json").returncode == 0
        with pytest.raises(ValueError, match="or curated since; build it again with: nonneg index"):
            search_run(place / "run", "tea", index=tmp_path / "index")
    finally:
        nonneg("curate", place / "run", "--undo")
    assert search_run(place / "run", "tea", index=tmp_path / "index").samples


def test_numbers_beyond_float32_are_one_sentence(nonneg, place, tmp_path):
    np.save(tmp_path / "large.npy", np.full((3, WordSums().encode(["tea"]).shape[1]), 1e300))
    ended = nonneg("index", "vectors", tmp_path / "large.npy", "--out", tmp_path / "i", cwd=place)
    assert "numbers beyond float32) in 3 of 3 rows" in ended.stderr
    assert ended.stderr.count("\n") == 1
    n_inputs = WordSums().encode(["tea"]).shape[1]
    ended = nonneg(
        "search", "vectors", " ".join(["1e300"] * n_inputs), "--index", "near/x", cwd=place
    )
    assert "numbers beyond float32" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_as_many_samples_as_nobody_has_take_no_memory(place):
    found = search_run(place / "run", TEXTS[5], k=10**12)
    assert 10 < len(found.samples) <= len(TEXTS)
    assert found.samples[:10] == search_run(place / "run", TEXTS[5]).samples


@pytest.mark.parametrize("content", ['{"pages": []}', "[]", '{"mappings": {}}'])
def test_an_index_of_something_else_is_left_alone(nonneg, place, tmp_path, content):
    """Sites and other engines have files of this name too."""
    (tmp_path / "part-1").mkdir()
    (tmp_path / "index.json").write_text(content)
    ended = nonneg("index", "vectors", "x.npy", "--out", tmp_path, cwd=place)
    assert ended.stderr == (
        f"error: {tmp_path} holds something else than an index; choose another folder\n"
    )
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["index.json", "part-1"]
    assert (tmp_path / "index.json").read_text() == content


def test_a_damaged_index_is_built_again(place, tmp_path):
    shutil.copytree(place / "run" / "index", tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text('{"nonneg": "ind')
    with pytest.raises(ValueError, match="build it again with nonneg index"):
        search_run(place / "run", "tea", index=tmp_path / "index")
    index_run(place / "run", str(place / "reviews.csv"), out=tmp_path / "index")
    assert search_run(place / "run", "tea", index=tmp_path / "index").samples


@pytest.mark.parametrize("late", ["search.sparse_index.npy_array", "runs.indexing.npy_array"])
def test_an_index_may_be_replaced_while_it_is_opened(place, tmp_path, monkeypatch, late):
    """Its reader has seen which files there are, and then they go."""
    source, opened = str(place / "reviews.csv"), count()
    index_run(place / "run", source, out=tmp_path / "index")
    before = search_run(place / "run", "tea", index=tmp_path / "index")

    def reading(path, **chosen):
        if next(opened) == 0:
            index_run(place / "run", source, out=tmp_path / "index")
        return npy_array(path, **chosen)

    monkeypatch.setattr(f"nonneg.{late}", reading)
    assert search_run(place / "run", "tea", index=tmp_path / "index") == before
    assert next(opened) > 1


def test_an_index_is_of_the_run_as_it_was_all_the_time(place, tmp_path):
    shutil.copytree(place / "vectors", tmp_path / "run")

    def curated(n_done, n_samples):
        write_json(tmp_path / "changes.json", {"hide": [0]})
        library.NCL.load(tmp_path / "run").curate(tmp_path / "changes.json").save(tmp_path / "run")

    with pytest.raises(ValueError, match="fitted or curated meanwhile; give the command again"):
        index_run(tmp_path / "run", str(place / "x.npy"), watch=curated)


def test_texts_of_others_do_not_command_the_terminal(nonneg, place, tmp_path):
    """One could clear the screen, or write to the clipboard."""
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        rows = [(TEXTS[n] + "\x1b]52;c;aGk=\x07 \x9b2J [bold]", KINDS[n]) for n in range(20)]
        csv.writer(file).writerows([("body", "kind"), *rows])
    index_run(place / "run", str(tmp_path / "reviews.csv"), out=tmp_path / "index")
    ended = nonneg("search", "run", TEXTS[5], "--index", tmp_path / "index", cwd=place)
    assert ended.returncode == 0, ended.stderr
    assert "�]52;c;aGk=� �2J" in ended.stdout
    assert not any(letter in ended.stdout for letter in "\x1b\x07\x9b")
    ended = nonneg("index", "run", "lost\x1b[2J.csv", cwd=place)
    assert ended.stderr == "error: there is no file lost�[2J.csv\n"
