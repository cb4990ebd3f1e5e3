"""Golden files: what the public entry points gave, stored, and compared with what they give.

NONNEG_GOLDENS says how. Unset: closely, so that tests pass on any processor. ``exact``: bit for
bit, on the machine and with the versions that the files were written with. ``write``: nothing is
compared and the files are written (``python tests/goldens/write_goldens.py``).
"""

import base64
import io
import json
import os
import re
import shutil
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from PIL import Image

from nonneg.cli import main

HERE = Path(__file__).parent
MODE = os.environ.get("NONNEG_GOLDENS", "close")
# Different in every run, or with every version of a library.
VOLATILE = ("seconds", "images_per_second", "versions")
# Types that an atlas has numbers with a fraction in, rounded.
QUANTISED = (np.int16, np.uint8)
_SPEED = re.compile(r"[\d,]+ samples/s")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_DECIMAL = re.compile(r"[-+]?\d[\d,]*\.\d+(?:e[-+]?\d+)?")
_MOST_TOLD = 12


class Comparison:
    """Compares a found tree of dicts, lists, texts, numbers and arrays with a stored one.

    Args:
        exact: Whether numbers must be the same bit for bit.
        rtol: Relative tolerance of numbers with a fraction.
        atol: Absolute tolerance of the same.
        share: Share of the entries of an array, of whole numbers too, that may be off.
        only_exact: Keys whose values are compared in exact mode only: they jump where rounding
            decides.
    """

    def __init__(self, *, exact, rtol, atol, share, only_exact):
        self.exact, self.rtol, self.atol, self.share = exact, rtol, atol, share
        self.only_exact = () if exact else only_exact
        self.wrong = []

    def compare(self, found, stored, path="."):
        kinds = (_kind(found), _kind(stored))
        if kinds[0] != kinds[1]:
            self._tell(path, found, stored)
        elif kinds[0] == "dict":
            self._dicts(found, stored, path)
        elif kinds[0] == "list":
            if len(found) != len(stored):
                self._tell(path, f"{len(found)} entries", f"{len(stored)} entries")
            for number, (one, other) in enumerate(zip(found, stored, strict=False)):
                self.compare(one, other, f"{path}/{number}")
        elif kinds[0] == "array":
            self._arrays(found, stored, path)
        elif not self._are_same(kinds[0], found, stored):
            self._tell(path, found, stored)

    def _dicts(self, found, stored, path):
        if list(found) != list(stored):
            self._tell(f"{path} keys", list(found), list(stored))
        for key in found:
            if key in stored and key not in self.only_exact:
                self.compare(found[key], stored[key], f"{path}/{key}")

    def _arrays(self, found, stored, path):
        if found.dtype != stored.dtype:
            self._tell(f"{path} type", found.dtype, stored.dtype)
        if found.shape != stored.shape:
            self._tell(f"{path} shape", found.shape, stored.shape)
            return
        # Bytes, so that NaN equals NaN and 0 is not -0.
        if self.exact and found.tobytes() != stored.tobytes():
            self._tell(path, found, stored)
        if self.exact or not found.size:
            return
        if found.dtype.kind == "f":
            off = ~np.isclose(found, stored, self.rtol, self.atol, equal_nan=True)
        elif found.dtype in QUANTISED:
            off = abs(found.astype(int) - stored) > 2
        else:
            off = found != stored
        if off.mean() > self.share:
            place = np.unravel_index(off.argmax(), off.shape)
            told = f"{path}, {off.sum()} of {off.size} entries, first {list(map(int, place))}"
            self._tell(told, found[place], stored[place])

    def _are_same(self, kind, found, stored):
        if self.exact or kind not in ("float", "str"):
            return found == stored or (found != found and stored != stored)
        if kind == "float":
            return np.isclose(found, stored, self.rtol, self.atol, equal_nan=True)
        return _words(found) == _words(stored)

    def _tell(self, path, found, stored):
        self.wrong.append(f"{path}: found {_short(found)}, stored {_short(stored)}")


def _kind(value):
    if isinstance(value, np.ndarray):
        return "array"
    return type(value).__name__


def _words(text):
    """A text without its decimal numbers, and without the blanks that make room for them."""
    return _DECIMAL.sub("#", text).split()


