"""``nonneg fit`` with bad input: one sentence that names the fix, and nothing half made."""

import numpy as np
import pytest
from scipy import sparse

from nonneg.data import split_off
from nonneg.data.vectors import VectorData

N, N_COLUMNS = 400, 24
X = np.random.default_rng(1).standard_normal((N, N_COLUMNS)).astype(np.float32)
Y = np.arange(N) % 8


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    for name, array in {"x": X, "y_new": Y}.items():
        np.save(folder / f"{name}.npy", array)
    return folder


BAD = {
    "key": (["--set", "temprature=1"], "unknown setting 'temprature'; nearest: temperature"),
    "no value": (
        ["--set", "n_components"],
        "'n_components' is not a setting; write key=value, as seed=1",
    ),
    "test twice": (
        ["--test", "x.npy", "--test-share", "0.3"],
        "--test names other vectors to measure on, --test-share keeps a part of X for that; leave",
    ),
    "seed": (["--set", "sed=1"], "unknown setting 'sed'; nearest: seed"),
    "value": (["--set", "temperature=0"], "setting 'temperature': input should be greater than 0"),
    "pairs": (["--pairs", "friends"], "setting 'pairs': input should be 'neighbors', 'noise'"),
    "no labels": (["--pairs", "labels"], "--pairs labels needs a file: add --labels FILE"),
    "no graph": (["--pairs", "graph"], "--pairs graph needs a file: add --graph FILE"),
    "no pairs": (["--pairs", "index"], "--pairs index needs a file: add --index-pairs FILE"),
    "empty pairs": (["--index-pairs", "empty.npy"], "index_pairs holds no pairs"),
    "unused": (
        ["--index-pairs", "far.npy", "--pairs", "noise"],
        "--index-pairs was given, but --pairs noise does not use it; write --pairs index or leave",
    ),
    "only test pairs": (
        ["--index-pairs", "kept.npy"],
        "all 1 pairs touch samples that are kept for testing; use --test-share 0 or --test",
    ),
    "random state": (["--set", "random_state=1"], "random_state is called seed here"),
    "device": (["--set", "device=meta"], "device='meta' was asked for, but PyTorch sees no META"),
    "folder": (["--labels", "."], "error: . is a folder; give a .npy or text file"),
    "test folder": (["--test", "."], "error: . is a folder; give a .npy, .npz or .parquet file"),
    "no file": (["--labels", "none.npy"], "there is no file none.npy"),
    "test labels": (["--test-labels", "y_new.npy"], "test labels were given without test vectors"),
    "label count": (["--labels", "short.npy"], "has labels of shape (3,) for 400 samples"),
    "columns": (["--test", "narrow.npy"], "has 3 columns, "),
    "graph": (["--graph", "x.npy"], "cannot be read as a sparse matrix: it is something else, cut"),
    "no bytes": (["--graph", "empty.npz"], "cut short or damaged; write one with scipy.sparse."),
    "cut graph": (["--graph", "cut.npz"], "cut short or damaged; write one with scipy.sparse."),
    "node count": (["--graph", "small.npz"], "has shape (3, 3) for 400 samples"),
    "pair number": (["--index-pairs", "far.npy"], "index pairs name sample 400, but samples are"),
    "column": (["--column", "a"], "holds one array without a name; leave out --column a"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_nothing_half_made(nonneg, place, case):
    np.save(place / "short.npy", Y[:3])
    np.save(place / "narrow.npy", X[:, :3])
    np.save(place / "far.npy", np.array([[0, N]]))
    np.save(place / "empty.npy", np.empty((0, 2), dtype=int))
    np.save(place / "kept.npy", split_off(VectorData(X), 40)[1].indices.numpy()[None, :2])
    sparse.save_npz(place / "small.npz", sparse.eye_array(3, format="csr"))
    (place / "empty.npz").write_bytes(b"")
    (place / "cut.npz").write_bytes((place / "small.npz").read_bytes()[:300])
    arguments, sentence = BAD[case]
    ended = nonneg("fit", "x.npy", *arguments, "--out", "bad", cwd=place)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (place / "bad").exists()


def test_rows_that_are_no_numbers_are_named(nonneg, tmp_path):
    broken = X.copy()
    broken[[3, 9]] = np.nan
    np.save(tmp_path / "x.npy", broken)
    ended = nonneg("fit", "x.npy", "--test-share", 0, "--out", "run", cwd=tmp_path)
    assert "in 2 of 400 rows: 3, 9" in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["read", "mapped", "sparse", "test file"])
def test_rows_that_are_kept_for_testing_are_looked_at_first(nonneg, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("nonneg.data.arrays._MAPPED_FROM", 0 if kind == "mapped" else 1 << 20)
    monkeypatch.setattr("nonneg.estimators.inputs.TILE_ENTRIES", 7 * N_COLUMNS)
    broken = X.copy()
    kept = split_off(VectorData(X), 40)[1].indices[5]
    broken[kept, 2] = np.inf
    path = tmp_path / ("x.npz" if kind == "sparse" else "x.npy")
    if kind == "sparse":
        sparse.save_npz(path, sparse.csr_array(broken))
    else:
        np.save(path, broken)
    np.save(tmp_path / "fine.npy", X)
    given = ["fine.npy", "--test", path] if kind == "test file" else [path]
    ended = nonneg("fit", *given, "--out", "run", cwd=tmp_path)
    assert ended.stderr == (
        f"error: {path} holds NaN or infinity (or numbers beyond float32) in 1 of 400 rows: {kept};"
        " remove or repair them\n"
    )
    assert not (tmp_path / "run").exists()


def test_a_folder_without_parquet_files_is_refused(nonneg, tmp_path):
    ended = nonneg("fit", tmp_path, "--out", tmp_path / "run")
    assert ended.stderr == (
        f"error: there is no parquet file at {tmp_path}; give a folder that holds some, or a "
        "pattern such as 'in/*.parquet'\n"
    )
