"""The study of features that teach the backbone: its queue can be trained, its lines are read."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

from nonneg.runs import read_experiment

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT), *sys.path])
        yield import_module("benchmarks.backbone_study")


def test_every_arm_is_a_run_of_its_own(study):
    assert len({study.folder_of(arm, 0) for arm in study.ARMS}) == len(study.ARMS)
    for arm in study.ARMS:
        preset = arm.preset + ("-cl" if arm.signed else "")
        _, experiment = read_experiment(preset, ["loss.backbone_weight=0", *arm.changes])
        assert (experiment.encoder.nonnegative == "identity") is arm.signed
        assert all(0 < epoch < experiment.training.epochs for epoch in arm.measured)


def test_courses_end_where_they_say(study):
    until, falling = study.until, study.falling
    assert [until(0.5)(x) for x in (0, 0.49, 0.5, 0.9)] == [1, 1, 0, 0]
    assert [falling(1.0, until=0.5)(x) for x in (0, 0.25, 0.5, 0.9)] == pytest.approx(
        [1, 0.5, 0, 0]
    )


def test_the_table_is_of_the_last_line_of_each_epoch(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path / "lines.jsonl")
    assert study.lines() == []
    figures = dict.fromkeys(study._SHOWN, 0.5)
    run = {"arm": "set CL", "epoch": 2, "epochs": 2, "core_seconds": 1800, **figures}
    for seed, probe in ((0, 0.1), (0, 0.3), (1, 0.5)):
        study.append(study.RESULTS, {**run, "seed": seed, "probe_hidden": probe})
    assert [record["probe_hidden"] for record in study.lines()] == [0.3, 0.5]
    assert "| set CL | 2 of 2 | 0, 1 | 40.00 | 50.00 |" in study.table()
    assert study.table().endswith("1.0 core-hours.")
    assert len((tmp_path / "lines.jsonl").read_text().splitlines()) == 3
    assert json.loads((tmp_path / "lines.jsonl").read_text().splitlines()[0])["seed"] == 0


def test_the_page_of_the_study_is_up_to_date(study):
    page = study.PAGE.read_text()
    assert study.with_table(page) == page
