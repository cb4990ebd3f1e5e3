import errno
import os
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from forking import Forked

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


WRITER = """
import pathlib, sys
from nonneg.io import replaced

with replaced(pathlib.Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    parent.send("writes")
    parent.recv()
"""


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    """And nothing of a writer that lives, of another file, or of the user."""
    mine = [tmp_path / name for name in (".x.notes", ".x.json.ab12cd_9.part", ".x.ab12cd_9")]
    for path in mine:
        path.write_text("mine")
    killed, living = (Forked(WRITER, tmp_path / "x") for _ in range(2))
    try:
        assert [killed.said(), living.said()] == ["writes", "writes"]
        assert len(list(tmp_path.glob(".x.*.part"))) == 3
        killed.kill()
        files.write_bytes(tmp_path / "x", b"whole")
        (left,) = set(tmp_path.glob(".x.*.part")) - set(mine)
        assert left.read_bytes() == b"half"
        living.link.send("go on")
        assert living.end().returncode == 0
    finally:
        living.kill()
    assert (tmp_path / "x").read_bytes() == b"half"
    assert sorted(tmp_path.iterdir()) == sorted([*mine, tmp_path / "x"])


def test_without_locks_what_is_old_is_left_over(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    fresh, old = (tmp_path / f".x.{name}_____.part" for name in ("new", "old"))
    for path in (fresh, old):
        path.touch()
    os.utime(old, (0, 0))
    files.write_bytes(tmp_path / "x", b"1")
    assert sorted(tmp_path.iterdir()) == sorted([fresh, tmp_path / "x"])
    fresh, old = (tmp_path / f".y.{name}_____.part" for name in ("new", "old"))
    for path in (fresh, old):
        (path / "deep").mkdir(parents=True)
        for part in (path / "deep", path):
            os.utime(part, (0, 0))
    (fresh / "deep" / "a.txt").touch()
    fill(tmp_path / "y", "1")
    assert fresh.exists()
    assert not old.exists()


def test_a_part_that_is_taken_for_left_over_is_made_again(tmp_path, monkeypatch):
    """In the moment between its making and its lock."""
    fcntl = pytest.importorskip("fcntl")
    lock, locked = fcntl.flock, []

    def after_another_writer(handle, how):
        if not locked:
            next(tmp_path.glob(".x.*")).unlink()
        locked.append(how)
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", after_another_writer)
    files.write_bytes(tmp_path / "x", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert len(locked) == 2


def test_tensors_of_another_digest_are_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    files.write_tensors(path, {"a": torch.ones(4)})
    digest = files.digest_of_file(path)
    assert files.read_tensors(path, digest=digest)["a"].tolist() == [1, 1, 1, 1]
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(ValueError, match=r"x\.safetensors is not the file that was saved: it is"):
        files.read_tensors(path, digest=digest)


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.txt")}


def fill(folder, text):
    with files.replaced_folder(folder) as beside:
        (beside / "deep").mkdir()
        (beside / "deep" / "a.txt").write_text(text)


def test_a_folder_takes_the_place_of_another(tmp_path):
    fill(tmp_path / "new" / "x", "1")
    fill(tmp_path / "new" / "x", "2")
    assert content(tmp_path) == {"new/x/deep/a.txt": b"2"}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x"]
    modes = [path.stat().st_mode for path in (tmp_path / "new" / "x", tmp_path / "new")]
    assert modes[0] == modes[1]


def test_a_folder_behind_a_link_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "old").touch()
    (tmp_path / "here").symlink_to(tmp_path / "big")
    with files.replaced_folder(tmp_path / "here") as folder:
        (folder / "new").touch()
    assert (tmp_path / "here").is_symlink()
    assert [path.name for path in (tmp_path / "big").iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big", "here"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_folder_that_is_not_filled_changes_nothing(tmp_path, error):
    fill(tmp_path / "x", "before")

    def half(beside):
        (beside / "b.txt").write_text("half")
        raise error

    with pytest.raises(error), files.replaced_folder(tmp_path / "x") as beside:
        half(beside)
    assert content(tmp_path) == {"x/deep/a.txt": b"before"}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_where_folders_cannot_be_exchanged_one_takes_the_place_of_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_exchanged", lambda one, other: False)
    fill(tmp_path / "x", "1")
    fill(tmp_path / "x", "2")
    assert content(tmp_path) == {"x/deep/a.txt": b"2"}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    old = (tmp_path / "x").replace(tmp_path / ".x.ab12cd_9.old")  # killed between two renames
    with pytest.raises(ValueError, match="no"), files.replaced_folder(tmp_path / "x"):
        raise ValueError("no")
    assert content(tmp_path) == {"x/deep/a.txt": b"2"}
    fill(old, "1")  # killed after them
    fill(tmp_path / "x", "3")
    assert content(tmp_path) == {"x/deep/a.txt": b"3"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders")
def test_a_folder_is_at_its_place_at_any_instant(tmp_path, monkeypatch):
    """No file of an old folder is moved away before the new one stands there."""
    fill(tmp_path / "x", "1")
    monkeypatch.setattr(Path, "replace", None)
    with files.replaced_folder(tmp_path / "x") as beside:
        (beside / "a.txt").write_text("2")
    assert content(tmp_path) == {"x/a.txt": b"2"}


FOLDER_WRITER = """
import pathlib, sys
from nonneg.io import replaced_folder

with replaced_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "a.txt").write_text("half")
    parent.send("writes")
    parent.recv()
"""


def test_the_next_writer_removes_the_folder_that_a_killed_one_left(tmp_path):
    """And nothing of a writer that lives, or of the user."""
    mine = tmp_path / ".x.ab12cd_9"
    mine.mkdir()
    killed, living = (Forked(FOLDER_WRITER, tmp_path / "x") for _ in range(2))
    try:
        assert [killed.said(), living.said()] == ["writes", "writes"]
        assert len(list(tmp_path.glob(".x.*.part"))) == 2
        killed.kill()
        fill(tmp_path / "x", "whole")
        (left,) = tmp_path.glob(".x.*.part")
        assert (left / "deep" / "a.txt").read_text() == "half"
        living.link.send("go on")
        assert living.end().returncode == 0
    finally:
        living.kill()
    assert content(tmp_path / "x") == {"deep/a.txt": b"half"}
    assert sorted(tmp_path.iterdir()) == [mine, tmp_path / "x"]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_folder_that_cannot_be_moved_leaves_the_old_one(tmp_path, monkeypatch, fails_at):
    monkeypatch.setattr(files, "_exchanged", lambda one, other: False)
    fill(tmp_path / "x", "before")
    replace, calls = Path.replace, []

    def once(path, to):
        calls.append(path)
        if len(calls) == fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(path, to)

    monkeypatch.setattr(Path, "replace", once)
    with pytest.raises(OSError, match=r"cannot write .*x: No space left on device$"):
        fill(tmp_path / "x", "after")
    assert content(tmp_path) == {"x/deep/a.txt": b"before"}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_errors_of_other_files_are_not_taken_for_its_own(tmp_path):
    out, elsewhere = tmp_path / "x", tmp_path / "elsewhere"
    with pytest.raises(FileNotFoundError, match="elsewhere"), files.replaced_folder(out):
        elsewhere.read_bytes()
    with (
        pytest.raises(OSError, match=r"cannot write .*/x: No such file"),
        files.replaced_folder(out) as beside,
    ):
        (beside / "no" / "folder").write_bytes(b"")
    assert list(tmp_path.iterdir()) == []
    elsewhere.write_text("")
    with pytest.raises(OSError, match=r"cannot write .*elsewhere/x: "):
        fill(elsewhere / "x", "")
