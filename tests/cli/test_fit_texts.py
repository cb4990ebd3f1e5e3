"""From a table of texts to features, names and a page, in one command; what follows knows them."""

import csv
import gzip
import json
import re

import numpy as np
import pytest
from word_sums import KINDS, TEXTS, THINGS, WordSums, installed, write_model

import nonneg as library
from nonneg.data.feature_file import read_features

QUICK = ["--set", "max_steps=60", "--set", "n_components=32", "--set", "max_active=4"]
COLUMNS = ["--text", "body", "--label", "kind", "--date", "day"]
EMPTY = (7, 60)
ROWS = [
    [number, "" if number in EMPTY else text, kind, f"2024-{number % 12 + 1:02d}"]
    for number, (text, kind) in enumerate(zip(TEXTS, KINDS, strict=True))
]


def write_table(path, rows, header=("id", "body", "kind", "day")):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    write_table(folder / "reviews.csv", ROWS)
    write_model(folder / "model")
    return folder


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture(scope="module")
def said(nonneg, place):
    with pytest.MonkeyPatch.context() as patched:
        installed(patched)
        given = ["--encoder", "model", *QUICK, "--out", "runs/reviews"]
        ended = nonneg("fit", "reviews.csv", *COLUMNS, *given, cwd=place)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def run(said, place):
    return place / "runs" / "reviews"


def page(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])


