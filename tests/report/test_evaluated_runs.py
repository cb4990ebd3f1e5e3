"""The atlas of a run that has been evaluated shows the figures of the evaluation."""

import json
import re
import shutil

import numpy as np
import pytest

import nonneg
from nonneg.runs import evaluate_run, read_experiment, run_experiment

QUICK = [
    "encoder.backbone.width=4",
    "encoder.projector.hidden=[16]",
    "encoder.projector.n_features=32",
    "training.epochs=1",
    "training.warmup_epochs=0",
]
MEASURED_HERE = "Readability of NCL is not from an evaluation: it was measured for this page."


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A run whose evaluation.json says what nobody would measure."""
    folder = tmp_path_factory.mktemp("runs") / "ncl"
    run_experiment(read_experiment("digits", QUICK)[1], out=folder)
    evaluate_run(folder, only=["properties", "neighbours"])
    path = folder / "evaluation.json"
    values = json.loads(path.read_text())
    properties = values["sections"]["properties"]["figures"]
    properties["sparsity"]["value"] = 0.1234
    # As version 0.1 called it.
    properties["monosemanticity_inputs"] = properties.pop("monosemanticity") | {"value": 0.4321}
    values["sections"]["neighbours"]["figures"]["precision_features"]["value"] = 0.2345
    path.write_text(json.dumps(values))
    return folder


@pytest.fixture
def run(evaluated, tmp_path):
    return shutil.copytree(evaluated, tmp_path / "run")


def shown(written):
    text = written.path.read_text(encoding="utf-8")
    content = json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])
    return {row["key"]: row["cells"]["NCL"] for row in content["figures"]}


def refuse(*_, **__):
    raise AssertionError("measured again")


def test_what_was_evaluated_is_not_measured_again(run, monkeypatch):
    monkeypatch.setattr("nonneg.report.headline.readability", refuse)
    monkeypatch.setattr("nonneg.report.headline.monosemanticity_figure", refuse)
    written = nonneg.report.atlas(run)
    found = shown(written)
    assert found["sparsity"]["value"] == 0.1234
    assert found["monosemanticity"]["value"] == 0.4321
    assert found["precision_features"]["value"] == 0.2345
    assert found["precision_features"]["beside"]["null"] == pytest.approx(0.1, abs=0.01)
    assert "class_entropy" not in found
    assert MEASURED_HERE not in written.notes


def test_other_labels_and_another_reference_are_measured(run):
    labels = np.arange(360) % 3
    written = nonneg.report.atlas(run, labels=labels, reference=np.eye(360))
    found = shown(written)
    assert found["sparsity"]["value"] == 0.1234
    assert found["precision_features"]["value"] != 0.2345
    assert found["precision_features"]["beside"]["null"] == pytest.approx(1 / 3)
    assert found["monosemanticity"]["value"] != 0.4321
    assert found["class_consistency_min20"]["beside"]["null"] > 0.3


@pytest.mark.parametrize("spoilt", ["weights", "data", "section", "split"])
def test_an_evaluation_of_something_else_is_not_shown(run, spoilt):
    path, split = run / "evaluation.json", "test"
    values = json.loads(path.read_text())
    if spoilt == "weights":
        values["model"] = "another"
        reason = "evaluation.json of NCL is of other features; run nonneg evaluate"
    elif spoilt == "data":
        values["data"]["test"]["name"] = "mnist"
        reason = "evaluation.json of NCL is of other data (mnist); run nonneg evaluate"
    elif spoilt == "section":
        del values["sections"]["properties"]
        reason = MEASURED_HERE
    else:
        split, reason = "train", "Accuracies are measured on the test set, not on train."
    path.write_text(json.dumps(values))
    written = nonneg.report.atlas(run, split=split)
    found = shown(written)
    assert found["sparsity"]["value"] != 0.1234
    assert any(note.startswith(reason) for note in written.notes)
    assert MEASURED_HERE in written.notes
