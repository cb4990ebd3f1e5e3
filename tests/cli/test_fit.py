"""Vectors from the command line: fitted into a run folder, evaluated, compared, embedded."""

import json
import shutil

import numpy as np
import pytest
from scipy import sparse

import nonneg as library
from nonneg import metrics
from nonneg.data import split_off
from nonneg.data.feature_file import read_features
from nonneg.data.vectors import VectorData
from nonneg.evaluation import beside_dense
from nonneg.metrics.figures import number_text

N_KINDS, N_EACH, N_COLUMNS = 8, 50, 24
N = N_KINDS * N_EACH
QUICK = ["n_components=32", "hidden=16", "batch_size=128", "max_steps=80", "temperature=0.15"]


def world(seed):
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(0).standard_normal((N_KINDS, N_COLUMNS))
    y = np.repeat(np.arange(N_KINDS), N_EACH)
    return (directions[y] + 0.5 * rng.standard_normal((N, N_COLUMNS)) + 2).astype(np.float32), y


X, Y = world(1)
X_NEW, Y_NEW = world(2)


def settings(*overrides):
    return [part for override in (*QUICK, *overrides) for part in ("--set", override)]


def fitted(nonneg, place, *arguments, out="run"):
    ended = nonneg("fit", *arguments, "--out", place / out)
    assert ended.returncode == 0, ended.stderr
    return place / out, ended.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    for name, array in {"x": X, "y": Y, "x_new": X_NEW, "y_new": Y_NEW}.items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.fixture(scope="module")
def run(nonneg, place):
    """An NCL with both things that happen after the encoder: a threshold and a limit."""
    folder, said = fitted(
        nonneg,
        place,
        place / "x.npy",
        *("--labels", place / "y.npy"),
        *settings("target_active=3", "max_active=5"),
    )
    assert "samples learnt from" in said
    assert "360" in said
    assert "alive features" in said
    assert "active features per test sample" in said
    assert "seconds" in said
    assert f"next: nonneg evaluate {folder}" in said
    return folder


