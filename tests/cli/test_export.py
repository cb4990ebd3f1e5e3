"""``nonneg export``: what it says, and errors as one sentence."""

import json

import numpy as np
import pytest

import nonneg as library


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    X = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    np.save(folder / "x.npy", X)
    library.NCL(n_components=12, max_steps=10, random_state=0).fit(X).save(folder / "run")
    return folder


def test_points(nonneg, place, tmp_path):
    ended = nonneg("export", "run", "x.npy", "--to", "qdrant", "--out", tmp_path / "q", cwd=place)
    assert ended.returncode == 0, ended.stderr
    n_features = len(json.loads((tmp_path / "q" / "feature_names.json").read_text()))
    assert ended.stdout == f"200 points of {n_features} features in 1 file: {tmp_path / 'q'}\n"
    assert ended.stderr == ""


@pytest.mark.slow
def test_onnx_says_nothing_else(nonneg, place, tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    ended = nonneg("export", "run", "--to", "onnx", "--out", tmp_path / "run.onnx", cwd=place)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("samples (n × 16) to features (n × ")
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["run", "--to", "solr"], "error: unknown target 'solr'; known: sentence-transformers"),
        (["run", "x.npy", "--to", "qdrant", "--text", "body"], "error: "),
        (["run", "--to", "sentence-transformers"], "error: run does not know what made its vect"),
        (["run", "y.npy", "--to", "jsonl"], "error: there is no file y.npy"),
    ],
)
def test_one_sentence(nonneg, place, tmp_path, given, sentence):
    ended = nonneg("export", *given, "--out", tmp_path / "out", cwd=place)
    assert ended.returncode == 1
    assert ended.stderr.startswith(sentence)
    assert ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
