"""Supervised experiments: from the same presets, with either loss, from scratch or fine-tuned."""

import json

import pytest
import torch
from rich.console import Console

from nonneg import Encoder
from nonneg.data import load
from nonneg.runs import (
    build_encoder,
    evaluate_run,
    read_experiment,
    read_run,
    run_experiment,
)
from nonneg.training import read_history

QUIET = Console(quiet=True)
SMALL = [
    "encoder.backbone.width=8",
    "encoder.projector.hidden=[32]",
    "encoder.projector.n_features=48",
    "training.epochs=4",
    "training.warmup_epochs=1",
    "training.batch_size=64",
    "task=supervised",
]


def experiment(*settings):
    return read_experiment("digits", [*SMALL, *settings])


@pytest.mark.parametrize("reads", ["hidden", "features"])
@pytest.mark.parametrize("loss", ["ce", "nonneg_ce"])
def test_digits_are_learnt_with_either_loss(tmp_path, loss, reads):
    name, settings = experiment(f"loss={loss}", f"reads={reads}")
    assert name == f"digits-{loss}" + ("-mlp" if reads == "features" else "")
    run_experiment(settings, out=tmp_path / name, console=QUIET)
    history = read_history(tmp_path / name)
    assert history[0]["loss"] < 2.31  # from log 10 at the first step
    assert history[-1]["accuracy"] > 0.85
    assert read_run(tmp_path / name).method == name.removeprefix("digits-").upper()
    encoder = Encoder.load(tmp_path / name)
    assert encoder.is_nonnegative is (loss == "nonneg_ce")
    assert "class_consistency" in history[-1]


def test_a_run_can_start_from_an_encoder(tmp_path):
    """The first weights are those of the folder, and its accuracy is ahead after one epoch."""
    _, contrastive = read_experiment("digits", [*SMALL[:-1], "training.epochs=5"])
    run_experiment(contrastive, out=tmp_path / "ncl", console=QUIET)
    _, tuned = experiment("loss=nonneg_ce", f"start={tmp_path / 'ncl'}")
    started = build_encoder(tuned, (1, 8, 8)).state_dict()
    for key, value in Encoder.load(tmp_path / "ncl").state_dict().items():
        assert torch.equal(started[key], value), key
    _, scratch = experiment("loss=nonneg_ce")
    for name, settings in (("tuned", tuned), ("scratch", scratch)):
        run_experiment(settings, out=tmp_path / name, console=QUIET)
    first = {n: read_history(tmp_path / n)[0]["accuracy"] for n in ("tuned", "scratch")}
    assert first["tuned"] > first["scratch"]
    said = json.loads((tmp_path / "tuned" / "run.json").read_text())["settings"]
    assert said["start"] == str(tmp_path / "ncl")


def test_a_start_of_another_shape_is_refused(tmp_path):
    _, other = read_experiment("digits", ["encoder.backbone.width=4"])
    build_encoder(other, (1, 8, 8)).save(tmp_path / "other")
    _, tuned = experiment("loss=ce", f"start={tmp_path / 'other'}")
    with pytest.raises(ValueError, match="does not fit the one to train"):
        build_encoder(tuned, load("digits").sample_shape)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["task=supervised"], "task=supervised needs loss=ce or nonneg_ce, not info_nce"),
        (["loss=ce"], "task=contrastive needs loss=info_nce or .* or queue, not ce"),
        (
            ["task=supervised", "loss=ce", "training.chunk_size=64"],
            "training.chunk_size does not go with task=supervised",
        ),
    ],
)
def test_settings_have_to_suit_the_task(settings, said):
    with pytest.raises(ValueError, match=said):
        read_experiment("digits", settings)


def test_a_supervised_run_is_evaluated_by_its_own_classifier(tmp_path):
    """The figure is the accuracy that the history had last, where the samples are the same."""
    _, settings = experiment("loss=nonneg_ce", "training.monitor_samples=200")
    run_experiment(settings, out=tmp_path / "run", console=QUIET)
    found = evaluate_run(tmp_path / "run", only=["classification"], split="held-out").figures()
    last = read_history(tmp_path / "run")[-1]["accuracy"]
    assert found["classifier"].value == pytest.approx(last)


def test_measurements_within_an_epoch_change_nothing_else(tmp_path):
    _, plain = experiment("loss=ce")
    _, watched = experiment("loss=ce", "training.monitor_every=5")
    for name, settings in (("plain", plain), ("watched", watched)):
        run_experiment(settings, out=tmp_path / name, console=QUIET)
    weights = [(tmp_path / n / "model.safetensors").read_bytes() for n in ("plain", "watched")]
    assert weights[0] == weights[1]
    history = read_history(tmp_path / "watched")
    steps = [record["step"] for epoch in history for record in epoch["within"]]
    assert steps == list(range(5, history[-1]["step"] + 1, 5))
    assert all("accuracy" in record for epoch in history for record in epoch["within"])
