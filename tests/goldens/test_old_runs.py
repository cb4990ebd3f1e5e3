"""Folders that version 0.1 wrote: they load, give what they gave, and serve every command."""

import json
import os
import re

import numpy as np
import pytest
import torch
from torch import nn

import nonneg
from nonneg.data import ArrayData, load
from nonneg.evaluation import Evaluation
from nonneg.metrics.figures import current_key

TRAINED = ("digits-ncl", "digits-cl", "digits-renamed", "digits-supervised")
EVALUATED = (*TRAINED, "vectors-ncl")
SMALL = (
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "training.epochs=3",
    "training.warmup_epochs=1",
    # As the preset had them in 0.1.
    "loss.temperature=0.15",
    "training.reinit_at=0",
)
# Weights are read, not learnt: what they give differs by rounding only.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
if os.environ.get("NONNEG_GOLDENS") == "exact":
    CLOSE = {"rtol": 0, "atol": 0}
WORDS = ("apple", "boat", "cloud", "drum", "engine", "forest")
# Two-dimensional maps turn over with the last digits.
ATLAS = {"atol": 2e-3, "share": 0.02, "only_exact": ("places",)}


def own_backbone():
    return nn.Sequential(nn.Linear(12, 8), nn.ReLU())


def two_noisy_copies(batch):
    noise = 0.1 * batch.draws.normal(24)
    return batch.inputs + noise[:, :12], batch.inputs + noise[:, 12:]


