"""A run that is killed at any moment and resumed ends with the same bytes as one that is not."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch
from forking import KILLED, run_forked
from planted_parts import QUIET, config, noisy_pairs, planted
from rich.console import Console
from torch import nn

import nonneg
from nonneg import Encoder, EncoderSettings
from nonneg.io import write_tensors
from nonneg.runs import read_experiment, run_experiment
from nonneg.training import checkpoint, read_history
from nonneg.training.trainer import Run

SMALL = [
    "data.n_train=256",
    "training.batch_size=64",
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "training.epochs=3",
    "training.warmup_epochs=1",
    "training.checkpoint_every=3",
    "training.monitor_samples=50",
]
TIMINGS = ("seconds", "images_per_second")

# Runs the experiment and kills itself, with SIGKILL, at the n-th call of a function.
KILLING = textwrap.dedent(
    """
    import os, signal, sys, pathlib
    import rich.console
    from nonneg.runs import read_experiment, run_experiment
    import nonneg.training.trainer as loop

    point, n, out, *overrides = sys.argv[1:]
    count = 0

    def deadly(function, before):
        def wrapped(*args, **kwargs):
            global count
            count += 1
            if before and count == int(n):
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*args, **kwargs)
            if count == int(n):
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return wrapped

    if point == "step":
        loop._step = deadly(loop._step, before=False)
    elif point == "sync":  # the file is written but has not got its name
        os.fsync = deadly(os.fsync, before=True)
    elif point == "rename":  # the file has its name and nothing after it has happened
        pathlib.Path.replace = deadly(pathlib.Path.replace, before=False)
    _, experiment = read_experiment("digits", overrides)
    run_experiment(experiment, out=out, console=rich.console.Console(quiet=True))
    """
)


def run(out, *, resume=False, overrides=SMALL):
    _, experiment = read_experiment("digits", overrides)
    return run_experiment(experiment, out=out, resume=resume, console=Console(quiet=True))


def killed_run(out, point, n, code=KILLING):
    run_forked(code, point, n, out, *SMALL, expect=KILLED)


def comparable(folder):
    history = [
        {key: value for key, value in record.items() if key not in TIMINGS}
        for record in read_history(folder)
    ]
    return (folder / "model.safetensors").read_bytes(), history


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(folder)
    return comparable(folder)


def test_the_same_run_gives_the_same_bytes(whole, tmp_path):
    run(tmp_path / "run")
    assert comparable(tmp_path / "run") == whole


# 4 steps an epoch; a checkpoint at the start, every 3 steps and after each epoch.
@pytest.mark.parametrize(
    ("point", "n"),
    [
        ("sync", 1),  # while the folder is claimed
        ("step", 2),  # before anything but the beginning is saved
        ("step", 8),  # between two checkpoints, in the middle of an epoch
        ("sync", 9),  # while a checkpoint is being written
        ("rename", 6),  # right after one has got its name
    ],
)
def test_killed_and_resumed_ends_with_the_same_bytes(whole, tmp_path, point, n):
    folder = tmp_path / "run"
    killed_run(folder, point, n)
    assert not (folder / "model.safetensors").exists()
    run(folder, resume=True)
    assert comparable(folder) == whole


def test_killed_twice(whole, tmp_path):
    folder = tmp_path / "run"
    killed_run(folder, "step", 5)
    # The second process resumes, so that it is killed further on.
    killed_run(folder, "step", 4, KILLING.replace("out=out,", "out=out, resume=True,"))
    run(folder, resume=True)
    assert comparable(folder) == whole


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_checkpoint_is_passed_over_with_a_message(whole, tmp_path, damage, capsys):
    folder = tmp_path / "run"
    killed_run(folder, "step", 11)
    newest = sorted((folder / "checkpoints").glob("step-*"))[-1]
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flipped":
        content[-100] ^= 1
    else:
        content = b""
    newest.write_bytes(content)
    _, experiment = read_experiment("digits", SMALL)
    run_experiment(experiment, out=folder, resume=True, console=Console(width=1000))
    said = capsys.readouterr().out
    assert f"{newest} cannot be used (" in said
    assert "going back to the checkpoint before it" in said
    assert comparable(folder) == whole


def test_when_no_checkpoint_can_be_read_it_says_so(tmp_path):
    folder = tmp_path / "run"
    killed_run(folder, "step", 5)
    for path in (folder / "checkpoints").glob("step-*"):
        path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"^none of the 2 checkpoints in .* can be read; remove"):
        run(folder, resume=True)


def test_only_the_last_two_checkpoints_are_kept(tmp_path):
    run(tmp_path / "run")
    kept = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["step-000000009.safetensors", "step-000000012.safetensors"]


def test_a_finished_run_is_left_as_it_is(whole, tmp_path):
    run(tmp_path / "run")
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    result = run(tmp_path / "run", resume=True)
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before
    assert result.interrupted_by is None
    assert len(result.history) == 3


def test_lines_of_the_history_after_the_checkpoint_are_cut(whole, tmp_path):
    folder = tmp_path / "run"
    killed_run(folder, "step", 8)
    with (folder / "history.jsonl").open("a") as history:
        history.write(json.dumps({"epoch": 99}) + "\n" + '{"epo')
    run(folder, resume=True)
    assert comparable(folder) == whole


# The command line, sent a signal at its sixth step.
SIGNALLED = textwrap.dedent(
    """
    import os, signal, sys
    import nonneg.training.trainer as loop
    from nonneg.cli import main

    step, count, name = loop._step, 0, sys.argv.pop()

    def signalled(run):
        global count
        count += 1
        if count == 6:
            os.kill(os.getpid(), signal.Signals[name])
        step(run)

    loop._step = signalled
    main()
    """
)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_saves_and_leaves_cleanly(whole, tmp_path, name):
    folder = tmp_path / "run"
    settings = [part for override in SMALL for part in ("--set", override)]
    command = ["train", "digits", *settings, "--out", folder]
    ended = run_forked(SIGNALLED, *command, name, expect=128 + signal.Signals[name])
    assert f"stopped by {name}; saved. Continue with the same command and --resume" in ended.stdout
    assert ended.stderr == ""
    assert sorted((folder / "checkpoints").iterdir())[-1].name == "step-000000006.safetensors"
    assert not (folder / "model.safetensors").exists()
    run(folder, resume=True)
    assert comparable(folder) == whole


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3.0, 4.0, 5.0, 6.0, 7.0])
def test_killed_from_outside_at_any_time(tmp_path, seconds):
    longer = [*SMALL, "training.epochs=40"]
    settings = [part for override in longer for part in ("--set", override)]
    command = [sys.executable, "-m", "nonneg", "train", "digits", *settings, "--resume"]
    for folder in (tmp_path / "whole", tmp_path / "killed"):
        process = subprocess.Popen(
            [*command, "--out", str(folder)], stdout=subprocess.DEVNULL, env=dict(os.environ)
        )
        if folder.name == "killed":
            time.sleep(seconds)
            process.kill()
            process.wait()
            process = subprocess.Popen([*command, "--out", str(folder)], stdout=subprocess.DEVNULL)
        assert process.wait(timeout=300) == 0
    assert comparable(tmp_path / "killed") == comparable(tmp_path / "whole")


class Forgetful(nn.Module):
    """A backbone with a layer that draws."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.ReLU())

    def forward(self, inputs):
        return self.layers(inputs)


