"""Readers of files, and files that are damaged by chance or by somebody.

Whatever a file holds, a reader gives what it read or one of the errors that the command line prints
as a sentence; in ten seconds of the processor, without waiting for anything, and without taking
memory that the file cannot need.
"""

import gzip
import io
import json
import os
import random
import resource
import shutil
import signal
import struct
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save as safetensors_bytes
from scipy import sparse

import nonneg
from faults.folders import FOLDERS
from nonneg.backbones import BackboneSettings
from nonneg.data import read_array, read_features
from nonneg.data.folder import FORMATS, Photo, aspect_ratio
from nonneg.data.official import cifar10, read_idx
from nonneg.data.text_table import read_table
from nonneg.data.vectors import read_vectors
from nonneg.evaluation.evaluation import Evaluation
from nonneg.head.projector import ProjectorSettings
from nonneg.io import read_json, read_tensors
from nonneg.presets import find_preset
from nonneg.report.user_files import FeatureSet, class_numbers, days, text_list
from nonneg.runs import read_experiment
from nonneg.runs.record import read_run, run_encoder
from nonneg.runs.vector_fits import _graph
from nonneg.search import SparseIndex
from nonneg.training.checkpoint import Position, load_checkpoint, save_checkpoint
from nonneg.training.run_folder import read_history
from nonneg.training.supervised import Classifier

# What a user can be told in a sentence; the command line prints these without a traceback.
FORESEEN = (ValueError, OSError, ImportError, FloatingPointError)
SECONDS = 10
# Of the clock, for what waits and computes nothing; a busy machine makes the best reader slow.
SECONDS_WAITING = 60
MOST_BYTES = 2 << 30


@dataclass(frozen=True)
class Reader:
    """How a file is read.

    Args:
        make: Writes a good folder; the damaged file lies in it.
        file: Its name there.
        read: Reads the file, or the folder that it lies in.
        must_refuse: Whether no changed byte may go unnoticed: there is a digest.
    """

    make: object
    file: str
    read: object
    must_refuse: bool = False


def _file(content):
    def make(folder, file):
        (folder / file).write_bytes(content() if callable(content) else content)

    return make


def _saved(write, *arrays, **named):
    buffer = io.BytesIO()
    write(buffer, *arrays, **named)
    return buffer.getvalue()


_X = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
_Z = sparse.csr_array(np.maximum(_X, 0))
_WORDS = ["tea", "ale", "gin", "tea with milk"] * 10


def _parquet(**columns):
    import pyarrow as arrow
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(arrow.table(columns), sink)
    return sink.getvalue()


def _image(form):
    pixels = np.random.default_rng(0).integers(0, 256, (24, 20, 3), dtype=np.uint8)
    return _saved(Image.fromarray(pixels).save, format=form)


def _photo(path):
    photo = Photo(path)
    return photo.centre(8), photo.crop((0.1, 0.1, 0.5, 0.5), 8), aspect_ratio(path)