def test_the_command_says_what_it_did(said, run):
    assert "2 of 240 texts are empty: kept, with no feature on" in said
    assert "samples learnt from" in said
    assert "strongest features" in said
    names = library.NCL.load(run).feature_names_
    words = {word for things in THINGS.values() for word in things}
    assert sum(bool(set(name.split(", ")) & words) for name in names if name) > 4
    for number in library.NCL.load(run).rank_[:10]:
        assert names[number] in said
    assert re.search(
        rf"the atlas \([\d.]+ MB, 240 texts\): {run.relative_to(run.parents[1])}", said
    )
    assert "next: nonneg evaluate runs/reviews" in said
    with (run / "features.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert {row["name"] for row in table} <= {*names, ""}
    assert {row["label"] for row in table} <= {*THINGS, ""}
    assert {text for row in table for text in row["examples"].split(" · ")} <= set(TEXTS)


def test_the_run_knows_its_texts_and_its_encoder(run, place):
    data = json.loads((run / "run.json").read_text())["settings"]["data"]
    texts = data["texts"]
    assert texts["table"] == str(place / "reviews.csv")
    assert (texts["text"], texts["label"], texts["date"]) == ("body", "kind", "day")
    assert texts["encoder"]["name"] == str(place / "model")
    assert len(texts["encoder"]["digest"]) == len(texts["digest"]) == 64
    vectors = np.load(data["vectors"])
    assert not vectors[list(EMPTY)].any()
    others = [number for number in range(len(TEXTS)) if number not in EMPTY]
    expected = WordSums().encode([TEXTS[number] for number in others])
    np.testing.assert_array_equal(vectors[others], expected)
    assert data["vectors"].startswith(str(place / "runs" / "text-vectors"))


def test_empty_texts_are_not_learnt_from(run, place):
    from nonneg.data import split_off
    from nonneg.data.vectors import VectorData

    data = json.loads((run / "run.json").read_text())["settings"]["data"]
    vectors = np.load(data["vectors"])
    train, _ = split_off(VectorData(vectors), 24)
    rows = [row for row in train.indices.tolist() if row not in EMPTY]
    arguments = {"max_steps": 60, "n_components": 32, "max_active": 4, "random_state": 0}
    ncl = library.NCL(**arguments).fit(vectors[rows])
    np.testing.assert_array_equal(library.NCL.load(run).transform(vectors), ncl.transform(vectors))
    assert not ncl.transform(vectors)[list(EMPTY)].any()
    assert not library.Encoder.load(run).encode(vectors).features[list(EMPTY)].any()


def test_the_page_shows_all_texts_with_labels(run):
    content = page(run / "atlas.html")
    assert content["class_names"] == sorted(THINGS)
    shown = json.dumps(content)
    assert TEXTS[0] in shown
    assert TEXTS[-1] in shown
    names = library.NCL.load(run).feature_names_
    shown = content["features"]["names"]
    assert [name for name, own in zip(shown, names, strict=True) if own] == list(
        filter(None, names)
    )


def test_the_same_command_again_only_reads(nonneg, place, run, loaded):
    given = ["fit", "reviews.csv", *COLUMNS, "--encoder", "model", *QUICK, "--out", "runs/reviews"]
    for name in ("atlas.html", "features.csv"):
        (run / name).unlink()
    ended = nonneg(*given, cwd=place)
    assert ended.returncode == 0, ended.stderr
    assert "already done: runs/reviews" in ended.stdout
    assert (run / "atlas.html").exists()
    assert (run / "features.csv").exists()
    assert loaded == []
    ended = nonneg(*given, cwd=place)
    assert "the atlas" not in ended.stdout


def test_embed_reads_another_table_by_the_same_encoder(nonneg, place, run, tmp_path):
    rows = [["snow and wind", "weather"], [" ", "food"], ["a pizza and a curry", "tea"]]
    write_table(tmp_path / "newer.csv", rows, header=("words", "kind"))
    out = tmp_path / "newer.npz"
    ended = nonneg("embed", run, tmp_path / "newer.csv", "--text", "words", "--out", out)
    assert ended.returncode == 0, ended.stderr
    features, beside = read_features(out)
    features = features.toarray() if hasattr(features, "toarray") else features
    expected = library.NCL.load(run).transform(WordSums().encode([rows[0][0], rows[2][0]]))
    np.testing.assert_allclose(features[[0, 2]], expected, atol=1e-6)
    assert not features[1].any()
    assert beside["class_names"].tolist() == ["food", "tea", "weather"]
    assert beside["labels"].tolist() == [2, 0, 1]
    ended = nonneg("embed", run, tmp_path / "newer.csv", "--out", out)
    assert "has no column 'body' for --text; it has: words, kind" in ended.stderr
    (tmp_path / "newer.txt").write_text("snow and wind\n")
    assert nonneg("embed", run, tmp_path / "newer.txt", "--out", out).returncode == 0


def test_another_model_is_refused(nonneg, place, run, tmp_path):
    write_table(tmp_path / "newer.csv", ROWS[:5])
    other = write_model(tmp_path / "other")
    out = ["--out", tmp_path / "newer.npz"]
    moved = nonneg("embed", run, tmp_path / "newer.csv", "--encoder", other, *out)
    assert moved.returncode == 0, moved.stderr  # the same files
    (other / "weights.bin").write_bytes(b"changed")
    ended = nonneg("embed", run, tmp_path / "newer.csv", "--encoder", other, *out)
    assert re.search("is not the model that embedded the texts of .*; give the model", ended.stderr)


def test_evaluate_compare_and_report_know_the_texts(nonneg, place, run, tmp_path):
    given = ["--encoder", "model", *QUICK, "--set", "seed=1", "--no-page"]
    before = sorted((place / "runs" / "text-vectors").iterdir())
    other = nonneg("fit", "reviews.csv", *COLUMNS, *given, "--out", "runs/other", cwd=place)
    assert other.returncode == 0, other.stderr
    assert not (place / "runs" / "other" / "atlas.html").exists()
    assert sorted((place / "runs" / "text-vectors").iterdir()) == before  # both read the same
    for name in ("reviews", "other"):
        ended = nonneg("evaluate", f"runs/{name}", "--only", "properties,neighbours", cwd=place)
        assert ended.returncode == 0, ended.stderr
    found = json.loads((run / "evaluation.json").read_text())
    assert found["data"]["test"] == {"name": "reviews.csv", "n_samples": 24}
    assert "top-20 purity" in ended.stdout
    assert nonneg("compare", "runs/reviews", "runs/other", cwd=place).returncode == 0
    ended = nonneg("report", run, "--out", tmp_path / "a.html", "--split", "test")
    assert ended.returncode == 0, ended.stderr
    assert "24 samples" in ended.stdout
    ended = nonneg("report", run, "--out", tmp_path / "b.html")
    assert "240 samples" in ended.stdout
    write_table(tmp_path / "newer.csv", ROWS[::7])
    ended = nonneg("report", run, "--data", tmp_path / "newer.csv", "--out", tmp_path / "c.html")
    assert ended.returncode == 0, ended.stderr
    assert f"{len(ROWS[::7])} samples" in ended.stdout
    assert TEXTS[14] in json.dumps(page(tmp_path / "c.html"))


def test_vectors_that_exist_are_taken(nonneg, place, tmp_path, loaded):
    rows = WordSums().encode(TEXTS)
    np.save(tmp_path / "v.npy", rows)
    given = ["--vectors", tmp_path / "v.npy", *QUICK, "--no-page", "--out", tmp_path / "run"]
    ended = nonneg("fit", place / "reviews.csv", *COLUMNS, *given)
    assert ended.returncode == 0, ended.stderr
    assert loaded == []
    from nonneg.runs import read_run, run_data

    train, shown = run_data(read_run(tmp_path / "run"), split="all")
    assert not shown.vectors[list(EMPTY)].any()  # whatever the model says of an empty text
    assert shown.vectors[0].any()
    assert shown.texts[8] == TEXTS[8]
    assert shown.dates.astype(str)[3] == "2024-04-01"
    assert not set(EMPTY) & set(train.indices.tolist())
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), rows)  # the file stays as it is
    ended = nonneg("embed", tmp_path / "run", place / "reviews.csv")
    assert "does not know what embedded its texts; embed" in ended.stderr
    np.save(tmp_path / "v.npy", rows[:-1])
    ended = nonneg("fit", place / "reviews.csv", *COLUMNS, *given[:-1], tmp_path / "other")
    assert re.search(r"v\.npy has 239 rows for the 240 texts of .*reviews\.csv", ended.stderr)


