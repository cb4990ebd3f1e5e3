"""A checkpoint from elsewhere goes through the commands like any run."""

import json

import numpy as np
import pytest
import torch

from nonneg import Encoder
from nonneg.backbones import ResNet
from nonneg.data import load
from nonneg.data.feature_file import read_features
from nonneg.head.projector import ProjectorSettings, projector


@pytest.fixture(scope="module")
def place(nonneg, tmp_path_factory):
    """A folder with a checkpoint in solo-learn's layout, and the run imported from it."""
    place = tmp_path_factory.mktemp("imported")
    torch.manual_seed(0)
    backbone = ResNet("resnet10", in_channels=1, width=4, stem="authors")
    head = projector(32, ProjectorSettings(hidden=(24,), n_features=16, norm="none"))
    weights = {f"backbone.{name}": tensor for name, tensor in backbone.state_dict().items()}
    theirs = {"0": "0", "3": "2"}  # they have no place for a norm
    for name, tensor in head.state_dict().items():
        number, _, kind = name.partition(".")
        weights[f"projector.{theirs[number]}.{kind}"] = tensor
    torch.save({"state_dict": weights, "epoch": 3}, place / "a.ckpt")
    ended = nonneg(
        "import-checkpoint", "a.ckpt", "--out", "run", "--pixels", "none", "--nonnegative", "relu",
        cwd=place,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "resnet10 with stem authors, 16 features, transform relu: run\n"
    return place


def test_embed_takes_it(nonneg, place):
    ended = nonneg("embed", "run", "digits", "--out", "Z.npz", cwd=place)
    assert ended.returncode == 0, ended.stderr
    features, _ = read_features(place / "Z.npz")
    features = features.toarray() if hasattr(features, "toarray") else features
    expected = Encoder.load(place / "run").encode(load("digits", split="test")).features
    np.testing.assert_allclose(features, expected.numpy(), atol=1e-6)


def test_evaluate_and_report_take_it(nonneg, place):
    ended = nonneg("evaluate", "run", cwd=place)
    assert ended.stderr == (
        "error: run was imported and does not say on what data; name a set with both splits with "
        "--data, or measure it in Python with nonneg.Encoder.load(folder).encode and "
        "nonneg.evaluation\n"
    )
    ended = nonneg(
        "evaluate", "run", "--data", "digits", "--only", "properties,neighbours", cwd=place
    )
    assert ended.returncode == 0, ended.stderr
    assert "sections" in json.loads((place / "run" / "evaluation.json").read_text())
    ended = nonneg("report", "run", "--data", "digits", "--out", "atlas.html", cwd=place)
    assert ended.returncode == 0, ended.stderr
    page = (place / "atlas.html").read_text()
    assert "NCL: 16 features on resnet10, transform relu." in page
    assert "seed" not in page.partition("NCL: 16 features")[2][:60]


def test_a_refusal_is_a_sentence(nonneg, place, tmp_path):
    ended = nonneg("import-checkpoint", "a.ckpt", "--out", tmp_path / "run", cwd=place)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: a.ckpt does not say what it learnt from, so that ")
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
