"""Where an estimator may be saved: a new folder, its own folder, and never over something else."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from nonneg import Encoder, EncoderSettings
from nonneg.estimators import NCL, CrossNCL

X = np.random.default_rng(0).standard_normal((60, 6))
QUICK = {"n_components": 8, "hidden": 0, "max_steps": 2, "random_state": 0}


@pytest.fixture(scope="module")
def ncl():
    return NCL(**QUICK).fit(X)


@pytest.fixture(scope="module")
def both():
    return CrossNCL(**QUICK).fit(X, X[:, :4])


def write_encoder(folder):
    Encoder(EncoderSettings(), (6,), backbone=nn.Identity()).save(folder)


def write_run(folder, settings):
    (folder / "run.json").write_text(json.dumps({"settings": settings, "versions": {}}))


def check_refused(estimator, folder, sentence):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(FileExistsError, match=f"^{re.escape(sentence)}$"):
        estimator.save(folder)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert before == after


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_training_run_is_never_overwritten(ncl, both, tmp_path, is_finished):
    write_run(tmp_path, {"training": {}})
    if is_finished:
        write_encoder(tmp_path)
    for estimator, name in ((ncl, "NCL"), (both, "CrossNCL")):
        sentence = f"saving {name} in {tmp_path} would overwrite a training run; choose another"
        check_refused(estimator, tmp_path, f"{sentence} folder")


def test_a_folder_of_something_else_is_never_overwritten(ncl, both, tmp_path):
    for folder, written, lost in (
        (tmp_path / "encoder", write_encoder, "an encoder"),
        (tmp_path / "cross", both.save, "a fitted CrossNCL"),
        (tmp_path / "other", write_other, "something else"),
        (tmp_path / "weights", write_weights, "model.safetensors"),
    ):
        folder.mkdir()
        written(folder)
        sentence = f"saving NCL in {folder} would overwrite {lost}; choose another folder"
        check_refused(ncl, folder, sentence)
    folder = tmp_path / "runs"
    write_encoder(folder / "y")
    sentence = (
        f"saving CrossNCL in {folder} would overwrite {Path('y/config.json')}; choose another"
    )
    check_refused(both, folder, f"{sentence} folder")


def write_other(folder):
    (folder / "config.json").write_text('["bert"]')


def write_weights(folder):
    (folder / "model.safetensors").write_bytes(b"of a user")


def test_the_same_kind_is_saved_again_beside_other_files(ncl, both, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for estimator, folder in ((ncl, tmp_path), (both, tmp_path / "both")):
        estimator.save(folder)
        estimator.save(folder)
        type(estimator).load(folder)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_fit_has_written_its_run_before_it_saves(ncl, tmp_path):
    write_run(tmp_path, {"task": "fit"})
    ncl.save(tmp_path)
    ncl.save(tmp_path)
    assert NCL.load(tmp_path).n_iter_ == 2


def test_a_first_save_that_was_interrupted_is_made_again(ncl, tmp_path, monkeypatch):
    real = Path.replace

    def failing(path, target):
        if target == tmp_path / "config.json":
            raise KeyboardInterrupt
        return real(path, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(KeyboardInterrupt):
        ncl.save(tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "model.safetensors").exists()
    ncl.save(tmp_path)
    assert NCL.load(tmp_path).n_iter_ == 2


def test_a_file_is_no_folder(ncl, tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{}")
    for folder in (path, path / "below"):
        sentence = f"^{re.escape(str(path))} is a file; choose another folder to save NCL in$"
        with pytest.raises(FileExistsError, match=sentence):
            ncl.save(folder)


def test_loading_something_else_says_how_to_load_it(ncl, both, tmp_path):
    for folder, written, sentence in (
        (tmp_path / "encoder", write_encoder, "but an encoder; load it with nonneg.Encoder.load"),
        (tmp_path / "one", ncl.save, "but a fitted NCL; load it with nonneg.NCL.load"),
        (
            tmp_path / "other",
            write_other,
            "but something else; give a folder that CrossNCL.save has written",
        ),
    ):
        folder.mkdir()
        written(folder)
        sentence = f"{folder / 'config.json'} does not describe a fitted CrossNCL {sentence}"
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            CrossNCL.load(folder)
    both.save(tmp_path / "both")
    with pytest.raises(ValueError, match=r"a fitted CrossNCL; load it with nonneg\.CrossNCL"):
        NCL.load(tmp_path / "both")
