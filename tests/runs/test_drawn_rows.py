"""Rows drawn from many files: the same ones however they are split, and a fit that says so."""

import json

import numpy as np
import pytest
from parquet_parts import table, vectors, write_parts

from nonneg.data.text_records import Columns
from nonneg.data.vectors import read_vectors
from nonneg.runs import drawn_file
from nonneg.runs import drawn_rows as module

pytest.importorskip("pyarrow", reason="pyarrow is absent")
import pyarrow as pa
import pyarrow.parquet as pq

X = vectors(n_rows=500)


def test_what_is_drawn_leaves_all_that_a_fit_learns_from():
    from nonneg.estimators.ncl import _MOST_TRAINED
    from nonneg.runs.vector_fits import MOST_KEPT_OUT

    assert module.N_DRAWN == _MOST_TRAINED + MOST_KEPT_OUT


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(module, "N_DRAWN", 200)


@pytest.mark.usefixtures("few")
def test_the_same_rows_however_they_are_split(tmp_path):
    drawn = []
    for name, cuts, groups in (
        ("one", [], 1000),
        ("some", [1, 200, 200, 201], 64),
        ("many", list(range(7, 500, 7)), 3),
    ):
        source = write_parts(tmp_path / name, X, cuts, row_group_size=groups)
        drawn.append(drawn_file(source, out=tmp_path / "runs" / "a"))
        assert (drawn[-1].origin.n_rows, drawn[-1].origin.n_drawn) == (500, 200)
        assert drawn[-1].path.parent == tmp_path / "runs" / "drawn-rows"
    contents = [found.path.read_bytes() for found in drawn]
    assert contents[0] == contents[1] == contents[2]
    assert drawn[1].note == f"200 of 500 rows drawn from 5 files in {tmp_path}/some"
    found = read_vectors(drawn[0].path).vectors
    place = {row.tobytes(): number for number, row in enumerate(X)}
    numbers = [place[row.tobytes()] for row in found]
    assert len(set(numbers)) == 200
    assert numbers == sorted(numbers)
    # Not the first ones, nor those of one part.
    assert abs(np.mean(numbers) - 249.5) < 4 * 144 / np.sqrt(200)


def test_large_rows_have_the_same_bytes_too(tmp_path, monkeypatch):
    """Where a page of the file ends may depend on the arrays that are written."""
    monkeypatch.setattr(module, "N_DRAWN", 2500)
    wide = np.random.default_rng(0).standard_normal((3000, 256), dtype=np.float32)
    contents = set()
    for name, cuts in (("one", []), ("many", list(range(100, 3000, 100)))):
        source = write_parts(tmp_path / name, wide, cuts)
        contents.add(drawn_file(source, out=tmp_path / "run").path.read_bytes())
    assert len(contents) == 1


@pytest.mark.usefixtures("few")
def test_all_rows_of_few_are_taken(tmp_path):
    source = write_parts(tmp_path / "in", X[:150], [60])
    found = drawn_file(source, out=tmp_path / "run")
    np.testing.assert_array_equal(read_vectors(found.path).vectors, X[:150])
    assert found.note == f"all 150 rows of 2 files in {source}"


@pytest.mark.usefixtures("few")
def test_nothing_is_read_again_unless_a_file_changed(tmp_path, monkeypatch):
    source = write_parts(tmp_path / "in", X, [60])
    first = drawn_file(source, out=tmp_path / "run")

    def never(*_):
        raise AssertionError("read again")

    with monkeypatch.context() as patched:
        patched.setattr(module, "drawn_rows", never)
        assert drawn_file(source, out=tmp_path / "other") == first
    pq.write_table(table(X[:60] + 1), source / "part-0.parquet")
    assert drawn_file(source, out=tmp_path / "run").path != first.path


@pytest.mark.usefixtures("few")
def test_columns_of_texts_are_drawn_together(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(2):
        rows = range(300 * number, 300 * number + 300)
        texts = {"body": [f"text {n}" for n in rows], "kind": [f"kind {n}" for n in rows]}
        pq.write_table(pa.table({**texts, "n": list(rows)}), tmp_path / "in" / f"{number}.parquet")
    found = drawn_file(tmp_path / "in", out=tmp_path / "run", texts=Columns("body", "kind"))
    rows = pq.read_table(found.path).to_pylist()
    assert len(rows) == 200
    assert rows[0].keys() == {"body", "kind"}
    assert all(row["body"][5:] == row["kind"][5:] for row in rows)
    with pytest.raises(ValueError, match="has no column 'day' for --date"):
        drawn_file(tmp_path / "in", out=tmp_path / "run", texts=Columns("body", date="day"))


def test_files_without_rows_are_refused(tmp_path):
    write_parts(tmp_path / "in", X[:0], [0])
    with pytest.raises(ValueError, match="hold no rows"):
        drawn_file(tmp_path / "in", out=tmp_path / "run")
    assert not (tmp_path / "drawn-rows").exists()


@pytest.mark.usefixtures("few")
def test_two_fits_of_the_same_rows_have_the_same_weights(tmp_path):
    from nonneg.runs import VectorFiles, fit_run, vector_experiment

    weights = []
    for name, cuts in (("one", []), ("many", [17, 200, 444])):
        found = drawn_file(write_parts(tmp_path / name, X, cuts), out=tmp_path / name)
        files = VectorFiles.at(vectors=found.path, drawn=found.origin)
        experiment, machine = vector_experiment(files, ["max_steps=5", "n_components=16"])
        run = fit_run(experiment, out=tmp_path / "runs" / name, machine=machine)
        assert (run.n_train, run.n_test) == (180, 20)
        weights.append((run.folder / "model.safetensors").read_bytes())
        told = json.loads((run.folder / "run.json").read_text())["settings"]["data"]["drawn"]
        assert told == {
            "source": str(tmp_path / name),
            "n_files": len(cuts) + 1,
            "n_rows": 500,
            "n_drawn": 200,
        }
    assert weights[0] == weights[1]
    found.path.unlink()
    with pytest.raises(FileNotFoundError, match=r"^the rows drawn from .* are gone .* draws them"):
        files.check_unchanged()
