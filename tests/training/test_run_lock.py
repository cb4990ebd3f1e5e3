"""One process at a time holds a run folder, whatever happens to the one before it."""

import errno
import os
import signal
import socket
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from forking import Forked

from nonneg.training.run_folder import LOCK_FILE, locked

# Holds the lock of a folder, says so, and waits to be told to end.
HOLDER = textwrap.dedent(
    """
    import os, pathlib, signal, sys
    from nonneg.training.run_folder import locked

    folder, wait, then = sys.argv[1:]
    try:
        with locked(pathlib.Path(folder), wait=float(wait)):
            parent.send("holds")
            exec(then)
            parent.recv()
    except OSError as error:
        parent.send(str(error))
    """
)


@pytest.fixture
def hold():
    """Start processes that want the lock of a folder; those that are left are killed."""
    started = []

    def start(folder, *, wait=0.5, then=""):
        started.append(Forked(HOLDER, folder, wait, then))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def end(process):
    process.link.send("end")
    assert process.end().returncode == 0


def refusal(pid, folder):
    return (
        f"another process, pid {pid}, is writing to the run in {folder}; wait until it ends or "
        "stop it, or choose another folder"
    )


def test_the_block_makes_the_folder_and_leaves_nothing_of_its_own(tmp_path):
    folder = tmp_path / "deep" / "run"
    with locked(folder):
        assert (folder / LOCK_FILE).read_text() == f"{os.getpid()} {socket.gethostname()}\n"
        (folder / "run.json").touch()
    assert [path.name for path in folder.iterdir()] == ["run.json"]


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_that_stays_empty_goes_only_if_the_lock_made_it(tmp_path, was_there):
    folder = tmp_path / "run"
    if was_there:
        folder.mkdir()
    with pytest.raises(ZeroDivisionError), locked(folder):
        _ = 1 / 0
    assert folder.exists() is was_there
    assert not was_there or list(folder.iterdir()) == []


def test_of_many_at_once_exactly_one_holds_it(tmp_path, hold):
    together = [hold(tmp_path / "run", wait=0) for _ in range(4)]
    said = {process: process.said() for process in together}
    (winner,) = [process for process in together if said[process] == "holds"]
    others = {said[process] for process in together if process is not winner}
    unsigned = refusal(0, tmp_path / "run").replace(", pid 0,", "")  # seen before it has signed
    assert others <= {refusal(winner.pid, tmp_path / "run"), unsigned}


# Counts one up, again and again, each time under the lock of a folder that comes and goes.
COUNTER = textwrap.dedent(
    """
    import pathlib, sys
    from nonneg.training.run_folder import locked

    folder, number, n = sys.argv[1:]
    number = pathlib.Path(number)
    for _ in range(int(n)):
        with locked(pathlib.Path(folder), wait=60):
            number.write_text(str(int(number.read_text()) + 1))
    """
)


def test_no_turn_is_lost_while_file_and_folder_come_and_go(tmp_path):
    number = tmp_path / "number"
    number.write_text("0")
    together = [Forked(COUNTER, tmp_path / "run", number, 50) for _ in range(4)]
    assert [process.end().returncode for process in together] == [0] * 4
    assert number.read_text() == "200"
    assert not (tmp_path / "run" / LOCK_FILE).exists()


def test_a_folder_that_goes_while_it_is_looked_at_is_made_again(tmp_path, monkeypatch):
    make, tried = Path.mkdir, []

    def removed_in_between(self, *args, **kwargs):
        tried.append(self)
        if len(tried) == 1:  # as where another process removes it once mkdir has found it
            raise FileExistsError(errno.EEXIST, "File exists")
        make(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", removed_in_between)
    with locked(tmp_path / "run", wait=10):
        assert (tmp_path / "run" / LOCK_FILE).exists()
    assert len(tried) == 2


def test_the_sentence_names_the_process(tmp_path, hold):
    holder = hold(tmp_path / "run")
    assert holder.said() == "holds"
    with pytest.raises(BlockingIOError) as error, locked(tmp_path / "run", wait=0):
        pytest.fail("held twice")
    assert str(error.value) == refusal(holder.pid, tmp_path / "run")
    end(holder)
    with locked(tmp_path / "run", wait=0):
        pass


def test_a_process_of_another_host_is_named_with_it(tmp_path, hold):
    sign = "parent.send(pathlib.Path(folder, '.nonneg.lock').write_text('12 far.example'))"
    holder = hold(tmp_path / "run", then=sign)
    assert [holder.said() for _ in range(2)] == ["holds", 14]
    with (
        pytest.raises(BlockingIOError, match=r"^another process, pid 12 on far\.example, is wri"),
        locked(tmp_path / "run", wait=0),
    ):
        pytest.fail("held twice")


def test_another_thread_is_kept_out_too(tmp_path):
    said = []

    def second():
        try:
            with locked(tmp_path, wait=0):
                said.append("held twice")
        except BlockingIOError as error:
            said.append(str(error))

    with locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert said[0].startswith("another thread of this process is writing to the run in ")


def test_whoever_waits_gets_it_next(tmp_path, hold):
    """In a folder that the first one makes, and removes as it leaves it empty."""
    first = hold(tmp_path / "run")
    assert first.said() == "holds"
    waiting = hold(tmp_path / "run", wait=60)
    assert not waiting.link.poll(1)
    end(first)
    assert waiting.said() == "holds"
    end(waiting)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("forks", [False, True])
def test_the_lock_of_a_killed_process_is_taken_over(tmp_path, hold, forks):
    """Also where a process that it had forked lives on, as those that read data do for a while."""
    fork = "child = os.fork()\nparent.send(child) if child else signal.pause()"
    holder = hold(tmp_path / "run", then=fork if forks else "")
    assert holder.said() == "holds"
    child = holder.said() if forks else None
    holder.kill()
    assert (tmp_path / "run" / LOCK_FILE).exists()
    try:
        with locked(tmp_path / "run", wait=1):
            assert (tmp_path / "run" / LOCK_FILE).read_text().startswith(f"{os.getpid()} ")
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
    assert not (tmp_path / "run" / LOCK_FILE).exists()


def test_a_file_that_is_left_locks_nothing_though_its_process_lives(tmp_path):
    (tmp_path / LOCK_FILE).write_text(f"{os.getppid()} {socket.gethostname()}\n")
    with locked(tmp_path, wait=0):
        assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()} {socket.gethostname()}\n"


def test_a_file_system_without_locks_keeps_nobody_out(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with locked(tmp_path), locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    sentence = r"file is a file; choose another folder for the run$"
    with pytest.raises(FileExistsError, match=sentence), locked(tmp_path / "file"):
        pytest.fail("held")
    sentence = r"cannot write .*file/run: (File exists|Not a directory)$"
    with pytest.raises(OSError, match=sentence), locked(tmp_path / "file" / "run"):
        pytest.fail("held")
