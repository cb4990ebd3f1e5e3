"""The front of the package: its names, and how little is loaded before they are used."""

import subprocess
import sys

import pytest

import nonneg

HEAVY = ("torch", "scipy", "sklearn", "numpy")
COMMANDS = (
    "compare",
    "curate",
    "demo",
    "embed",
    "evaluate",
    "export",
    "fit",
    "import-checkpoint",
    "index",
    "presets",
    "report",
    "reproduce",
    "search",
    "theory",
    "train",
)


def loaded_by(code):
    """Which heavy packages a fresh interpreter has loaded after some code."""
    ask = f"{code}\nimport sys\nprint(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", ask], check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("name", nonneg.__all__)
def test_every_name_is_there(name):
    assert getattr(nonneg, name) is not None
    assert name in dir(nonneg)


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'ncl'"):
        _ = nonneg.ncl


def test_the_package_alone_loads_nothing_heavy():
    assert loaded_by("import nonneg") == []


def call(*arguments):
    """Code that runs the command line with some arguments."""
    return (
        "import contextlib, io, sys\nfrom nonneg.cli import main\n"
        f"sys.argv = ['nonneg', *{arguments!r}]\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    main()"
    )


def test_help_and_presets_load_nothing_heavy():
    """All of them in one process, which asks for the help of every command in turn."""
    asked = [("--help",), ("presets",), *((name, "--help") for name in COMMANDS)]
    assert loaded_by("\n".join(call(*arguments) for arguments in asked)) == []


def test_all_commands_are_asked():
    from nonneg.cli.main import app

    assert sorted(command.name for command in app.registered_commands) == sorted(COMMANDS)


def test_sections_in_the_help_are_those_there_are():
    from nonneg.cli.evaluate import SECTIONS
    from nonneg.evaluation import sections

    assert tuple(sections.SECTIONS) == SECTIONS
