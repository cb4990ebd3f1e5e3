"""Disks that are full, at any point of a command, and folders that cannot be written."""

import os
import shutil
import subprocess
from contextlib import contextmanager

from faults.commands import COMMANDS, contents, ran

# A file may grow to so many bytes: what a full disk is to a writer that no other can use up.
_FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({n_bytes}, {n_bytes}))
"""
_SAID = ("No space left on device", "File too large", "Read-only file system", "Permission denied")


@contextmanager
def mounted(place, n_bytes):
    """A small disk of its own in this folder; None where the machine allows no mounting."""
    place.mkdir(parents=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "nonneg-faults", str(place)],
        capture_output=True,
        check=False,
    ) if shutil.which("mount") and os.geteuid() == 0 else None  # fmt: skip
    if made is None or made.returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def full_file(workplace, name, n_bytes):
    """A command whose files may have so many bytes; what is wrong, and whether it was enough."""
    place = workplace.copy(name)
    ended = ran(place, COMMANDS[name].arguments, _FULL.format(n_bytes=n_bytes))
    return _judged(workplace, name, place, ended)


def full_disk(workplace, name, disk, n_free):
    """A command on a disk with so many bytes left; what is wrong, and whether it was enough."""
    source, place = workplace.copy(name), disk / "work"
    shutil.copytree(source, place)
    shutil.rmtree(source)
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    filler = disk / "filler"
    with filler.open("wb") as file:
        file.write(bytes(max(0, free - n_free)))
    ended = ran(place, COMMANDS[name].arguments)
    filler.unlink()
    return _judged(workplace, name, place, ended)


def read_only(workplace, name, disk):
    """A command on a disk that cannot be written; what is wrong."""
    source, place = workplace.copy(name), disk / "work"
    shutil.copytree(source, place)
    shutil.rmtree(source)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        ended = ran(place, COMMANDS[name].arguments)
        unchanged = contents(place) == workplace.before(name)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    wrong = _said_badly(ended)
    if ended.returncode == 0:
        wrong = "it says that it has worked"
    elif not unchanged:
        wrong = "something has changed"
    if not wrong:
        return _judged(workplace, name, place, ended)[0]
    shutil.rmtree(place)
    return f"{name}: {wrong}"


def _judged(workplace, name, place, ended):
    """What is wrong after a command that may have failed, and after it has run once more."""
    command, expected = COMMANDS[name], workplace.expected(name)
    if ended.returncode == 0:
        wrong = "" if contents(place) == expected else "it says that it has worked"
        shutil.rmtree(place)
        return (f"{name}: {wrong}" if wrong else ""), True
    wrong = _said_badly(ended)
    before, found = workplace.before(name), contents(place)
    lost = [file for file in before if found.get(file) not in (before[file], expected.get(file))]
    if lost:
        wrong = f"lost {', '.join(lost)}"
    again = ran(place, (*command.arguments, *command.again))
    if again.returncode:
        wrong = f"cannot go on: {again.stderr}"
    elif contents(place) != expected:
        wrong = "ends with other bytes"
    shutil.rmtree(place)
    return (f"{name}: {wrong}" if wrong else ""), False


def _said_badly(ended):
    is_sentence = ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1
    if not is_sentence or not any(words in ended.stderr for words in _SAID):
        return f"it says: {ended.stderr.strip()}"
    return ""
