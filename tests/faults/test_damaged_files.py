"""Every reader with a few damaged files, and with all that ever failed."""

import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no alarm")

from faults.damage import FORESEEN, READERS, Bench, Reader, revalued  # noqa: E402

CORPUS = Path(__file__).parent / "corpus"
N_FILES = 4


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_refused_in_a_sentence(name):
    bench = Bench(name)
    try:
        outcomes = [bench.outcome(bench.content_of(number)) for number in range(N_FILES)]
        kept = sorted((CORPUS / name.replace(" ", "-")).glob("*"))
        outcomes += [bench.outcome(path.read_bytes()) for path in kept]
    finally:
        bench.close()
    assert set(outcomes) <= {"read", "refused"}


def test_the_corpus_is_of_readers_that_there_are():
    kept = {path.name for path in CORPUS.iterdir()} if CORPUS.exists() else set()
    assert kept <= {name.replace(" ", "-") for name in READERS}


def _fails(error):
    def read(path):
        if path.read_bytes() != b"good":
            raise error

    return Reader(lambda folder, file: (folder / file).write_bytes(b"good"), "x", read)


@pytest.mark.parametrize(
    ("reader", "outcome"),
    [
        (_fails(KeyError("a")), "KeyError: 'a'"),
        (_fails(TypeError("a")), "TypeError: a"),
        (_fails(RecursionError("too deep")), "RecursionError: too deep"),
        (_fails(ValueError()), "ValueError without a word"),
        (_fails(FORESEEN[0]("said")), "refused"),
    ],
)
def test_what_is_not_a_sentence_is_noticed(monkeypatch, reader, outcome):
    monkeypatch.setitem(READERS, "trial", reader)
    bench = Bench("trial")
    assert bench.outcome(b"bad") == outcome
    assert bench.outcome(b"good") == "read"
    bench.close()


def test_a_hang_and_a_silent_change_are_noticed(monkeypatch):
    monkeypatch.setattr("faults.damage.SECONDS", 0.05)
    monkeypatch.setattr("faults.damage.SECONDS_WAITING", 1.5)

    def read(path):
        while path.read_bytes() == b"slow":
            pass
        if path.read_bytes() == b"wait":
            time.sleep(100)

    def make(folder, file):
        (folder / file).write_bytes(b"good")

    monkeypatch.setitem(READERS, "trial", Reader(make, "x", read, must_refuse=True))
    bench = Bench("trial")
    assert bench.outcome(b"slow") == "more than 0.05 s"
    assert bench.outcome(b"wait") == "1.5 s of waiting"
    assert bench.outcome(b"else") == "read in spite of its digest"
    assert bench.outcome(b"good") == "read"
    bench.close()


def test_json_is_changed_value_by_value():
    import random

    found = {revalued(b'{"a": [1, {"b": 2}]}', random.Random(number)) for number in range(200)}
    assert len(found) > 20
