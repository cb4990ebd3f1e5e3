from pathlib import Path

import numpy as np
import pytest

from nonneg.data import data_folder, load, names


def test_known_names():
    assert set(names()) == {
        "digits",
        "sprites",
        "mnist",
        "fashion-mnist",
        "cifar10",
        "cifar100",
        "imagenet100",
    }


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("minst", "mnist"), ("CIFAR-10", "cifar10"), ("fashion", "fashion-mnist")],
)
def test_an_unknown_name_lists_the_known_ones_nearest_first(wrong, nearest):
    start = f"'{wrong}' is neither a known data set nor a file or folder in {Path.cwd()}; known: "
    with pytest.raises(ValueError, match=f"^{start}{nearest}, ") as caught:
        load(wrong)
    assert sorted(str(caught.value).removeprefix(start).split(", ")) == sorted(names())


def test_a_path_that_does_not_exist(tmp_path):
    said = rf"^'{tmp_path}/x.npy' is neither a known data set nor a file or folder; known"
    with pytest.raises(ValueError, match=said):
        load(tmp_path / "x.npy")


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("1,2")
    sentence = rf"^cannot read {path}; give a .npy, .npz or .parquet file or a folder of images$"
    with pytest.raises(ValueError, match=sentence):
        load(path)


def test_a_file_has_no_test_split(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.eye(3))
    assert len(load(str(path))) == 3
    sentence = rf"^{path} is one set without a test split; name a set that has one$"
    with pytest.raises(ValueError, match=sentence):
        load(path, split="test")


def test_an_unknown_split():
    with pytest.raises(ValueError, match=r"^unknown split 'valid'; known: train, test$"):
        load("digits", split="valid")


def test_where_data_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("NONNEG_DATA", raising=False)
    assert data_folder() == Path("/home/someone/.cache/nonneg")
    monkeypatch.setenv("NONNEG_DATA", "~/sets")
    assert data_folder() == Path("/home/someone/sets")
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.setenv("NONNEG_DATA", "")
    assert data_folder() == Path("/home/someone/.cache/nonneg")


def test_the_variable_is_used_by_load(monkeypatch, tmp_path):
    monkeypatch.setenv("NONNEG_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"not found in {tmp_path}/mnist;"):
        load("mnist")


def test_a_name_wins_over_a_folder(monkeypatch, tmp_path):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(load("digits")) == 1437
    with pytest.raises(ValueError, match=r"^digits holds no images"):
        load("./digits")
