"""New processes that need not import PyTorch: forked from a server that has imported it once."""

import multiprocessing
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

_METHODS = multiprocessing.get_all_start_methods()
_CONTEXT = multiprocessing.get_context("forkserver" if "forkserver" in _METHODS else "spawn")
_CONTEXT.set_forkserver_preload(
    ["lightning_fabric", "nonneg.cli.main", "nonneg.estimators.ncl", "nonneg.runs.evaluating"]
)
_TIMEOUT = 300


def _execute(code, arguments, environment, out, err, parent):
    os.environ.update(environment)
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<forked>", "exec"), {"__name__": "__main__", "parent": parent})


class Forked:
    """Python code in a process of its own; ``parent`` is there the other end of ``link``."""

    def __init__(self, code, *arguments, **environment):
        self._folder = tempfile.TemporaryDirectory()
        self._out, self._err = (Path(self._folder.name) / name for name in ("out", "err"))
        self.link, parent = _CONTEXT.Pipe()
        given = ([str(argument) for argument in arguments], environment)
        self._process = _CONTEXT.Process(
            target=_execute, args=(code, *given, str(self._out), str(self._err), parent)
        )
        self._process.start()
        parent.close()
        self.pid = self._process.pid

    def said(self):
        """The next thing that it has sent; None if it has ended without."""
        try:
            assert self.link.poll(_TIMEOUT), "nothing was sent"
            return self.link.recv()
        except (EOFError, ConnectionResetError):
            return None

    def kill(self):
        """End it at once; gives its exit code, which is another one if it had ended before."""
        self._process.kill()
        self._process.join()
        self._folder.cleanup()
        return self._process.exitcode

    def end(self):
        """The exit code and what was written, once it has ended by itself."""
        self._process.join(_TIMEOUT)
        assert self._process.exitcode is not None, "it does not end"
        # A process that was killed may have ended within a letter.
        out, err = (
            path.read_text(errors="replace") if path.exists() else ""
            for path in (self._out, self._err)
        )
        self._folder.cleanup()
        return SimpleNamespace(returncode=self._process.exitcode, stdout=out, stderr=err)


def run_forked(code, *arguments, expect=0, **environment):
    """The output of code that has to end with an exit code, such as ``-signal.SIGKILL``."""
    ended = Forked(code, *arguments, **environment).end()
    assert ended.returncode == expect, ended.stderr
    return ended


KILLED = -signal.SIGKILL if hasattr(signal, "SIGKILL") else 1
