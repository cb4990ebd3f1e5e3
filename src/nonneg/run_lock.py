"""The lock on a run folder, so that one process at a time writes to it.

The kernel holds the lock and releases it when the process ends, even by SIGKILL; a lock file that
was left behind locks nothing. What it says, the number and the host of a process, is for people.
"""

import errno
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Hidden, so that a folder with nothing else in it still counts as empty.
LOCK_FILE = ".nonneg.lock"
_SECONDS_BETWEEN_TRIES = 0.05
# Windows keeps others from reading a locked byte; this one is beyond the text.
_LOCKED_BYTE = 1 << 30
# How flock says that another process has the lock; anything else says that there are no locks.
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)

_held: set[int] = set()


@contextmanager
def locked(folder: Path, *, wait: float = 0.5) -> Iterator[None]:
    """Let nobody else write to a run folder for the length of the block.

    On a file system without locks, as some clusters have it, nobody is kept out.

    Args:
        folder: Made where it is missing, and then removed after the block if it is still empty.
        wait: Seconds to wait for another process to release the lock.

    Raises:
        BlockingIOError: If another process still holds the lock.
        OSError: If the folder is a file or cannot be written.
    """
    owner, was_there = os.getpid(), folder.is_dir()
    handle = _acquired(folder, deadline=time.monotonic() + wait)
    _held.add(handle)
    try:
        yield
    finally:
        if os.getpid() == owner:  # a forked child leaves the lock to its parent
            _held.discard(handle)
            _release(handle, folder / LOCK_FILE)
            if not was_there:
                with suppress(OSError):  # there is a run in it
                    folder.rmdir()


def _acquired(folder: Path, *, deadline: float) -> int:
    """A handle of the lock file, which is locked."""
    while True:
        handle = _opened(folder, deadline=deadline)
        is_mine = False
        try:
            is_free = _try_to_lock(handle)
            # The holder before may have removed the file since it was opened here.
            is_mine = is_free and _is_at(handle, folder / LOCK_FILE)
            if is_mine:
                _sign(handle)
                return handle
            if not is_free and time.monotonic() >= deadline:
                raise BlockingIOError(
                    f"{_holder(handle)} is writing to the run in {folder}; wait until it ends or "
                    "stop it, or choose another folder"
                )
        finally:
            if not is_mine:
                os.close(handle)
        if not is_free:
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _opened(folder: Path, *, deadline: float) -> int:
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose another folder for the run")
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            # Whoever held the lock may have removed the empty folder after it was made here.
            if error.errno != errno.ENOENT or time.monotonic() >= deadline:
                raise OSError(error.errno, f"cannot write {folder}: {error.strerror}") from error
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _try_to_lock(handle: int) -> bool:
    """Lock the file; False where another process has done so."""
    if sys.platform == "win32":
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
    else:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in _TAKEN
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether the open file is the one that has this path now."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _sign(handle: int) -> None:
    with suppress(OSError):  # on a full disk the lock has no name
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())


def _holder(handle: int) -> str:
    """Who wrote the lock file, in words."""
    os.lseek(handle, 0, os.SEEK_SET)
    pid, _, host = os.read(handle, 1000).decode(errors="replace").strip().partition(" ")
    if not pid.isdecimal():
        return "another process"
    if host != socket.gethostname():
        return f"another process, pid {pid} on {host},"
    if int(pid) == os.getpid():
        return "another thread of this process"
    return f"another process, pid {pid},"


def _release(handle: int, path: Path) -> None:
    """Remove the lock file and let go of it, so that nobody can lock a file that is gone."""
    if sys.platform != "win32" and _is_at(handle, path):
        path.unlink(missing_ok=True)
    os.close(handle)
    if sys.platform == "win32":  # an open file cannot be removed there, by this or another process
        with suppress(OSError):
            path.unlink()


def _forget() -> None:
    """Close the handles in a forked child, or it would keep a lock of its dead parent."""
    for handle in _held:
        with suppress(OSError):
            os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