def _small_encoder():
    settings = nonneg.EncoderSettings(
        backbone=BackboneSettings(name="mlp", hidden=(8,)),
        projector=ProjectorSettings(hidden=(6,), n_features=5),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nonneg.Encoder(settings, (6,))


def _encoder(folder, file):
    _small_encoder().save(folder)


def _classifier(folder, file):
    Classifier(_small_encoder(), 3).save(folder)


def _estimator(folder, file):
    ncl = nonneg.NCL(n_components=6, hidden=0, max_steps=2, batch_size=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ncl.fit(_X).save(folder)


def _run(folder, file):
    settings = {"encoder": {"nonnegative": "relu"}, "loss": {"name": "info_nce"}, "seed": 0}
    _, experiment = read_experiment("digits")
    settings = {**experiment.model_dump(mode="json"), **settings}
    (folder / "run.json").write_text(json.dumps({"settings": settings, "versions": {}}))
    lines = [json.dumps({"epoch": n, "loss": 1 / n}) for n in (1, 2, 3)]
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")


def _whole_run(folder):
    run = read_run(folder)
    return run.experiment, run.fit, run.method, run.seed, run.recipe()


_MODEL = torch.nn.Linear(3, 2)


def _rate():
    return torch.optim.SGD(_MODEL.parameters(), lr=0.1, momentum=0.9)


def _checkpoint(folder, file):
    position = Position(step=3, history=[{"epoch": 1}])
    save_checkpoint(folder, _MODEL, _rate(), position)


def _evaluation(folder, file):
    section = {
        "figures": {"sparsity": {"value": 0.9, "beside": {"n": 3}}},
        "settings": {},
        "seconds": 1.5,
        "versions": {"nonneg": "0.2"},
    }
    about = {"train": {"name": "x", "n_samples": 40}, "test": {"name": "x", "n_samples": 9}}
    values = {"nonneg": "evaluation", "model": "a" * 64, "data": about, "skipped": {"sepin": "no"}}
    (folder / file).write_text(json.dumps({**values, "sections": {"properties": section}}))


def _curated(path):
    return _fitted().curate(path)


_ESTIMATOR = []


def _fitted():
    if not _ESTIMATOR:
        with tempfile.TemporaryDirectory() as place:
            _estimator(Path(place), "")
            _ESTIMATOR.append(nonneg.NCL.load(place))
    return _ESTIMATOR[0]


def _index(folder, file):
    SparseIndex.of(_Z).save(folder)
    (part,) = folder.glob("part-*")
    part.rename(folder / "part-x")
    facts = json.loads((folder / "index.json").read_text()) | {"part": "part-x"}
    (folder / "index.json").write_text(json.dumps(facts))


def _searched(folder):
    return SparseIndex.load(folder).search(_Z[:2], k=3)


def _cifar(folder, file):
    labels = np.arange(3, dtype=np.uint8)[:, None]
    record = np.hstack([labels, np.zeros((3, 3072), dtype=np.uint8)]).tobytes()
    for name in (*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"):
        (folder / name).write_bytes(record)
    (folder / "batches.meta.txt").write_text("\n".join("abcdefghij"))


def _idx(*shape):
    return struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(np.prod(shape))


_CSV = "text,label,date\n" + "".join(
    f'"a, ""quoted"" text {n}",{word},2024-05-{n % 28 + 1:02d}\n' for n, word in enumerate(_WORDS)
)
_JSONL = "".join(
    json.dumps({"text": f"tëxt {n}", "label": word, "date": "2024-05-01"}) + "\n"
    for n, word in enumerate(_WORDS)
)
_LISTS = [row.tolist() for row in _X]


def _table(path):
    table = read_table(path, text="text", label="label", date="date")
    return list(table.texts)


def _lines(path):
    return list(read_table(path).texts)


def _features(path):
    features = FeatureSet.of(path)
    return features.samples()


def _zipped(name, good, read):
    """Reads an archive whose one member is the damaged file: its checksum is right."""

    def zipped(path):
        members = {**good, name: path.read_bytes()}
        with zipfile.ZipFile(path.with_suffix(".npz"), "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(f"{member}.npy", content)
        return read(path.with_suffix(".npz"))

    return zipped


_PARTS = {
    name: _saved(np.save, array)
    for name, array in (
        ("data", _Z.data),
        ("indices", _Z.indices),
        ("indptr", _Z.indptr),
        ("shape", np.array(_Z.shape)),
        ("format", np.array(b"csr")),
    )
}
_BESIDE = {"inputs": _saved(np.save, _X), "labels": _saved(np.save, np.array(_WORDS))}


def _vectors(path):
    return read_vectors(path).fetch(torch.arange(2))


READERS = {
    "JSON": Reader(_file(b'{"a": [1, 2.5, null, {"b": "c"}]}'), "x.json", read_json),
    "JSON list of texts": Reader(_file(json.dumps(_WORDS).encode()), "x.json", text_list),
    "JSON lines of texts": Reader(_file(_JSONL.encode()), "x.jsonl", text_list),
    "dates": Reader(_file(b"2024-05-01\n\n2024\n2024-05-01T10:30+02:00\n"), "x.txt", days),
    "safetensors": Reader(
        _file(lambda: safetensors_bytes({"a": torch.ones(3, 4), "b": torch.arange(5)})),
        "x.safetensors",
        read_tensors,
    ),
    "npy vectors": Reader(_file(lambda: _saved(np.save, _X)), "x.npy", read_array),
    "npy features": Reader(_file(lambda: _saved(np.save, _X)), "x.npy", _features),
    "npy labels": Reader(_file(lambda: _saved(np.save, np.array(_WORDS))), "x.npy", class_numbers),
    "text labels": Reader(_file("\n".join(_WORDS).encode()), "x.txt", class_numbers),
    "npz vectors": Reader(
        _file(lambda: _saved(np.savez, inputs=_X, labels=np.arange(40) % 3)), "x.npz", read_array
    ),
    "npz packed": Reader(
        _file(lambda: _saved(np.savez_compressed, inputs=_X, labels=np.array(_WORDS))),
        "x.npz",
        _vectors,
    ),
    "npz sparse": Reader(_file(lambda: _saved(sparse.save_npz, _Z)), "x.npz", read_features),
    "npz features": Reader(
        _file(lambda: _saved(np.savez_compressed, features=_X, labels=np.arange(40))),
        "x.npz",
        _features,
    ),
    "graph": Reader(
        _file(lambda: _saved(sparse.save_npz, sparse.coo_array(np.eye(40)))),
        "x.npz",
        lambda path: _graph(path, 40),
    ),
    **{
        f"{name} in npz": Reader(_file(content), "x.npy", _zipped(name, _PARTS, read_features))
        for name, content in _PARTS.items()
    },
    **{
        f"{name} in npz": Reader(_file(content), "x.npy", _zipped(name, _BESIDE, read_vectors))
        for name, content in _BESIDE.items()
    },
    "idx packed well": Reader(
        _file(_idx(4, 5, 6)),
        "x",
        lambda path: (
            path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes())),
            read_idx(path.with_suffix(".gz"), n_dims=3),
        ),
    ),
    "parquet vectors": Reader(_file(lambda: _parquet(v=_LISTS)), "x.parquet", _vectors),
    "parquet texts": Reader(
        _file(lambda: _parquet(text=_WORDS, label=_WORDS, date=["2024-05-01"] * 40)),
        "x.parquet",
        _table,
    ),
    "csv": Reader(_file(_CSV.encode()), "x.csv", _table),
    "csv.gz": Reader(_file(lambda: gzip.compress(_CSV.encode(), mtime=0)), "x.csv.gz", _table),
    "jsonl": Reader(_file(_JSONL.encode()), "x.jsonl", _table),
    "txt": Reader(_file("\n".join(_WORDS).encode()), "x.txt", _lines),
    "idx": Reader(_file(_idx(4, 5, 6)), "x", lambda path: read_idx(path, n_dims=3)),
    "idx.gz": Reader(
        _file(lambda: gzip.compress(_idx(4, 5, 6), mtime=0)),
        "x.gz",
        lambda path: read_idx(path, n_dims=3),
    ),
    "CIFAR": Reader(_cifar, "data_batch_3.bin", lambda path: cifar10(path.parent)),
    "CIFAR names": Reader(_cifar, "batches.meta.txt", lambda path: cifar10(path.parent)),
    "TOML": Reader(
        _file(lambda: Path(nonneg.presets.__file__).with_name("digits.toml").read_bytes()),
        "x.toml",
        lambda path: (find_preset(str(path)), read_experiment(str(path))),
    ),
    "run.json": Reader(_run, "run.json", lambda path: _whole_run(path.parent)),
    "history.jsonl": Reader(_run, "history.jsonl", lambda path: read_history(path.parent)),
    "checkpoint": Reader(
        _checkpoint,
        "step-000000003.safetensors",
        lambda path: load_checkpoint(path.parent, _MODEL, _rate(), say=lambda _: None),
        must_refuse=True,
    ),
    "encoder config": Reader(_encoder, "config.json", lambda path: run_encoder(path.parent)),
    "encoder weights": Reader(
        _encoder,
        "model.safetensors",
        lambda path: nonneg.Encoder.load(path.parent),
        must_refuse=True,
    ),
    "classifier head": Reader(
        _classifier,
        "head.safetensors",
        lambda path: Classifier(_small_encoder(), 3).load_head(path.parent),
        must_refuse=True,
    ),
    "estimator config": Reader(
        _estimator,
        "config.json",
        lambda path: nonneg.NCL.load(path.parent).transform(_X),
    ),
    "estimator weights": Reader(
        _estimator, "model.safetensors", lambda path: nonneg.NCL.load(path.parent), must_refuse=True
    ),
    "estimator coverage": Reader(
        _estimator,
        "coverage.safetensors",
        lambda path: nonneg.NCL.load(path.parent),
        must_refuse=True,
    ),
    "evaluation.json": Reader(_evaluation, "evaluation.json", Evaluation.read),
    "changes.json": Reader(
        _file(json.dumps({"rename": {"3": "tea"}, "merge": [[0, 1]], "hide": [2]}).encode()),
        "x.json",
        _curated,
    ),
    "index.json": Reader(_index, "index.json", lambda path: _searched(path.parent)),
    "index lists": Reader(
        _index, "part-x/starts.npy", lambda path: _searched(path.parent.parent)
    ),
    **{
        form: Reader(_file(lambda form=form: _image(form)), f"x{endings[0]}", _photo)
        for form, endings in FORMATS.items()
    },
    **{name: Reader(*parts) for name, parts in FOLDERS.items()},
}  # fmt: skip

_TOKENS = (
    *(b"-1", b"0", b"1e999", b"NaN", b"Infinity", b"null", b"true", b'""', b"[]", b"{}", b'"x"'),
    *(b"9" * 30, b"9" * 5000, b"[" * 5000, b'{"a":' * 3000, b"\x00", b"\xff\xfe", b"\r", b'"'),
    *(b"../../x", b"/dev/zero", "\u2028\ud7ff".encode(), b"1.5", b"[[0,0]]", b'{"3":4}'),
)
_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF)


_VALUES = (
    *(None, True, -1, 0, 1, 2.5, 1e300, 10**30, "", "x", "../../x", "/dev/zero", [], {}, [[]]),
    *(["a"], {"a": 1}, [0, 0], [None], [1.5], "9" * 50, "relu", [[1, 2]], "\u0000", float("nan")),
)


def revalued(content, random):
    """JSON in which one value is another, or gone, or twice there."""
    value = json.loads(content)
    places = []
    groups = [value]
    while groups:
        group = groups.pop()
        keys = list(group) if isinstance(group, dict) else range(len(group))
        places += [(group, key) for key in keys]
        groups += [group[key] for key in keys if isinstance(group[key], dict | list)]
    if not places:
        return content
    group, key = random.choice(places)
    if random.random() < 0.2:
        del group[key]
    elif random.random() < 0.1 and isinstance(group, dict):
        group[f"{key}x"] = group.pop(key)
    else:
        group[key] = random.choice(_VALUES)
    return json.dumps(value).encode()


def damaged(content, random, *, is_json=False):
    """Some content with something wrong in it."""
    if is_json and random.random() < 0.7:
        return revalued(content, random)
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice((_flip, _cut, _grow, _overwrite, _swap, _number, _token, _double))(
            changed, random
        )
    return bytes(changed)


def _place(content, random):
    """Anywhere, or near the ends: headers and footers are read first, and believed."""
    if not content:
        return 0
    near = random.randrange(min(len(content), 200))
    return random.choice((random.randrange(len(content)), near, len(content) - 1 - near))


def _flip(content, random):
    if content:
        content[_place(content, random)] ^= 1 << random.randrange(8)


def _cut(content, random):
    del content[_place(content, random) :]


def _grow(content, random):
    place = _place(content, random)
    content[place:place] = random.randbytes(random.choice((1, 8, 200)))


def _overwrite(content, random):
    place, n = _place(content, random), random.choice((1, 4, 8, 50))
    content[place : place + n] = bytes([random.choice(_EXTREMES)]) * n


def _swap(content, random):
    place, other, n = _place(content, random), _place(content, random), random.choice((1, 4, 16))
    content[place : place + n] = content[other : other + n]


def _number(content, random):
    place = _place(content, random)
    form = random.choice(("<I", ">I", "<q", "<H"))
    value = random.choice((0, 1, 2**15 - 1, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1))
    value &= (1 << (8 * struct.calcsize(form) - (form == "<q"))) - 1
    content[place : place + struct.calcsize(form)] = struct.pack(form, value)


def _token(content, random):
    """In the place of a word or number."""
    text, place = bytes(content), _place(content, random)
    start = place
    while start and text[start - 1 : start].isalnum():
        start -= 1
    end = place
    while end < len(text) and text[end : end + 1].isalnum():
        end += 1
    content[start:end] = random.choice(_TOKENS)


def _double(content, random):
    start = _place(content, random)
    end = start + random.choice((10, 100, 1000))
    content[start:start] = content[start:end]


@dataclass
class Found:
    """What came of many damaged files."""

    counts: Counter = field(default_factory=Counter)
    failures: list = field(default_factory=list)


class SlowError(BaseException):
    """A file took longer than it may."""


_ALARMS = (signal.ITIMER_PROF, signal.SIGPROF), (signal.ITIMER_REAL, signal.SIGALRM)


def _too_slow(number, frame):
    raise SlowError(number)


class Bench:
    """A folder in which damaged files of one reader are read, one after the other."""

    def __init__(self, name):
        self.name, self.reader = name, READERS[name]
        self.folder = Path(tempfile.mkdtemp())
        self.good = self.folder / "good"
        self.good.mkdir()
        self.reader.make(self.good, self.reader.file)
        self.content = (self.good / self.reader.file).read_bytes()
        self.reader.read(self.good / self.reader.file)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def content_of(self, number):
        """The damaged content of this number, the same at every call."""
        chance = random.Random(f"{self.name} {number}")
        return damaged(self.content, chance, is_json=self.reader.file.endswith(".json"))

    def outcome(self, content):
        """What reading it comes to: read, refused, or what is wrong."""
        place = self.folder / "damaged"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.good, place)
        (place / self.reader.file).write_bytes(content)
        before = {number: signal.signal(number, _too_slow) for _, number in _ALARMS}
        for (timer, _), seconds in zip(_ALARMS, (SECONDS, SECONDS_WAITING), strict=True):
            signal.setitimer(timer, seconds)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.reader.read(place / self.reader.file)
        except FORESEEN as error:
            said = str(error)
            found = "refused" if said else f"{type(error).__name__} without a word"
        except SlowError as error:
            has_waited = error.args[0] == signal.SIGALRM
            found = f"{SECONDS_WAITING} s of waiting" if has_waited else f"more than {SECONDS} s"
        except TypeError as error:
            is_ours = _is_said_by_us(error)
            found = "refused" if is_ours else f"TypeError: {' '.join(str(error).split())[:100]}"
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            found = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        else:
            is_same = content == self.content
            is_silent = self.reader.must_refuse and not is_same
            found = "read in spite of its digest" if is_silent else "read"
        finally:
            for timer, number in _ALARMS:
                signal.setitimer(timer, 0)
                signal.signal(number, before[number])
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MOST_BYTES:
            found = "more than 2 GB"
        return found


def _is_said_by_us(error):
    """Whether a check of ours raised it, with a sentence, and not Python in the midst of work."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_inside = Path(last.filename).is_relative_to(Path(nonneg.__file__).parent)
    return is_inside and (last.line or "").startswith("raise ")


def limit_memory():
    """No more than 8 GB for this process, so that a bomb does not take the machine with it."""
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
    os.nice(5)
