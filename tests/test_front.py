"""The front of the package: its names, and how little is loaded before they are used."""

import subprocess
import sys

import pytest

import nonneg

HEAVY = ("torch", "scipy", "sklearn", "numpy")


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
