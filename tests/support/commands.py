"""The command line without the seconds that a new process takes to import torch."""

import io
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from types import SimpleNamespace
from unittest.mock import patch

from nonneg.cli import main


def nonneg_here(*arguments, cwd=".", columns=200):
    """What a command ends with and writes, run in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = patch.object(sys, "argv", ["nonneg", *map(str, arguments)])
    wide = patch.dict("os.environ", COLUMNS=str(columns))
    with argv, wide, chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())
