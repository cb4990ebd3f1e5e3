"""A run that learnt from a file of one's own notices when the file is replaced."""

import json

import numpy as np
import pytest
from rich.console import Console

from nonneg.data import load
from nonneg.runs import evaluate_run, read_experiment, read_run, run_experiment

QUIET = Console(quiet=True)


def experiment(path):
    settings = [
        f"data.name={path}",
        "encoder.backbone.width=4",
        "encoder.projector.hidden=[16]",
        "encoder.projector.n_features=32",
        "training.epochs=1",
        "training.warmup_epochs=0",
    ]
    return read_experiment("digits", settings)[1]


@pytest.fixture
def run(tmp_path):
    digits = load("digits")
    np.savez(tmp_path / "mine.npz", inputs=digits.inputs.numpy(), labels=digits.labels.numpy())
    run_experiment(experiment(tmp_path / "mine.npz"), out=tmp_path / "run", console=QUIET)
    return tmp_path / "run"


def replace_file(run):
    path = run.parent / "mine.npz"
    with np.load(path) as arrays:
        np.savez(path, inputs=255 - arrays["inputs"], labels=arrays["labels"])


def test_a_replaced_file_is_refused(run):
    measured = {"split": "held-out", "only": ["properties"]}
    assert evaluate_run(run, **measured).figures()
    replace_file(run)
    with pytest.raises(
        ValueError, match=r"mine\.npz has changed since the run was trained on it; "
    ):
        evaluate_run(run, **measured)
    for is_finished in (True, False):
        if not is_finished:
            (run / "model.safetensors").unlink()
        with pytest.raises(FileExistsError, match=r"^the data file has changed since"):
            run_experiment(experiment(run.parent / "mine.npz"), out=run, resume=True, console=QUIET)


def test_the_digest_is_no_setting(run):
    record = json.loads((run / "run.json").read_text())
    assert len(record["data_digest"]) == 64
    assert "digest" not in record["settings"]["data"]
    assert "digest" not in experiment(run.parent / "mine.npz").model_dump(mode="json")["data"]


def test_a_run_of_before_digests_can_be_measured(run):
    record = json.loads((run / "run.json").read_text())
    del record["data_digest"]
    (run / "run.json").write_text(json.dumps(record))
    replace_file(run)
    assert evaluate_run(run, split="held-out", only=["properties"]).figures()


def test_a_run_finds_its_data_from_every_folder(tmp_path, monkeypatch):
    digits = load("digits")
    np.savez(tmp_path / "mine.npz", inputs=digits.inputs.numpy(), labels=digits.labels.numpy())
    monkeypatch.chdir(tmp_path)
    run_experiment(experiment("mine.npz"), out=tmp_path / "run", console=QUIET)
    assert read_run(tmp_path / "run").settings["data"]["name"] == str(tmp_path / "mine.npz")
    again = run_experiment(experiment("./mine.npz"), out="run", resume=True, console=QUIET)
    assert not again.is_new
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert evaluate_run(tmp_path / "run", split="held-out", only=["properties"]).figures()


def test_the_name_of_a_known_set_stays(tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert experiment("digits").data.anywhere().name == "digits"
    assert experiment("./digits").data.anywhere().name == str(tmp_path / "digits")


def test_named_sets_have_no_digest(tmp_path):
    run_experiment(experiment("digits"), out=tmp_path / "run", console=QUIET)
    assert read_run(tmp_path / "run").data_digest is None