@pytest.fixture(scope="module")
def outputs(old_runs):
    with np.load(old_runs / "outputs.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def vectors(old_runs):
    return np.load(old_runs / "vectors.npy")


@pytest.fixture(scope="module")
def partners(old_runs):
    return np.load(old_runs / "partners.npy")


def check(found, outputs, name):
    """Compare with the outputs of version 0.1."""
    before = {
        key.split(".")[1]: array for key, array in outputs.items() if key.startswith(f"{name}.")
    }
    assert list(found) == list(before)
    for key, array in before.items():
        np.testing.assert_allclose(found[key], array, **CLOSE, err_msg=f"{name} {key}")
        assert found[key].dtype == array.dtype


def encoded(encoder, samples):
    parts = encoder.encode(samples)
    return {"hidden": parts.hidden.numpy(), "features": parts.features.numpy()}


@pytest.mark.parametrize("name", TRAINED)
def test_encoders_of_trained_runs(old_runs, outputs, name):
    images = load("digits", split="test").fetch(torch.arange(40))
    check(encoded(nonneg.Encoder.load(old_runs / name), images), outputs, name)


def test_saved_encoders(old_runs, outputs, vectors):
    encoder = nonneg.Encoder.load(old_runs / "encoder")
    assert encoder.gate is not None
    check(encoded(encoder, torch.from_numpy(vectors)), outputs, "encoder")
    own = nonneg.Encoder.load(old_runs / "python", backbone=own_backbone())
    check(encoded(own, torch.from_numpy(vectors)), outputs, "python")


def test_fitted_estimators(old_runs, outputs, golden, vectors, partners):
    X, y = vectors, partners
    ncl = nonneg.NCL.load(old_runs / "ncl")
    check({"features": ncl.transform(X)}, outputs, "ncl")
    run = nonneg.NCL.load(old_runs / "vectors-ncl")
    check({"features": run.transform(X)}, outputs, "vectors-ncl")
    both = nonneg.CrossNCL.load(old_runs / "cross")
    Z_x, Z_y = both.transform(X, y)
    check({"features": Z_x, "of_y": Z_y}, outputs, "cross")
    found = {
        name: {
            "params": estimator.get_params(),
            "names": estimator.feature_names_,
            "n_alive": estimator.n_alive_,
            "n_axes": estimator.n_axes_,
            "threshold": estimator.threshold_,
            "expected_activation": estimator.expected_activation_,
            "history": estimator.history_,
        }
        for name, estimator in (("ncl", ncl), ("vectors-ncl", run), ("cross", both))
    }
    golden("old-estimators", found)


def test_explain_describe_edit_and_neighbors(old_runs, golden, vectors, partners):
    X, y = vectors, partners
    ncl = nonneg.NCL.load(old_runs / "ncl")
    both = nonneg.CrossNCL.load(old_runs / "cross")
    words = [WORDS[kind] for kind in np.load(old_runs / "kinds.npy")]
    name = ncl.feature_names_[int(ncl.rank_[0])]
    Z = ncl.transform(X)
    edited = ncl.edit(Z, remove=[name], boost={int(ncl.rank_[5]): 2.5})
    numbers, cosine = ncl.neighbors(edited[::20], Z, k=3)
    found = {
        "explained": [str(ncl.explain(X[0])), str(ncl.explain(X[0], X[1]))],
        "across": [str(both.explain(X[0], y[0])), str(both.explain(X[0], y[-1]))],
        "removed": name,
        "edited": edited[::20],
        "neighbors": numbers,
        "cosine": cosine,
        "described": [vars(d) for d in ncl.describe(X, texts=words, labels=words, n_top=10)],
        "both": [[d.name for d in side] for side in both.describe(X, y, texts=words)],
    }
    golden("old-read", found, share=0.02, only_exact=("top",))


def test_a_run_from_python_goes_on(copied_runs, outputs, vectors):
    torch.manual_seed(1)  # its first weights are those of the folder
    projector = {"hidden": [16], "n_features": 24}
    settings = nonneg.EncoderSettings.read({"frozen": True, "projector": projector})
    encoder = nonneg.Encoder(settings, (12,), backbone=own_backbone())
    config = nonneg.TrainConfig.read({"training": {"epochs": 2, "batch_size": 60}})
    out = copied_runs / "python-begun"
    data = ArrayData(torch.from_numpy(vectors))
    result = nonneg.train(encoder, data, two_noisy_copies, config, out=out, resume=True)
    assert [record["step"] for record in result.history] == [3, 6]
    resumed = nonneg.Encoder.load(out, backbone=own_backbone())
    found = encoded(resumed, torch.from_numpy(vectors))
    off = {"rtol": 0, "atol": 0.01} if CLOSE["atol"] else CLOSE
    np.testing.assert_allclose(found["features"], outputs["python.features"], **off)


def test_a_finished_run_is_known_by_its_settings(command, copied_runs):
    before = (copied_runs / "digits-ncl" / "model.safetensors").read_bytes()
    settings = [part for assignment in SMALL for part in ("--set", assignment)]
    said = command("train", "digits", *settings, "--out", "digits-ncl", cwd=copied_runs)
    assert said == "already done: digits-ncl\n"
    assert (copied_runs / "digits-ncl" / "model.safetensors").read_bytes() == before


def test_evaluations_are_read_and_compared(command, copied_runs, golden):
    found = {
        name: {
            key: [figure.value, figure.beside]
            for key, figure in Evaluation.read(copied_runs / name / "evaluation.json")
            .figures()
            .items()
        }
        for name in EVALUATED
    }
    found["compared"] = {
        "trained": command("compare", *TRAINED, cwd=copied_runs),
        "some": command("compare", *TRAINED, "--only", "knn", cwd=copied_runs),
    }
    golden("old-evaluations", found)


@pytest.mark.parametrize("name", EVALUATED)
def test_evaluate_measures_the_same_again(command, copied_runs, golden, name):
    run = copied_runs / name
    before = json.loads((run / "evaluation.json").read_text())
    said = command("evaluate", name, "--only", "properties,neighbours", cwd=copied_runs)
    after = json.loads((run / "evaluation.json").read_text())
    assert after["model"] == before["model"]
    assert set(after["sections"]) == set(before["sections"]) | {"neighbours"}
    found = {
        "said": said,
        **{key: after["sections"][key]["figures"] for key in ("properties", "neighbours")},
    }
    for key, figure in before["sections"]["properties"]["figures"].items():
        value = found["properties"][current_key(key)]["value"]
        assert value == figure["value"] or value == pytest.approx(figure["value"], rel=1e-4)
    golden(f"old-evaluate-{name}", found, atol=2e-3)


def test_embed(command, copied_runs, golden):
    found = {}
    for name, *asked in (("digits-renamed", "digits", "--hidden"), ("vectors-ncl", "vectors.npy")):
        out = f"{name}.npz"
        found[name] = command("embed", name, *asked, "--out", out, cwd=copied_runs)
        with np.load(copied_runs / out) as file:
            arrays = {key: file[key] for key in file.files}
        found[f"{name} arrays"] = {
            key: array[:40] if array.dtype.kind == "f" else [array.dtype.str, array.shape]
            for key, array in sorted(arrays.items())
        }
    golden("old-embed", found)


def test_report(command, copied_runs, golden, atlas):
    against = ("--against", "digits-cl", "--other-seed", "digits-ncl", "--samples", "60")
    found = {"runs": command("report", "digits-renamed", *against, cwd=copied_runs)}
    found["runs page"] = atlas(copied_runs / "digits-renamed" / "atlas.html")
    found["vectors"] = command("report", "vectors-ncl", cwd=copied_runs)
    found["vectors page"] = atlas(copied_runs / "vectors-ncl" / "atlas.html")
    golden("old-report", found, **ATLAS)


def test_no_path_of_a_machine_is_kept(old_runs):
    for path in old_runs.rglob("*.json*"):
        assert not re.search(r'"(/|[A-Z]:\\|~)', path.read_text()), path


def test_what_is_stored_stays_small(old_runs):
    assert sum(path.stat().st_size for path in old_runs.rglob("*")) < 1_500_000
