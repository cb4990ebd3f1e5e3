"""SIGKILL at every operation on a file that a command makes, and at random moments."""

import json
import random
import shutil
import signal
import time
from contextlib import suppress
from http.client import HTTPException
from threading import Thread
from urllib.request import Request, urlopen

from forking import Forked

from faults.commands import COMMANDS, contents, ran, started

# Counts operations on files below the working folder, and ends the process at the wanted one.
_COUNTING = """
import signal

class Operations:
    names = {{
        "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.link",
        "fcntl.flock", "shutil.rmtree", "tempfile.mkstemp",
    }}
    wanted, n = {wanted}, 0
    folder = os.getcwd()

    @classmethod
    def meets(cls, what):
        cls.n += 1
        if cls.n == cls.wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    @classmethod
    def hook(cls, event, arguments):
        if event == "open":
            path, mode, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and isinstance(path, str | bytes) and not os.fsdecode(path).startswith(
                ("/dev", "/proc", "/sys")
            ):
                cls.meets(event)
        elif event in cls.names:
            cls.meets(event)

sync = os.fsync

def fsync(handle):
    Operations.meets("fsync")
    sync(handle)

os.fsync = fsync
sys.dont_write_bytecode = True
import nonneg.cli.main
sys.addaudithook(Operations.hook)
"""


def n_operations(workplace, name):
    """How many operations on files a command makes."""
    place = workplace.copy(name)
    process = started(
        place,
        COMMANDS[name].arguments,
        _COUNTING.format(wanted=0) + "\nimport threading\n"
        "leave = os._exit\n"
        "def leaving(code):\n    parent.send(Operations.n)\n    leave(code)\n"
        "os._exit = leaving\n",
    )
    found = process.said()
    ended = process.end()
    shutil.rmtree(place)
    assert ended.returncode == 0, ended.stderr
    return found


def killed_at(workplace, name, number):
    """Kill a command at an operation and run it again; gives what is wrong then, "" for nothing.

    None if it makes fewer operations, so that nothing was killed.
    """
    place = workplace.copy(name)
    prepare = _COUNTING.format(wanted=number)
    ended = ran(place, COMMANDS[name].arguments, prepare)
    if ended.returncode == 0:
        shutil.rmtree(place)
        return None
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return _after(workplace, name, place)


def killed_after(workplace, name, seed):
    """The same at a moment that chance chooses; None if the command had ended by then."""
    place = workplace.copy(name)
    seconds = random.Random(f"{name} {seed}").uniform(0, workplace.seconds(name))
    process = started(place, COMMANDS[name].arguments)
    time.sleep(seconds)
    code = process.kill()
    if code == 0:
        shutil.rmtree(place)
        return None
    assert code == -signal.SIGKILL, code
    return _after(workplace, name, place)


def _after(workplace, name, place):
    """What is wrong after a kill, and after the same command once more."""
    command, expected, before = COMMANDS[name], workplace.expected(name), workplace.before(name)
    lost = _lost(before, expected, contents(place))
    again = ran(place, (*command.arguments, *command.again))
    if again.returncode:
        return f"{name} cannot go on: {again.stderr.strip()} ({place})"
    found = contents(place)
    if lost:
        return f"{name} lost {lost} ({place})"
    if found != expected:
        differ = {file for file in found.keys() | expected if found.get(file) != expected.get(file)}
        return f"{name} ends with other bytes in {', '.join(sorted(differ))} ({place})"
    shutil.rmtree(place)
    return ""


def _lost(before, expected, found):
    """Files of before that are neither as they were nor as they will be."""
    return ", ".join(
        file
        for file, digest in before.items()
        if found.get(file) not in (digest, expected.get(file))
    )


_SERVER = """
import sys
sys.modules["numba"] = None  # compiling takes longer than all else
from nonneg.serve import serve_run
serve_run(
    f"{sys.argv[1]}/fitted", index=f"{sys.argv[1]}/fitted/index", port=0,
    ready=lambda address, service: parent.send(address),
)
"""
_ASKED = {
    "search": {"vectors": [[1, 0, 0, 0], [0, 1, 0.5, 0]], "k": 5},
    "embed_sparse": {"inputs": [[1, 0, 0, 0], [0, 1, 0.5, 0]]},
}


def killed_server(workplace, number):
    """Kill a server while it answers and start it again; gives what is wrong then."""
    place = workplace.copy("index")
    before = contents(place)
    first, second = _answers_of_killed(place, number), _answers_of_killed(place, number)
    if first != second:
        return f"serve answers otherwise ({place})"
    if contents(place) != before:
        return f"serve has changed files ({place})"
    shutil.rmtree(place)
    return ""


def _answers_of_killed(place, number):
    server = Forked(_SERVER, place)
    try:
        address = server.said()
        assert address, server.end().stderr
        answers = {route: _asked(address, route) for route in _ASKED}
        askers = [Thread(target=_asked_until_it_dies, args=(address,)) for _ in range(3)]
        assert answers["search"]["hits"][0], answers
        for asker in askers:
            asker.start()
        time.sleep(random.Random(f"serve {number}").uniform(0, 0.2))
    finally:
        server.kill()
    for asker in askers:
        asker.join()
    return answers


def _asked_until_it_dies(address):
    with suppress(OSError, HTTPException, ValueError):
        while True:
            _asked(address, "search")


def _asked(address, route):
    body = json.dumps(_ASKED[route]).encode()
    request = Request(address + route, body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)
