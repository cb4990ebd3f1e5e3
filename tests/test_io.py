import errno
import os
import tempfile

import pytest
import torch

from nonneg import io as files


def test_tensors_and_json_come_back_equal(tmp_path):
    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor(1)}
    files.write_tensors(tmp_path / "deep" / "x.safetensors", tensors)
    read = files.read_tensors(tmp_path / "deep" / "x.safetensors")
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)
    files.write_json(tmp_path / "x.json", {"é": [1, 2.5, None]})
    assert files.read_json(tmp_path / "x.json") == {"é": [1, 2.5, None]}


def test_no_temporary_file_is_left(tmp_path):
    files.write_bytes(tmp_path / "x", b"1")
    files.write_bytes(tmp_path / "x", b"2")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x", b"2")]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, call):
    files.write_bytes(tmp_path / "x", b"before")

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match=r"cannot write .*x: No space left on device$"):
        files.write_bytes(tmp_path / "x", b"after")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x", b"before")]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot write .*file/x: (File exists|Not a directory)$"):
        files.write_bytes(tmp_path / "file" / "x", b"")


def test_a_folder_without_permission_is_named(tmp_path, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    with pytest.raises(PermissionError, match=r"cannot write .*x: Permission denied$"):
        files.write_bytes(tmp_path / "x", b"")


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "x.safetensors"
    files.write_tensors(path, {"a": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(
        ValueError, match=r"x\.safetensors is not a readable .*; copy or make it again"
    ):
        files.read_tensors(path)
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ValueError, match=r"x\.json is not readable JSON \(.*\); delete it$"):
        files.read_json(tmp_path / "x.json", remedy="delete it")


def test_a_folder_for_later_is_checked_at_once(tmp_path):
    files.check_folder(tmp_path / "deep" / "folder")
    assert list((tmp_path / "deep" / "folder").iterdir()) == []
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match=r"file is a file; choose another folder$"):
        files.check_folder(tmp_path / "file")
    with pytest.raises(
        OSError, match=r"cannot write .*file/folder: (File exists|Not a directory)$"
    ):
        files.check_folder(tmp_path / "file" / "folder")


def test_tied_tensors_are_written_each(tmp_path):
    one = torch.arange(6.0)
    files.write_tensors(tmp_path / "tied.safetensors", {"a": one, "b": one, "part": one[:3]})
    read = files.read_tensors(tmp_path / "tied.safetensors")
    assert read["a"].tolist() == read["b"].tolist() == one.tolist()
    assert read["part"].tolist() == [0, 1, 2]
