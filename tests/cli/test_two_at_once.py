"""Two commands that write to the same run folder at the same time."""

import json
import textwrap
import threading
import time

import numpy as np
import pytest
from forking import Forked

from nonneg.training.run_folder import LOCK_FILE, locked

# The command line, which says "here" when it first calls a function and waits to be let on.
PAUSED = textwrap.dedent(
    """
    import importlib, sys
    from nonneg.cli import main

    place, *sys.argv[1:] = sys.argv[1:]
    module, *names, last = place.split(":")[0], *place.split(":")[1].split(".")
    owner = importlib.import_module(module)
    for name in names:
        owner = getattr(owner, name)
    function, paused = getattr(owner, last), []

    def pausing(*args, **kwargs):
        if not paused:
            paused.append(True)
            parent.send("here")
            parent.recv()
        return function(*args, **kwargs)

    setattr(owner, last, pausing)
    main()
    """
)
QUICK = [
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "training.epochs=2",
    "training.warmup_epochs=1",
]


def settings(*assignments):
    return [part for assignment in assignments for part in ("--set", assignment)]


class Command:
    """A command in a process of its own, which stops at a place in the program."""

    def __init__(self, place, *arguments):
        self.process = Forked(PAUSED, place, *arguments)
        self.is_at_place = False

    def wait_until_there_or_ended(self):
        self.is_at_place = self.process.said() == "here"
        return self

    def end(self):
        """The exit code and what was said on standard error, after it may go on."""
        if self.is_at_place:
            self.process.link.send("go on")
        ended = self.process.end()
        return ended.returncode, ended.stderr


@pytest.fixture
def start():
    started = []

    def starting(*arguments):
        started.append(Command(*arguments))
        return started[-1]

    yield starting
    for command in started:
        command.process.kill()


def refusal(pid, folder):
    return (
        f"error: another process, pid {pid}, is writing to the run in {folder}; wait until it ends "
        "or stop it, or choose another folder\n"
    )


def test_of_two_trainings_one_has_the_folder(start, tmp_path):
    """Both find it empty at the same moment; each would make it a run with its own seed."""
    run = tmp_path / "run"
    both = {
        seed: start(
            "nonneg.training.run_folder:write_json",
            *("train", "digits", *settings(*QUICK, f"seed={seed}"), "--out", run),
        )
        for seed in (1, 2)
    }
    for command in both.values():
        command.wait_until_there_or_ended()
    (winner,) = [seed for seed, command in both.items() if command.is_at_place]
    assert both[3 - winner].end() == (1, refusal(both[winner].process.pid, run))
    assert both[winner].end() == (0, "")
    assert json.loads((run / "run.json").read_text())["settings"]["seed"] == winner
    assert sorted(path.name for path in run.iterdir()) == [
        "checkpoints", "config.json", "history.jsonl", "model.safetensors", "run.json",
    ]  # fmt: skip


def test_a_killed_training_is_resumed_at_once(start, nonneg, tmp_path):
    run, arguments = tmp_path / "run", ["train", "digits", *settings(*QUICK), "--out"]
    killed = start("nonneg.training.trainer:_step", *arguments, run).wait_until_there_or_ended()
    assert killed.is_at_place
    refused = nonneg(*arguments, run, "--resume")
    assert refused.stderr == refusal(killed.process.pid, run)
    killed.process.kill()
    assert (run / LOCK_FILE).exists()
    resumed = nonneg(*arguments, run, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert not (run / LOCK_FILE).exists()


@pytest.fixture
def vectors(tmp_path):
    kinds = np.repeat(np.eye(4), 40, axis=0)
    noise = 0.1 * np.random.default_rng(0).standard_normal((160, 4))
    np.save(tmp_path / "x.npy", kinds + noise)
    np.save(tmp_path / "y.npy", kinds.argmax(axis=1))
    return tmp_path / "x.npy"


FIT = settings("n_components=8", "hidden=0", "batch_size=64", "max_steps=5", "n_neighbors=3")


def test_a_fit_that_is_stopped_takes_nothing_from_the_other(
    start, nonneg, vectors, tmp_path, monkeypatch
):
    run, arguments = tmp_path / "run", ["fit", vectors, *FIT, "--out"]
    first = start("nonneg.estimators:NCL.fit", *arguments, run).wait_until_there_or_ended()
    assert first.is_at_place
    record = (run / "run.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("nonneg.estimators.NCL.fit", interrupted)
        second = nonneg(*arguments, run)
    assert (run / "run.json").read_bytes() == record
    assert (second.returncode, second.stderr) == (1, refusal(first.process.pid, run))
    assert first.end() == (0, "")
    assert sorted(path.name for path in run.iterdir()) == [
        "config.json", "coverage.safetensors", "history.jsonl", "model.safetensors", "run.json",
    ]  # fmt: skip


def interrupted(*_, **__):
    raise KeyboardInterrupt


def test_two_evaluations_keep_the_sections_of_both(start, nonneg, vectors, tmp_path):
    """Both have read the file before either one writes it."""
    run = tmp_path / "run"
    fitted = nonneg("fit", vectors, "--labels", tmp_path / "y.npy", *FIT, "--out", run)
    assert fitted.returncode == 0, fitted.stderr
    assert nonneg("evaluate", run, "--only", "probe").returncode == 0
    few, place = settings("n_permutations=2"), "nonneg.runs.evaluating:evaluate"
    sections = ("properties", "neighbours,sepin")
    both = [start(place, "evaluate", run, "--only", names, *few) for names in sections]
    for command in both:
        assert command.wait_until_there_or_ended().is_at_place
    for command in both:
        assert command.end() == (0, "")
    found = json.loads((run / "evaluation.json").read_text())
    assert list(found["sections"]) == ["probe", "properties", "neighbours"]
    assert list(found["skipped"]) == ["sepin"]
    assert not (run / LOCK_FILE).exists()
    # A section that is measured again takes the place of the one before.
    assert nonneg("evaluate", run, "--only", "properties").returncode == 0
    again = json.loads((run / "evaluation.json").read_text())["sections"]
    assert list(again) == ["probe", "properties", "neighbours"]
    before = found["sections"]
    assert again["properties"]["settings"] != before["properties"]["settings"]
    assert again["neighbours"] == before["neighbours"]


def test_a_measured_section_waits_for_whoever_writes(nonneg, vectors, tmp_path):
    run = tmp_path / "run"
    assert nonneg("fit", vectors, *FIT, "--out", run).returncode == 0
    has_ended = []

    def write():
        with locked(run):
            is_locked.set()
            time.sleep(2)
            has_ended.append(not (run / "evaluation.json").exists())

    is_locked = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    is_locked.wait()
    ended = nonneg("evaluate", run, "--only", "properties")
    writer.join()
    assert ended.returncode == 0, ended.stderr
    assert has_ended == [True]
    assert list(json.loads((run / "evaluation.json").read_text())["sections"]) == ["properties"]


def test_a_measured_section_is_not_written_into_what_another_process_writes(
    nonneg, vectors, tmp_path, monkeypatch
):
    run = tmp_path / "run"
    assert nonneg("fit", vectors, *FIT, "--out", run).returncode == 0
    monkeypatch.setattr("nonneg.runs.evaluating._SECONDS_TO_WRITE", 0)
    with locked(run):
        ended = nonneg("evaluate", run, "--only", "properties")
    assert ended.returncode == 1
    assert "is writing to the run in " in ended.stderr
    assert not (run / "evaluation.json").exists()
