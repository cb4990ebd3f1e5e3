"""``nonneg curate``: changes written into a fitted run, shown, and undone."""

import json

import numpy as np
import pytest

import nonneg as library

X = np.repeat(np.eye(6, dtype=np.float32), 20, axis=0)
X += np.random.default_rng(0).normal(scale=0.05, size=X.shape).astype(np.float32)


@pytest.fixture
def run(nonneg, tmp_path):
    np.save(tmp_path / "x.npy", X)
    quick = ("--set", "max_steps=60", "--set", "batch_size=64")
    ended = nonneg("fit", tmp_path / "x.npy", *quick, "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    return tmp_path / "run"


def changes(run, **what):
    path = run.parent / "changes.json"
    path.write_text(json.dumps(what))
    return path


def test_changes_are_written_shown_and_undone(nonneg, run):
    before = library.NCL.load(run).transform(X)
    a, b, c = (int(i) for i in library.NCL.load(run).rank_[:3])
    path = changes(run, rename={str(a): "tea & ale"}, merge=[[a, b]], hide=[c])
    ended = nonneg("curate", run, path)
    assert ended.returncode == 0, ended.stderr
    assert "tea & ale" in ended.stdout
    assert f"with {b}" in ended.stdout
    assert "hidden" in ended.stdout
    assert f"next: nonneg report {run}" in ended.stdout
    after = library.NCL.load(run)
    assert after.feature_names_[a] == "tea & ale"
    np.testing.assert_allclose(after.transform(X)[:, a], np.hypot(before[:, a], before[:, b]), 1e-5)

    assert nonneg("curate", run).stdout.count("tea & ale") == 1  # shown, not changed
    undone = nonneg("curate", run, "--undo")
    assert "no feature is renamed, merged or hidden" in undone.stdout
    np.testing.assert_array_equal(library.NCL.load(run).transform(X), before)


def test_embed_sees_them(nonneg, run):
    a, b = (int(i) for i in library.NCL.load(run).rank_[:2])
    nonneg("curate", run, changes(run, hide=[a], merge=[]))
    out = run.parent / "z.npz"
    assert nonneg("embed", run, run.parent / "x.npy", "--out", out).returncode == 0
    Z, _ = library.data.read_features(out)
    dense = Z.toarray() if hasattr(Z, "toarray") else Z
    assert not dense[:, a].any()
    assert dense[:, b].any()


def test_an_evaluation_before_is_not_taken_for_one_of_now(nonneg, run):
    assert nonneg("evaluate", run, "--only", "properties").returncode == 0
    first = json.loads((run / "evaluation.json").read_text())
    a = int(library.NCL.load(run).rank_[0])
    nonneg("curate", run, changes(run, hide=[a]))
    assert "is of other features" in nonneg("report", run).stdout
    assert nonneg("evaluate", run, "--only", "properties").returncode == 0
    assert json.loads((run / "evaluation.json").read_text())["model"] != first["model"]


def test_what_does_not_fit_changes_nothing(nonneg, run):
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    ended = nonneg("curate", run, changes(run, rename={"0": "x"}, hide=[12345]))
    assert ended.returncode == 1
    assert "there is no feature 12345" in ended.stderr
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def test_a_trained_run_is_refused(nonneg, tmp_path):
    (tmp_path / "run.json").write_text(
        json.dumps(
            {"settings": {"encoder": {"nonnegative": "relu"}, "loss": {"name": "x"}, "seed": 0}}
        )
    )
    ended = nonneg("curate", tmp_path)
    assert ended.returncode == 1
    assert "was trained, not fitted" in ended.stderr


def test_compare_takes_no_figures_of_other_features_and_pools_no_curated_runs(nonneg, run):
    other = run.parent / "other"
    quick = ("--set", "max_steps=60", "--set", "batch_size=64", "--set", "seed=1")
    assert nonneg("fit", run.parent / "x.npy", *quick, "--out", other).returncode == 0
    for folder in (run, other):
        assert nonneg("evaluate", folder, "--only", "properties").returncode == 0
    before = nonneg("compare", run, other)
    assert "NCL: 2 runs" in before.stdout
    a, b, c = (int(i) for i in library.NCL.load(run).rank_[:3])
    nonneg("curate", run, changes(run, merge=[[a, b]], hide=[c]))
    stale = nonneg("compare", run, other)
    assert stale.returncode == 1
    assert "is of other features than the run has now" in stale.stderr
    assert f"run again: nonneg evaluate {run}" in " ".join(stale.stderr.split())
    assert nonneg("evaluate", run, "--only", "properties").returncode == 0
    told = nonneg("compare", run, other).stdout
    assert f"NCL (curation merged {a}+{b}, hidden {c}): 1 run" in " ".join(told.split())
    assert "NCL (curation none): 1 run" in " ".join(told.split())
    assert "differ by more than the transform: curation" in told