def with_dropout():
    torch.manual_seed(0)
    return Encoder(EncoderSettings(), (16,), backbone=Forgetful())


@pytest.mark.parametrize("stop", [2, 4])
def test_dropout_goes_on_as_if_nothing_had_happened(stop, tmp_path, monkeypatch):
    """Stopped within an epoch of four steps, and at its end."""
    runs = config(epochs=3)
    whole, resumed = with_dropout(), with_dropout()
    nonneg.train(whole, planted(), noisy_pairs, runs, out=tmp_path / "whole", console=QUIET)
    asked = Run._asked_to_stop
    monkeypatch.setattr(Run, "_asked_to_stop", lambda run: run.position.step == stop)
    out = tmp_path / "stopped"
    nonneg.train(with_dropout(), planted(), noisy_pairs, runs, out=out, console=QUIET)
    monkeypatch.setattr(Run, "_asked_to_stop", asked)
    torch.rand(7)
    nonneg.train(resumed, planted(), noisy_pairs, runs, out=out, resume=True, console=QUIET)
    for ours, theirs in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    rates = [[r["learning_rate"] for r in read_history(tmp_path / f)] for f in ("whole", "stopped")]
    assert rates[0] == rates[1]


def test_a_run_around_another_module_is_not_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "_asked_to_stop", lambda run: run.position.step == 2)
    settings = {"out": tmp_path / "run", "console": QUIET}
    nonneg.train(with_dropout(), planted(), noisy_pairs, config(), **settings)
    other = Encoder(EncoderSettings(), (16,), backbone=nn.Linear(16, 8))
    with pytest.raises(ValueError, match=r"holds other weights than those of the encoder to train"):
        nonneg.train(other, planted(), noisy_pairs, config(), resume=True, **settings)


def test_what_a_kill_left_of_a_checkpoint_is_cleared_away(tmp_path, monkeypatch):
    """When the run is taken up again, whatever step it was of."""
    monkeypatch.setattr(Run, "_asked_to_stop", lambda run: run.position.step == 2)
    settings = {"out": tmp_path / "run", "console": QUIET}
    nonneg.train(with_dropout(), planted(), noisy_pairs, config(), **settings)
    left = tmp_path / "run" / "checkpoints" / ".step-000000001.safetensors.ab12cd_9.part"
    left.write_bytes(b"half")
    nonneg.train(with_dropout(), planted(), noisy_pairs, config(), resume=True, **settings)
    assert not left.exists()


def test_a_checkpoint_with_a_forged_position_is_passed_over(tmp_path):
    """Its checksum is right, but what it says of the run has another form."""
    model = nn.Linear(2, 1)
    rate = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint.save_checkpoint(tmp_path, model, rate, checkpoint.Position(step=1))
    for step, position in enumerate(("[1, 2]", '{"where": 3}', "[" * 9_999), start=2):
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        about = {"position": position, "digest": checkpoint._digest(tensors, position)}
        write_tensors(tmp_path / f"step-{step:09d}.safetensors", tensors, about)
    said = []
    found = checkpoint.load_checkpoint(tmp_path, model, rate, say=said.append)
    assert (found.step, len(said)) == (1, 3)
    assert all("cannot be used (its position is not" in line for line in said[1:])
    assert "nested more than 64 levels" in said[0]