def test_the_folder_is_that_of_a_run(run):
    names = sorted(path.name for path in run.iterdir() if not path.name.startswith("evaluation"))
    assert set(names) - {"ranking.json"} == {
        "config.json", "coverage.safetensors", "history.jsonl", "model.safetensors", "run.json",
    }  # fmt: skip
    record = json.loads((run / "run.json").read_text())["settings"]
    assert record["task"] == "fit"
    assert record["seed"] == 0
    assert record["encoder"] == {"nonnegative": "rep_relu"}
    assert record["loss"] == {"name": "info_nce", "temperature": 0.15}
    assert record["ncl"]["n_components"] == 32
    assert record["data"]["vectors"].endswith("/x.npy")
    assert set(record["data"]["digests"]) == {"vectors", "labels"}
    last = json.loads((run / "history.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 80
    assert last["epoch"] == pytest.approx(80 * 128 / 360, abs=1e-3)
    assert last["seconds"] > 0
    assert last["alive_features"] == library.NCL.load(run).n_alive_


def test_it_was_fitted_to_all_but_the_test_samples(run):
    train, _ = split_off(VectorData(X), 40)
    params = {"n_components": 32, "hidden": 16, "batch_size": 128, "max_steps": 80}
    params |= {"temperature": 0.15, "target_active": 3, "max_active": 5, "random_state": 0}
    ncl = library.NCL(**params).fit(X[train.indices.numpy()])
    found = library.NCL.load(run).transform(X_NEW)
    np.testing.assert_array_equal(found, ncl.transform(X_NEW))


@pytest.mark.parametrize(
    ("n", "given", "said"),
    [
        (150, [], "there are only 15 test samples; it takes more than 20; set a larger"),
        (
            400,
            ["--test-share", 0.06],
            "no feature is on for 20 of the 24 test samples; set a large",
        ),
        (400, ["--test", "few.npy", "--test-labels", "few_y.npy"], "20; give more test vectors"),
    ],
)
def test_too_few_test_samples_for_purity_are_said(nonneg, tmp_path, n, given, said):
    for name, array in {"x": X[-n:], "y": Y[-n:], "few": X_NEW[::25], "few_y": Y_NEW[::25]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    asked = ["fit", "x.npy", *settings("target_active=3", "max_steps=20"), "--out", "run", *given]
    ended = nonneg(*asked, "--labels", "y.npy", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "top-20 purity cannot be measured: " in ended.stdout
    assert said in ended.stdout
    shutil.rmtree(tmp_path / "run")
    if "--test" not in given:  # without labels nothing is said of purity
        assert "purity" not in nonneg(*asked, cwd=tmp_path).stdout


def test_nothing_is_said_of_purity_where_it_can_be_measured(nonneg, place, tmp_path):
    test = ["--test", place / "x_new.npy", "--test-labels", place / "y_new.npy"]
    labels = ["--labels", place / "y.npy"]
    _, said = fitted(nonneg, tmp_path, place / "x.npy", *labels, *test, *settings("max_steps=20"))
    assert "purity cannot be measured" not in said


def test_the_encoder_in_it_can_be_read_by_itself(run):
    ncl = library.NCL.load(run)
    encoder = library.Encoder.load(run)
    assert encoder.settings.backbone.name == "projection"
    expected = ncl.encoder_.encode(X_NEW).features
    assert encoder.encode(X_NEW).features.tolist() == expected.tolist()


def test_embed_gives_the_numbers_of_transform(nonneg, run, place, tmp_path, monkeypatch):
    monkeypatch.setattr("nonneg.runs.embedding._PART_ENTRIES", 7 * 32)
    ended = nonneg("embed", run, place / "x_new.npy", "--out", tmp_path / "Z.npz")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == f"400 samples × 32 features, sparse: {tmp_path / 'Z.npz'}"
    found, others = read_features(tmp_path / "Z.npz")
    ncl = library.NCL.load(run)
    assert ncl.threshold_ > 0
    np.testing.assert_allclose(found.toarray(), ncl.transform(X_NEW), rtol=1e-4, atol=1e-5)
    assert others == {}
    assert (np.diff(found.indptr) <= 5).all()


def test_embed_carries_labels_and_refuses_what_does_not_apply(nonneg, run, tmp_path):
    np.savez(tmp_path / "mine.npz", inputs=X_NEW[:3], labels=np.array(["b", "a", "b"]))
    ended = nonneg("embed", run, tmp_path / "mine.npz", "--out", tmp_path / "Z.npz")
    assert ended.returncode == 0, ended.stderr
    _, others = read_features(tmp_path / "Z.npz")
    assert others["labels"].tolist() == [1, 0, 1]
    assert others["class_names"].tolist() == ["a", "b"]
    ended = nonneg("embed", run, tmp_path / "mine.npz", "--hidden")
    assert ended.stderr == f"error: {run} was fitted to vectors: leave out --hidden\n"
    ended = nonneg("embed", run, "digits", cwd=tmp_path)
    assert ended.stderr == (
        f"error: {run} was fitted to vectors and reads files of vectors only; digits is a data "
        "set, give a .npy, .npz or .parquet file\n"
    )
    np.save(tmp_path / "other.npy", X_NEW[:, :3])
    ended = nonneg("embed", run, tmp_path / "other.npy", cwd=tmp_path)
    assert "X has 3 features, but NCL is expecting 24 features" in ended.stderr
    broken = X_NEW.copy()
    broken[[3, 300]] = np.nan
    np.save(tmp_path / "broken.npy", broken)
    ended = nonneg("embed", run, tmp_path / "broken.npy", cwd=tmp_path)
    assert "in 2 of 400 rows: 3, 300" in ended.stderr
    assert not (tmp_path / "features.npz").exists()


FEW = ["n_permutations=2", "n_bootstrap=2", "n_draws=2", "selection=[0.5]"]
SMALL = [part for setting in FEW for part in ("--set", setting)]


def test_evaluate_measures_what_transform_gives(nonneg, run):
    ended = nonneg("evaluate", run, *SMALL)
    assert ended.returncode == 0, ended.stderr
    found = json.loads((run / "evaluation.json").read_text())
    assert set(found["sections"]) == {
        "properties", "probe", "few_labels", "neighbours", "beside_dense", "selection",
    }  # fmt: skip
    skipped = found["skipped"]
    assert skipped["sepin"] == "a fitted run has no two views of a sample"
    assert skipped["transfer"] == "a fitted run reads vectors of one kind"
    assert skipped["robustness"] == "x.npy holds no images; only images are corrupted"
    assert found["data"]["train"] == {"name": "x.npy", "n_samples": 360}
    assert found["data"]["test"] == {"name": "x.npy", "n_samples": 40}
    _, test = split_off(VectorData(X), 40)
    Z = library.NCL.load(run).transform(X[test.indices.numpy()])
    figures = found["sections"]["properties"]["figures"]
    active = metrics.active_per_sample(Z).value
    assert figures["active_per_sample"]["value"] == pytest.approx(active)
    assert found["sections"]["neighbours"]["figures"]["knn_features"]["value"] > 0.9
    assert (run / "ranking.json").exists()


def test_features_stand_beside_their_vectors_and_a_pca(nonneg, run):
    ended = nonneg("evaluate", run, "--only", "beside_dense", *SMALL, columns=80)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80  # the last one names the file
    train, test = (part.indices.numpy() for part in split_off(VectorData(X), 40))
    ncl = library.NCL.load(run)
    found = beside_dense(
        X[train], ncl.transform(X[train]), X[test], ncl.transform(X[test]), Y[train], Y[test]
    )
    rows = [" ".join(line.split()) for line in lines]
    assert f"figure features vectors PCA of {found.pca.n_numbers}" in rows
    sides = (found.features, found.vectors, found.pca)
    precision = " ".join(f"{100 * side.in_train.precision:.1f} %" for side in sides)
    assert f"precision@10, among train {precision}" in rows
    sizes = (number_text(found.figures()["beside_bytes"].value), 96, 4 * found.pca.n_numbers)
    assert "size of a sample, bytes {} {} {}".format(*sizes) in rows
    assert found.sentence in " ".join(rows)
    section = json.loads((run / "evaluation.json").read_text())["sections"]["beside_dense"]
    assert section["sentence"] == found.sentence
    figure = section["figures"]["beside_train_nearest"]
    assert figure["value"] == pytest.approx(found.features.in_train.nearest)
    assert figure["beside"]["vectors"] == pytest.approx(found.vectors.in_train.nearest)


def test_fine_tuning_is_refused_with_the_reason(nonneg, run):
    ended = nonneg("evaluate", run, "--only", "fine_tune")
    assert "not measured: fine_tune: a fitted run has no network below its features" in ended.stdout


def test_the_atlas_of_a_fitted_run(nonneg, run, tmp_path):
    ended = nonneg("report", run, "--out", tmp_path / "atlas.html")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "atlas.html").stat().st_size > 10_000


def test_runs_of_one_switch_are_compared(nonneg, place, tmp_path):
    runs = []
    for name, transform in (("ncl", "rep_relu"), ("cl", "identity")):
        for seed in range(3):
            folder, said = fitted(
                nonneg,
                tmp_path,
                place / "x.npy",
                *("--test", place / "x_new.npy"),
                *("--labels", place / "y.npy", "--test-labels", place / "y_new.npy"),
                *settings(f"nonnegative={transform}", f"seed={seed}", "max_steps=30"),
                out=f"{name}-{seed}",
            )
            assert "test samples of x_new.npy" in said
            assert "kept for testing" not in said
            ended = nonneg("evaluate", folder, "--only", "properties,beside_dense", *SMALL)
            assert ended.returncode == 0, ended.stderr
            runs.append(folder)
    ended = nonneg("compare", *runs)
    assert ended.returncode == 0, ended.stderr
    assert "precision@k, among train" in ended.stdout
    assert "size of a sample" in ended.stdout
    assert "CL: 3 runs · NCL: 3 runs" in ended.stdout
    assert "NCL − CL" in ended.stdout
    assert "differ by more than the transform" not in ended.stdout
    found = json.loads((runs[0] / "evaluation.json").read_text())["data"]
    assert found["train"] == {"name": "x.npy", "n_samples": 400}
    assert found["test"] == {"name": "x_new.npy", "n_samples": 400}


def test_without_labels_all_but_what_needs_them(nonneg, place, tmp_path):
    folder, _ = fitted(nonneg, tmp_path, place / "x.npy", *settings("max_steps=5"))
    ended = nonneg("evaluate", folder, *SMALL)
    assert ended.returncode == 0, ended.stderr
    assert "not measured: probe: x.npy has no labels" in ended.stdout
    assert "not measured: hierarchy: x.npy has no labels" in ended.stdout
    line = next(line for line in ended.stdout.splitlines() if "top-20 purity" in line)
    assert " ".join(line.split()) == "top-20 purity – x.npy has no labels"
    assert "–: x.npy has no labels" in ended.stdout
    assert "nearest training samples by the vectors are among the 10 nearest" in ended.stdout
    assert (folder / "ranking.json").exists()


def test_all_vectors_may_be_used_and_others_named(nonneg, place, tmp_path):
    folder, said = fitted(
        nonneg, tmp_path, place / "x.npy", "--test-share", 0, *settings("max_steps=5")
    )
    assert "nonneg evaluate" not in said
    ended = nonneg("evaluate", folder)
    assert ended.stderr == (
        f"error: {folder} was fitted to all its vectors; name others to measure on with --data\n"
    )
    np.savez(tmp_path / "t.npz", inputs=X_NEW, labels=Y_NEW)
    ended = nonneg("evaluate", folder, "--data", tmp_path / "t.npz", "--only", "properties", *SMALL)
    assert ended.returncode == 0, ended.stderr
    ended = nonneg("evaluate", folder, "--split", "held-out")
    assert "was fitted: it has test samples, but none held-out" in ended.stderr
    ended = nonneg("evaluate", folder, "--transfer-to", "digits", "--data", tmp_path / "t.npz")
    assert "reads vectors of one kind; leave out --transfer-to" in ended.stderr


def test_the_same_command_again_is_done_already(nonneg, run, place):
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    _, said = fitted(
        nonneg,
        place,
        place / "x.npy",
        *("--labels", place / "y.npy"),
        *settings("target_active=3", "max_active=5"),
    )
    assert said.startswith(f"already done: {run}")
    other = nonneg(
        "fit", place / "x.npy", "--labels", place / "y.npy", *settings("max_active=5"), "--out", run
    )
    assert other.returncode == 1
    assert other.stderr == (
        f"error: {run} holds a run with other settings "
        "(ncl.target_active: 3.0 there, None here); choose another folder, or "
        "delete this one\n"
    )
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def test_a_fit_that_was_killed_is_made_again(nonneg, run, place, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "config.json").unlink()
    (copy / ".unfinished").mkdir()
    (copy / ".unfinished" / "model.safetensors").write_bytes(b"half")
    fitted(
        nonneg,
        tmp_path,
        place / "x.npy",
        *("--labels", place / "y.npy"),
        *settings("target_active=3", "max_active=5"),
        out="copy",
    )
    assert (copy / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    assert json.loads((copy / "config.json").read_text()) == json.loads(
        (run / "config.json").read_text()
    )
    assert not (copy / ".unfinished").exists()


def test_data_that_changed_is_noticed(nonneg, tmp_path):
    np.save(tmp_path / "x.npy", X)
    folder, _ = fitted(nonneg, tmp_path, tmp_path / "x.npy", *settings("max_steps=5"))
    np.save(tmp_path / "x.npy", X_NEW)
    ended = nonneg("evaluate", folder)
    assert ended.stderr.startswith(
        f"error: {tmp_path / 'x.npy'} has changed since the run was fitted to it"
    )
    ended = nonneg("fit", tmp_path / "x.npy", *settings("max_steps=5"), "--out", folder)
    assert "holds a run with other settings (data.digests.vectors: " in ended.stderr


@pytest.mark.parametrize("source", ["labels", "graph", "index", "noise"])
def test_every_source_of_pairs(nonneg, place, tmp_path, source):
    same = Y[:, None] == Y
    np.fill_diagonal(same, False)
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(same.astype(float)))
    np.save(tmp_path / "ij.npy", np.argwhere(np.triu(same)))
    arguments = {
        "labels": ["--pairs", "labels", "--labels", place / "y.npy"],
        "graph": ["--graph", tmp_path / "a.npz"],
        "index": ["--index-pairs", tmp_path / "ij.npy"],
        "noise": ["--pairs", "noise"],
    }[source]
    folder, said = fitted(nonneg, tmp_path, place / "x.npy", *arguments, *settings())
    left_out = {"graph": "edges touch samples", "index": "pairs touch samples"}.get(source)
    assert left_out is None or left_out in said
    ncl = library.NCL.load(folder)
    assert ncl.pairs == source
    assert metrics.precision_at_k(ncl.transform(X_NEW), Y_NEW, 10).value > 0.9


def test_pairs_keep_their_meaning_without_the_test_samples(place, tmp_path):
    from nonneg.runs import VectorFiles
    from nonneg.runs.vector_fits import learnt_from, vector_sets

    pairs = np.array([[i, (i * 7 + 3) % N] for i in range(N)])
    np.save(tmp_path / "ij.npy", pairs)
    files = VectorFiles.at(vectors=place / "x.npy", index_pairs=tmp_path / "ij.npy")
    train, _ = vector_sets(files)
    given = learnt_from(files, train)
    found = {(X[a].tobytes(), X[b].tobytes()) for a, b in train.indices.numpy()[given.index_pairs]}
    kept = set(train.indices.tolist())
    expected = {(X[a].tobytes(), X[b].tobytes()) for a, b in pairs if {a, b} <= kept}
    assert found == expected
    np.testing.assert_array_equal(given.vectors, X[train.indices.numpy()])
