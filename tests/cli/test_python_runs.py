"""Runs that were made from Python: each command says at once what can be done with them."""

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import nonneg as library
from nonneg.backbones import BackboneSettings
from nonneg.data import ArrayData
from nonneg.pairs import NoisePairs


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run around a module of one's own, one around a known backbone, and samples in a file."""
    place = tmp_path_factory.mktemp("python")
    X = torch.rand(64, 6, generator=torch.Generator().manual_seed(0))
    np.save(place / "x.npy", X.numpy())
    settings = library.EncoderSettings(projector={"n_features": 8})
    known = settings.model_copy(update={"backbone": BackboneSettings(name="mlp", hidden=(8,))})
    encoders = {
        "own": library.Encoder(settings, (6,), backbone=nn.Sequential(nn.Linear(6, 8))),
        "known": library.Encoder(known, (6,)),
    }
    config = library.TrainConfig.read(
        {"training": {"epochs": 1, "warmup_epochs": 0, "batch_size": 32}}
    )
    for name, encoder in encoders.items():
        out = place / name
        console = Console(quiet=True)
        library.train(encoder, ArrayData(X), NoisePairs(0.1), config, out=out, console=console)
    return place


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "own"],
        ["report", "own", "--data", "x.npy"],
        ["evaluate", "own"],
        ["evaluate", "own", "--data", "digits"],
        ["compare", "own", "known"],
        ["embed", "own", "x.npy"],
    ],
)
def test_a_module_of_ones_own_is_measured_in_python(nonneg, place, arguments):
    ended = nonneg(*arguments, cwd=place)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: the encoder in own stands on a module of your own, ")
    assert "nonneg.Encoder.load(folder, backbone=module).encode(samples)" in ended.stderr
    assert "nonneg report Z.npz" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "known"], "known was trained from Python and does not say on what data; name "),
        (["evaluate", "known"], "known was trained from Python and does not say on what data; "),
        (
            ["evaluate", "known", "--data", "x.npy"],
            "x.npy is a file of one set only; known was trained from Python",
        ),
        (
            ["compare", "known", "known"],
            "known has no evaluation.json; run: nonneg evaluate known --data SET, with a set that",
        ),
    ],
)
def test_a_run_that_does_not_know_its_data(nonneg, place, arguments, said):
    ended = nonneg(*arguments, cwd=place)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {said}")


def test_the_atlas_of_a_file_needs_no_other_data(nonneg, place):
    ended = nonneg("report", "known", "--data", "x.npy", cwd=place)
    assert ended.returncode == 0, ended.stderr
    assert "64 samples): known/atlas.html" in ended.stdout
    assert "run nonneg evaluate known --data SET" in ended.stdout
