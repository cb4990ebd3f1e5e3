"""Many parquet files from the command line: fitted to and embedded, of vectors and of texts."""

import json

import numpy as np
import pytest
from parquet_parts import N_ROWS, fitted, vectors, write_parts
from word_sums import KINDS, TEXTS, WordSums, installed, write_model

import nonneg as library
from nonneg.interchange.arrow import features_of_arrow

pytest.importorskip("pyarrow", reason="pyarrow is absent")
import pyarrow as pa
import pyarrow.parquet as pq

QUICK = ["--set", "max_steps=20", "--set", "n_components=24"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    write_parts(folder / "in", vectors(), [200, 450])
    fitted(folder / "run")
    return folder


def test_embed_writes_a_file_for_each(nonneg, place):
    command = ["embed", "run", "in/*.parquet", "--out", "out"]
    ended = nonneg(*command, "--shard", "2/2", cwd=place)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "1 file of shard 2/2 with 250 rows: out\n"
    ended = nonneg(*command, cwd=place)
    assert ended.stdout == "3 files with 600 rows, 1 of them there already: out\n"
    ncl = library.NCL.load(place / "run")
    ids, Z = features_of_arrow(pq.read_table(place / "out"), ncl.encoder_.n_features)
    assert ids.tolist() == list(range(N_ROWS))
    np.testing.assert_allclose(Z.toarray(), ncl.transform(vectors()), rtol=1e-5, atol=1e-6)


def test_fit_draws_rows_and_says_so(nonneg, place):
    ended = nonneg("fit", "in/*.parquet", *QUICK, "--out", "runs/many", cwd=place)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("all 600 rows of 3 files in in/*.parquet\n")
    assert "next: nonneg embed runs/many 'in/*.parquet' --out in-features\n" in ended.stdout
    data = json.loads((place / "runs" / "many" / "run.json").read_text())["settings"]["data"]
    assert data["drawn"]["n_files"] == 3
    again = nonneg("fit", "in/*.parquet", *QUICK, "--out", "runs/many", cwd=place)
    assert "already done: runs/many" in again.stdout


REFUSED = [
    (["embed", "run", "in/*.parquet"], "name a folder for their features with --out"),
    (["embed", "run", "in", "--out", "o", "--shard", "3/2"], "there is no shard 3/2: shards of 2"),
    (["embed", "run", "in", "--out", "o", "--engine", "spark"], "unknown engine 'spark'; choose"),
    (["embed", "no", "in/*.parquet", "--out", "o"], "holds no fitted estimator; give a folder of"),
    (["embed", "run", "no/*.parquet", "--out", "o"], "there is no file or folder"),
    (["embed", "run", "in/no", "--out", "o"], "there is no file or folder in/no"),
    (["embed", "run", "in/*.csv", "--out", "o"], "there is no parquet file at in/*.csv; give"),
    (["embed", "run", "in", "--out", "o", "--split", "test"], "leave out --split: in names many"),
    (["embed", "run", "x.npy", "--shard", "1/2"], "leave out --shard: it is for a fitted run"),
    (["embed", "run", "x.npy", "--id", "key"], "leave out --id: it is for a fitted run"),
    (["fit", "in", "--labels", "x.npy", "--out", "o"], "--labels goes with the rows of one file"),
    (["fit", "in", "--graph", "x.npz", "--out", "o"], "--graph goes with the rows of one file"),
    (["fit", "in", "--column", "key", "--out", "o"], "has no column 'key' of lists of numbers"),
    (["fit", "no", "--out", "o"], "there is no file no"),
    (["fit", "s4://no", "--out", "o"], "s4://no cannot be reached"),
]


@pytest.mark.parametrize(("command", "said"), REFUSED, ids=lambda part: str(part)[:40])
def test_what_is_wrong_is_one_sentence_and_writes_nothing(nonneg, place, command, said):
    before = sorted(path.name for path in place.iterdir())
    ended = nonneg(*command, cwd=place)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert sorted(path.name for path in place.iterdir()) == before


def test_texts_of_many_files(nonneg, tmp_path, monkeypatch):
    installed(monkeypatch)
    write_model(tmp_path / "model")
    (tmp_path / "in").mkdir()
    texts = ["" if number == 3 else text for number, text in enumerate(TEXTS)]
    for number, rows in enumerate((slice(0, 100), slice(100, None))):
        part = pa.table({"body": texts[rows], "kind": KINDS[rows]})
        pq.write_table(part, tmp_path / "in" / f"{number}.parquet")
    columns = ["--text", "body", "--label", "kind", "--encoder", "model", "--no-page"]
    ended = nonneg("fit", "in", *columns, *QUICK, "--out", "runs/texts", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "1 of 240 texts is empty" in ended.stdout
    # The column is that of the run.
    ended = nonneg("embed", "runs/texts", "in", "--out", "out", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    ncl = library.NCL.load(tmp_path / "runs" / "texts")
    _, Z = features_of_arrow(pq.read_table(tmp_path / "out"), ncl.encoder_.n_features)
    X = WordSums().encode(TEXTS)
    X[3] = 0
    np.testing.assert_allclose(Z.toarray(), ncl.transform(X), rtol=1e-4, atol=1e-5)
    assert not Z[[3]].nnz
    (tmp_path / "vectors").mkdir()
    pq.write_table(pa.table({"vector": list(X)}), tmp_path / "vectors" / "0.parquet")
    ended = nonneg("embed", "runs/texts", "vectors", "--out", "new", cwd=tmp_path)
    said = "has no column 'body' for --text; it has: vector; name it with --text, or that of "
    assert f"{said}vectors with --column" in ended.stderr
    assert not (tmp_path / "new").exists()
    given = ["vectors", "--column", "vector", "--out", "of-vectors"]
    ended = nonneg("embed", "runs/texts", *given, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    _, again = features_of_arrow(pq.read_table(tmp_path / "of-vectors"), Z.shape[1])
    np.testing.assert_allclose(again.toarray(), Z.toarray(), rtol=1e-4, atol=1e-5)
    (tmp_path / "model" / "weights.bin").write_bytes(b"other")
    ended = nonneg("embed", "runs/texts", "in", "--out", "new", cwd=tmp_path)
    assert "is not the model that embedded the texts" in ended.stderr
    assert not (tmp_path / "new").exists()
