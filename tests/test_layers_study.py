"""The study of layers: each arm is the preset on a stage, and its lines are read."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        yield import_module("benchmarks.layers")


@pytest.mark.parametrize("method", ["CL", "NCL"])
def test_an_arm_is_the_preset_on_a_frozen_network_that_ends_earlier(study, method):
    experiment = study.experiment_of(2, method, 5)
    assert (experiment.encoder.nonnegative == "identity") is (method == "CL")
    assert (experiment.encoder.backbone.stages, experiment.encoder.frozen) == (2, True)
    assert (experiment.loss.backbone_weight, experiment.seed) == (0, 5)
    encoder = study.build_encoder(experiment, (1, 28, 28))
    assert encoder.hidden_size == 32
    assert not any(weight.requires_grad for weight in encoder.backbone.parameters())


def test_the_table_goes_from_stage_to_stage(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path / "lines.jsonl")
    assert study.lines() == {}
    of_all = {**dict.fromkeys(study._SHOWN, 0.5), "impurity": 0.5, "n_hidden": 16}
    for seed in (0, 1):
        run = {**of_all, "stage": 1, "seed": seed, "core_seconds": 60}
        study.append(study.RESULTS, {**run, "method": "CL"})
        study.append(
            study.RESULTS, {**run, "method": "NCL", "impurity": 0.2 + 0.1 * seed, "sepin_1": 2.0}
        )
    study.append(study.RESULTS, {**run, "stage": 3, "method": "CL", "seed": 0})
    rows = study.table().splitlines()
    assert rows[2].startswith("| 1 (16 numbers) | CL | 0, 1 | 50.00 ± 0.00 |")
    assert rows[3].endswith("| 0.50 ± 0.14 | 4.00 ± 0.00 |")
    assert rows[4].startswith("| 3 (16 numbers) | CL | 0 | 50.00 |")
    assert rows[-1] == "5 core-minutes."


def test_the_page_of_the_study_is_up_to_date(study):
    page = study.PAGE.read_text()
    assert study.with_table(page) == page
