"""What a run folder says when its files are damaged, and when its data has changed."""

import json

import pytest

from nonneg.encoder import EncoderSettings
from nonneg.runs.record import read_run
from nonneg.training.run_folder import RunFolder, read_history

SETTINGS = {"seed": 0, "loss": {"name": "info_nce"}, "encoder": {"nonnegative": "relu"}}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [('{"epo', r"is not readable JSON \("), ("3", "is not a JSON object"), ("\xff", "is not rea")],
)
def test_a_damaged_history_names_file_and_line(line, sentence, tmp_path):
    (tmp_path / "history.jsonl").write_text(f'{{"epoch": 1}}\n{line}\n', encoding="latin-1")
    with pytest.raises(
        ValueError,
        match=rf"^line 2 of .*history\.jsonl {sentence}.*; copy the run again, or delete",
    ):
        read_history(tmp_path)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ("{", "is not readable JSON"),
        ("[]", "does not describe a run"),
        ("{}", "does not describe a run"),
        ({"settings": []}, "does not describe a run"),
        ({"settings": {**SETTINGS, "encoder": 3}}, r"lacks the setting encoder\.nonnegative"),
        ({"settings": {**SETTINGS, "loss": {}}}, r"lacks the setting loss\.name"),
        ({"settings": {**SETTINGS, "seed": None}}, "lacks the setting seed"),
    ],
)
def test_a_damaged_record_names_the_file_and_what_to_do(record, sentence, tmp_path):
    text = record if isinstance(record, str) else json.dumps(record)
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ValueError, match=rf"run\.json {sentence}.*; copy the run again, or delete"):
        read_run(tmp_path)


def test_wrong_settings_of_a_run_come_with_its_file(tmp_path):
    settings = {**SETTINGS, "data": {"name": "digits"}}
    (tmp_path / "run.json").write_text(json.dumps({"settings": settings}))
    run = read_run(tmp_path)
    with pytest.raises(ValueError, match=r"run\.json: the setting 'views' is missing"):
        _ = run.experiment


def test_a_run_remembers_the_file_it_learnt_from(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.claim(SETTINGS, resume=False, data_digest="a")
    folder.claim(SETTINGS, resume=True, data_digest="a")
    with pytest.raises(FileExistsError, match=r"^the data file has changed since .*run was"):
        folder.claim(SETTINGS, resume=True, data_digest="b")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"] == SETTINGS


def test_a_run_of_before_digests_goes_on(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.claim(SETTINGS, resume=False)
    assert "data_digest" not in json.loads((tmp_path / "run" / "run.json").read_text())
    folder.claim(SETTINGS, resume=True, data_digest="b")


def test_a_setting_that_came_after_a_run_counts_as_its_default(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.claim(SETTINGS, resume=False)
    later = {**SETTINGS, "loss": {"name": "info_nce", "temperature": 0.12}}
    folder.claim(later, resume=True)
    later["loss"]["temperature"] = 0.2
    with pytest.raises(FileExistsError, match=r"loss\.temperature: 0\.12 there, 0\.2 here"):
        folder.claim(later, resume=True)


def test_so_does_one_of_its_backbone(tmp_path):
    folder = RunFolder(tmp_path / "run")
    encoder = EncoderSettings(backbone={"name": "resnet10", "width": 2}).model_dump(mode="json")
    earlier = {**encoder, "backbone": {"name": "resnet10", "width": 2}}
    folder.claim({**SETTINGS, "encoder": earlier}, resume=False)
    folder.claim({**SETTINGS, "encoder": encoder}, resume=True)
    encoder["backbone"]["stages"] = 2
    with pytest.raises(FileExistsError, match=r"encoder\.backbone\.stages: 4 there, 2 here"):
        folder.claim({**SETTINGS, "encoder": encoder}, resume=True)