def test_lost_vectors_are_made_anew_and_a_changed_table_is_not_measured_on(nonneg, place, tmp_path):
    table = write_table(tmp_path / "t.csv", ROWS)
    given = [*COLUMNS, "--encoder", place / "model", *QUICK, "--no-page", "--out", tmp_path / "run"]
    assert nonneg("fit", table, *given).returncode == 0
    (vectors,) = (tmp_path / "text-vectors").glob("*.npy")
    content = vectors.read_bytes()
    vectors.unlink()
    ended = nonneg("evaluate", tmp_path / "run")
    assert "are gone" in ended.stderr
    assert "command of this run again, which makes them anew" in ended.stderr
    assert "already done" in nonneg("fit", table, *given).stdout
    assert vectors.read_bytes() == content
    write_table(table, ROWS[1:])
    ended = nonneg("evaluate", tmp_path / "run")
    assert "t.csv has changed since the run was fitted to it" in ended.stderr


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["reviews.csv"], "has the columns id, body, kind, day; name the one that holds the texts"),
        (["reviews.csv", "--text", "boy"], "no column 'boy' for --text; it has: id, body, kind"),
        (["reviews.csv", "--text", "body", "--labels", "y.npy"], "use --label for a column"),
        (["reviews.csv", "--text", "body", "--test", "x.npy"], "--test is for vectors; leave it"),
        (["x.npy", "--label", "kind"], "--label is for texts, and x.npy holds vectors; give a csv"),
        (["reviews.csv", *COLUMNS, "--set", "max_step=3"], "unknown setting 'max_step'"),
        (["reviews.csv", *COLUMNS, "--encoder", "./no"], "there is no folder no"),
        (["reviews.csv", *COLUMNS, "--encoder", "."], "holds no sentence-transformers model"),
        (["reviews.csv", *COLUMNS, "--out", "model"], "is not empty and holds no run"),
        (["none.csv", *COLUMNS], "there is no file none.csv"),
    ],
)  # fmt: skip
def test_refusals_come_before_any_work(nonneg, place, loaded, given, sentence):
    ended = nonneg("fit", *given, cwd=place)
    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert loaded == []


def test_texts_need_a_run_on_texts(nonneg, tmp_path):
    np.save(tmp_path / "x.npy", WordSums().encode(TEXTS))
    out = tmp_path / "run"
    assert nonneg("fit", tmp_path / "x.npy", *QUICK, "--out", out).returncode == 0
    (tmp_path / "t.txt").write_text("rain\n")
    ended = nonneg("embed", out, tmp_path / "t.txt")
    assert "was not fitted to texts; embed" in ended.stderr


def test_texts_of_one_per_line(nonneg, place, tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(TEXTS))
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress((tmp_path / "t.txt").read_bytes()))
    ended = nonneg("fit", "t.txt.gz", "--encoder", place / "model", *QUICK, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert page(tmp_path / "runs" / "t" / "atlas.html")["class_names"] == []


def test_the_demo_of_texts(nonneg, tmp_path):
    ended = nonneg("demo", "--texts", "--out", tmp_path / "demo")
    assert ended.returncode == 0, ended.stderr
    assert "strongest features" in ended.stdout
    assert "3,000 texts" in ended.stdout
    run = tmp_path / "demo" / "requests"
    names = [name for name in library.NCL.load(run).feature_names_ if name]
    assert len(set(names)) > 200
    content = page(run / "atlas.html")
    assert len(content["class_names"]) == 75
    again = nonneg("demo", "--texts", "--out", tmp_path / "demo")
    assert again.returncode == 0, again.stderr