def _short(value):
    text = repr(value).replace("\n", " ")
    return text if len(text) < 160 else f"{text[:157]}..."


def _plain(value):
    """A tree with the types of JSON, and arrays; without what differs in every run."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items() if key not in VOLATILE}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _without_arrays(value, arrays, path=""):
    """The tree with a reference in place of each array, which goes to ``arrays``."""
    if isinstance(value, dict):
        return {key: _without_arrays(part, arrays, f"{path}/{key}") for key, part in value.items()}
    if isinstance(value, list):
        return [_without_arrays(part, arrays, f"{path}/{n}") for n, part in enumerate(value)]
    if not isinstance(value, np.ndarray):
        return value
    key = path.strip("/").replace("/", ".") or "array"
    arrays[key] = value
    return {"array": key}


def _with_arrays(value, arrays):
    if isinstance(value, dict):
        if list(value) == ["array"]:
            return arrays[value["array"]]
        return {key: _with_arrays(part, arrays) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_arrays(part, arrays) for part in value]
    return value


def _write(name, tree):
    path = HERE / "expected" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    arrays = {}
    text = json.dumps(_without_arrays(tree, arrays), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    path.with_suffix(".npz").unlink(missing_ok=True)
    if arrays:
        np.savez_compressed(path.with_suffix(".npz"), **arrays)


def _read(name):
    path = HERE / "expected" / f"{name}.json"
    arrays = {}
    if path.with_suffix(".npz").exists():
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
            arrays = dict(file)
    return _with_arrays(json.loads(path.read_text(encoding="utf-8")), arrays)


def _golden(name, found, *, rtol=1e-3, atol=1e-4, share=0.0, only_exact=()):
    """Compare what was found with the stored file of this name, or write that file."""
    tree = _plain(found)
    if MODE == "write":
        _write(name, tree)
        return
    exact = MODE == "exact"
    comparison = Comparison(exact=exact, rtol=rtol, atol=atol, share=share, only_exact=only_exact)
    comparison.compare(tree, _read(name))
    wrong = comparison.wrong
    told = [f"{len(wrong)} differences from expected/{name}", *wrong[:_MOST_TOLD]]
    assert not wrong, "\n".join(told)


def _golden_text(path, found):
    """Compare a text with a stored file, letter by letter, or write that file."""
    path = HERE / path
    if MODE == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
        return
    assert found == path.read_text(encoding="utf-8")


def _command(*arguments, cwd="."):
    """What a command says on standard output, 100 columns wide and without colours."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = patch.object(sys, "argv", ["nonneg", *map(str, arguments)])
    screen = patch.dict("os.environ", COLUMNS="100", NO_COLOR="1")
    with argv, screen, chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    assert code == 0, err.getvalue()
    return _SPEED.sub("# samples/s", _COLOUR.sub("", out.getvalue()))


def _atlas(path):
    """What the page of an atlas holds, with its packed arrays and images as arrays."""
    text = Path(path).read_text(encoding="utf-8")
    page = json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1])
    assert re.fullmatch("[0-9a-f]{16}", page.pop("key"))  # of last digits, which machines differ in
    return _unpacked(page)


def _unpacked(value):
    if isinstance(value, list):
        return [_unpacked(part) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"type", "shape", "data"}:
        content = np.frombuffer(base64.b64decode(value["data"]), np.dtype(value["type"]))
        return content.reshape(value["shape"])
    if set(value) == {"type", "data"}:
        # Pixels: the bytes of a PNG depend on the version of zlib.
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(value["data"]))))
    return {key: _unpacked(part) for key, part in value.items()}


@pytest.fixture(scope="session")
def golden():
    return _golden


@pytest.fixture(scope="session")
def golden_text():
    return _golden_text


@pytest.fixture(scope="session")
def command():
    return _command


@pytest.fixture(scope="session")
def atlas():
    return _atlas


@pytest.fixture(scope="session")
def old_runs():
    """The folders that version 0.1 wrote; not to be written into."""
    return HERE / "runs-0.1"


@pytest.fixture
def copied_runs(old_runs, tmp_path):
    """A copy of them, to work in: paths in their settings start here."""
    shutil.copytree(old_runs, tmp_path, dirs_exist_ok=True)
    return tmp_path
