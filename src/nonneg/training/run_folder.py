"""Run folders: what they hold, and the lock that lets only one process write.

The kernel holds the lock and releases it when the process ends, even by SIGKILL; a lock file that
was left behind locks nothing. What it says, the number and the host of a process, is for people.
"""

import errno
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nonneg.backbones.building import BackboneSettings
from nonneg.encoder import CONFIG_FILE, WEIGHTS_FILE, EncoderSettings
from nonneg.io import read_json, write_bytes, write_json
from nonneg.settings import differences
from nonneg.training.settings import MACHINE_SETTINGS, TrainConfig
from nonneg.untrusted import json_value, read_regular

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
    """Keep other processes from writing to a run folder inside the block.

    On a file system without locks, as on some clusters, no process is kept out.

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
    """An open handle of the locked lock file."""
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
    while True:
        if folder.is_file():
            raise FileExistsError(f"{folder} is a file; choose another folder for the run")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            # Whoever held the lock may have removed the empty folder after it was made here, or
            # after mkdir had found it: mkdir then says that it exists.
            if error.errno not in (errno.ENOENT, errno.EEXIST) or time.monotonic() >= deadline:
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
    """Remove the lock file and release it, so that no process can lock a removed file."""
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


RUN_FILE = "run.json"
HISTORY_FILE = "history.jsonl"
CHECKPOINTS = "checkpoints"
# The task of a run that was not trained here: a checkpoint of another program.
IMPORT = "import"
REMEDY = "copy the run again, or delete its folder and train again"


class RunFolder:
    """The folder of one training run.

    Args:
        path: Where; made when the run starts.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / CHECKPOINTS

    @property
    def is_finished(self) -> bool:
        """Whether the encoder that came out of the run is there."""
        return all((self.path / name).exists() for name in (RUN_FILE, CONFIG_FILE, WEIGHTS_FILE))

    def claim(
        self, settings: dict[str, Any], *, resume: bool, data_digest: str | None = None
    ) -> None:
        """Claim the folder for this run, or check that it already belongs to it.

        Call it, and write to the folder, within :func:`nonneg.training.run_folder.locked`.

        Args:
            settings: All that determines the result, as plain values.
            resume: Whether a run with the same settings may be continued.
            data_digest: Of the file that the data comes from; None where it is no file.

        Raises:
            FileExistsError: If the folder holds something else, or this run and ``resume`` is off,
                or if the run was started with other data.
        """
        if not (self.path / RUN_FILE).exists():
            self._check_empty()
            record: dict[str, Any] = {"settings": settings, "versions": _versions()}
            if data_digest is not None:
                record["data_digest"] = data_digest
            write_json(self.path / RUN_FILE, record)
            return
        there = read_record(self.path)
        earlier, now = (_with_defaults(table) for table in (there["settings"], _plain(settings)))
        changed = differences(what_counts(earlier), what_counts(now))
        if changed:
            listed = "; ".join(
                f"{key}: {old!r} there, {new!r} here" for key, old, new in changed[:3]
            )
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            raise FileExistsError(
                f"{self.path} holds a run with other settings ({listed}{more}); "
                "choose another folder, or delete this one"
            )
        # Runs that began before digests were kept have none.
        if there.get("data_digest", data_digest) != data_digest:
            raise FileExistsError(
                f"the data file has changed since {self.path} was begun with it; put the old file "
                "back or choose another folder"
            )
        if not resume:
            raise FileExistsError(
                f"{self.path} already holds this run; resume it (--resume, from Python "
                "resume=True) or choose another folder"
            )

    def check_free(self) -> None:
        """Raise an error if the folder holds something else than a run; for long work before it."""
        if not (self.path / RUN_FILE).exists():
            self._check_empty()

    def write_history(self, history: list[dict[str, Any]]) -> None:
        """Write one JSON object per line, the whole file at once."""
        lines = "".join(json.dumps(record) + "\n" for record in history)
        write_bytes(self.path / HISTORY_FILE, lines.encode())

    def _check_empty(self) -> None:
        """Hidden files do not count: the lock is one, and so is what a kill left of a write."""
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"{self.path} is a file; choose another folder for the run")
        if self.path.is_dir() and any(not p.name.startswith(".") for p in self.path.iterdir()):
            raise FileExistsError(
                f"{self.path} is not empty and holds no run; choose another folder"
            )


def read_record(folder: str | Path) -> dict[str, Any]:
    """What ``run.json`` holds: ``settings``, ``versions`` and perhaps ``data_digest``.

    Raises:
        ValueError: If it is damaged or something else.
    """
    path = Path(folder) / RUN_FILE
    record = read_json(path, remedy=REMEDY)
    if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
        raise ValueError(f"{path} does not describe a run; {REMEDY}")
    return {**record, "settings": TrainConfig.present_names(record["settings"])}


def read_history(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's finished epochs, oldest first.

    Raises:
        ValueError: If a line of the file is no record.
    """
    path = Path(folder) / HISTORY_FILE
    return [
        _record(line, f"line {number} of {path}")
        for number, line in enumerate(read_regular(path).splitlines(), start=1)
    ]


def _record(line: bytes, place: str) -> dict[str, Any]:
    try:
        record = json_value(line)
    except ValueError as error:
        raise ValueError(f"{place} is not readable JSON ({error}); {REMEDY}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{place} is not a JSON object; {REMEDY}")
    return record


def what_counts(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run without those of the machine, and without where models lie on it.

    Example:
        >>> told = {"data": {"texts": {"encoder": {"name": "/models/mini", "digest": "0a1b"}}}}
        >>> what_counts(told)["data"]
        {'texts': {'encoder': {'digest': '0a1b'}}}
    """
    loop = settings.get("training", {})
    return {
        **_without_model_places(settings),
        "training": {k: v for k, v in loop.items() if k not in MACHINE_SETTINGS},
    }


def _without_model_places(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without the name of what embedded texts, where its digest tells it."""
    data = settings.get("data")
    texts = data.get("texts") if isinstance(data, dict) else None
    encoder = texts.get("encoder") if isinstance(texts, dict) else None
    if not isinstance(encoder, dict) or encoder.get("digest") is None:
        return settings
    known = {key: value for key, value in encoder.items() if key != "name"}
    return {**settings, "data": {**data, "texts": {**texts, "encoder": known}}}  # type: ignore[dict-item]


def _with_defaults(settings: dict[str, Any]) -> dict[str, Any]:
    """A run's settings with those that came after it: it was trained as their defaults do."""
    encoder = EncoderSettings(backbone=BackboneSettings()).model_dump()
    defaults = {**TrainConfig().model_dump(), "encoder": encoder}
    of_groups = {k: v for k, v in _plain(defaults).items() if isinstance(settings.get(k), dict)}
    return _filled(settings, of_groups)


def _filled(table: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """A table of tables with what it lacks.

    Example:
        >>> _filled({"loss": {"name": "a"}}, {"loss": {"name": "b", "new": 1}, "seed": 0})
        {'loss': {'name': 'a', 'new': 1}, 'seed': 0}
    """
    filled = {**defaults, **table}
    for key, known in defaults.items():
        if isinstance(known, dict) and isinstance(filled[key], dict):
            filled[key] = _filled(filled[key], known)
    return filled


def _plain(settings: dict[str, Any]) -> Any:  # noqa: ANN401
    """As JSON gives it back: tuples become lists."""
    return json.loads(json.dumps(settings))


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("nonneg", "torch", "numpy", "lightning-fabric")}
