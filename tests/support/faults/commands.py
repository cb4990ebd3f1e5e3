"""The commands that write something, one line each: add a new one here, and all faults meet it."""

import hashlib
import io
import json
import os
import re
import shutil
import time
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from forking import Forked
from parquet_parts import write_parts
from word_sums import KINDS, TEXTS, write_model

from nonneg.backbones import ResNet
from nonneg.head.projector import ProjectorSettings, projector

TRAIN = [
    part
    for assignment in (
        "data.n_train=128",
        "data.held_out=40",
        "training.batch_size=64",
        "encoder.backbone.width=4",
        "encoder.projector.hidden=[16]",
        "encoder.projector.n_features=16",
        "training.epochs=2",
        "training.warmup_epochs=1",
        "training.checkpoint_every=2",
        "training.monitor_samples=40",
    )
    for part in ("--set", assignment)
]
FIT = [
    part
    for assignment in (
        "n_components=8",
        "hidden=0",
        "batch_size=64",
        "max_steps=5",
        "n_neighbors=3",
    )
    for part in ("--set", assignment)
]
READ = ["--text", "text", "--label", "kind"]
IMPORT = ["--pixels", "none", "--nonnegative", "relu"]
ARROW = "pyarrow"
PROPERTIES = ["--only", "properties", "--set", "n_permutations=2"]


@dataclass(frozen=True)
class Command:
    """A command and what it is run in.

    Args:
        arguments: Of ``nonneg``, with paths within the prepared folder.
        writes: What it writes, file or folder.
        again: What is added when it is run again after a kill.
        before: Commands whose results are there before: what a kill must not lose.
        package: That it needs besides the core.
    """

    arguments: tuple[str, ...]
    writes: str
    again: tuple[str, ...] = ()
    before: tuple[tuple[str, ...], ...] = ()
    package: str = "nonneg"


def _to(target, data="x.npy"):
    """The export of points to an engine."""
    return ("export", "fitted", data, "--to", target, "--out", "points")


COMMANDS = {
    "train": Command(("train", "digits", *TRAIN, "--out", "new"), "new", again=("--resume",)),
    "fit": Command(("fit", "x.npy", "--labels", "y.npy", *FIT, "--out", "new"), "new"),
    "evaluate": Command(
        ("evaluate", "fitted", *PROPERTIES),
        "fitted",
        before=(("evaluate", "fitted", "--only", "probe", "--set", "n_permutations=2"),),
    ),
    "embed": Command(
        ("embed", "fitted", "x.npy", "--out", "z.npz"),
        "z.npz",
        before=(("embed", "fitted", "few.npy", "--out", "z.npz"),),
    ),
    "report": Command(
        ("report", "features.npz", "--out", "atlas.html"),
        "atlas.html",
        before=(("report", "few.npz", "--out", "atlas.html"),),
    ),
    "curate": Command(
        ("curate", "fitted", "changes.json"),
        "fitted",
        before=(("curate", "fitted", "earlier.json"),),
    ),
    "fit of texts": Command(
        ("fit", "texts.csv", *READ, "--encoder", "model", *FIT, "--out", "runs/new"), "runs"
    ),
    "fit of many files": Command(
        ("fit", "parts", *FIT, "--out", "runs/new"), "runs", (), (), ARROW
    ),
    "embed many files": Command(
        ("embed", "fitted", "parts", "--out", "z"),
        "z",
        before=(("embed", "fitted", "parts", "--out", "z", "--shard", "1/3"),),
        package=ARROW,
    ),
    "embed a shard": Command(
        ("embed", "fitted", "parts", "--out", "z", "--shard", "2/3"),
        "z",
        before=(("embed", "fitted", "parts", "--out", "z", "--shard", "1/3"),),
        package=ARROW,
    ),
    "index": Command(
        ("index", "fitted", "x.npy", "--idf"), "fitted", before=(("index", "fitted", "few.npy"),)
    ),
    "index of texts": Command(
        ("index", "read", "texts.csv", "--out", "lists"),
        "lists",
        before=(
            ("fit", "fewer.csv", *READ, "--encoder", "model", "--no-page", *FIT, "--out", "read"),
            ("index", "read", "fewer.csv", "--out", "lists"),
        ),
    ),
    **{
        f"export to {target}": Command(_to(target), "points", before=(_to(target, "few.npy"),))
        for target in ("qdrant", "elasticsearch", "opensearch", "jsonl")
    },
    "import-checkpoint": Command(("import-checkpoint", "a.ckpt", *IMPORT, "--out", "new"), "new"),
    "report of a run": Command(("report", "fitted"), "fitted", before=(("report", "fitted"),)),
    "reproduce": Command(
        ("reproduce", "properties", "--preset", "digits", "--seeds", "1", *TRAIN, "--out", "new"),
        "new",
    ),
    "demo": Command(("demo", "--out", "new"), "new"),
    "demo of texts": Command(("demo", "--texts", "--out", "new"), "new"),
    "export to onnx": Command(
        ("export", "fitted", "--to", "onnx", "--out", "new.onnx"), "new.onnx", package="onnx"
    ),
}

# Those whose packages are installed: the tests of each package say where it is missing.
COMMANDS = {name: command for name, command in COMMANDS.items() if find_spec(command.package)}

# The command line in a forked process, in a folder, after what ``prepare`` is.
_RUN = """
import operator, os, sys
from types import SimpleNamespace
from word_sums import installed
folder, *arguments = sys.argv[1:]
os.chdir(folder)
installed(SimpleNamespace(setitem=operator.setitem))
sys.argv = ["nonneg", *arguments]
if arguments[0] == "demo":
    from faults.commands import make_demo_small
    make_demo_small()
{prepare}
from nonneg.cli import main
main()
"""


def make_demo_small():
    """Let the demos train briefly, on few samples; they write the same files."""
    from nonneg.report import demo
    from nonneg.runs.experiment import read_experiment
    from nonneg.runs.vector_fits import vector_experiment

    small = read_experiment("digits", TRAIN[1::2])
    demo.read_experiment = lambda name: small
    demo.vector_experiment = lambda found: vector_experiment(found, FIT[1::2])
    demo.files = lambda package: Path()


def started(folder, arguments, prepare="", **environment):
    """The process of a command in a folder; ``prepare`` is Python code that runs in it first."""
    return Forked(_RUN.format(prepare=prepare), folder, *arguments, **environment)


def ran(folder, arguments, prepare="", **environment):
    """How a command ended: exit code, output and errors."""
    return started(folder, arguments, prepare, **environment).end()


def prepared(folder):
    """Make the files that commands start from; gives the folder."""
    folder.mkdir(parents=True)
    kinds = np.repeat(np.eye(4), 40, axis=0)
    X = kinds + 0.1 * np.random.default_rng(0).standard_normal((160, 4))
    np.save(folder / "x.npy", X.astype(np.float32))
    np.save(folder / "few.npy", X[:50].astype(np.float32))
    np.save(folder / "y.npy", kinds.argmax(axis=1))
    Z = np.maximum(X, 0).astype(np.float32)
    np.savez(folder / "features.npz", features=Z, labels=kinds.argmax(axis=1))
    np.savez(folder / "few.npz", features=Z[::4])
    (folder / "changes.json").write_text(json.dumps({"rename": {"3": "tea"}, "hide": [1]}))
    (folder / "earlier.json").write_text(json.dumps({"rename": {"2": "ale"}}))
    write_model(folder / "model")
    rows = [f"{text},{kind}\n" for text, kind in zip(TEXTS, KINDS, strict=True)]
    for name, some in (("texts.csv", rows), ("fewer.csv", rows[::3])):
        (folder / name).write_text("text,kind\n" + "".join(some))
    (folder / "clinc150").mkdir()
    (folder / "clinc150" / "requests.csv").write_text("text,intent\n" + "".join(rows))
    np.savez(folder / "clinc150" / "vectors.npz", inputs=np.resize(X, (len(rows), 4)))
    if find_spec(ARROW):
        write_parts(folder / "parts", X.astype(np.float32), [40, 90])
    torch.save({"state_dict": solo_weights()}, folder / "a.ckpt")
    ended = ran(folder, ["fit", "x.npy", "--labels", "y.npy", *FIT, "--out", "fitted"])
    assert ended.returncode == 0, ended.stderr
    return folder


def solo_weights():
    """The weights of a small network as solo-learn keeps them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = ResNet("resnet10", in_channels=1, width=4, stem="authors")
        head = projector(32, ProjectorSettings(hidden=(24,), n_features=16, norm="none"))
    theirs = {"0": "0", "3": "2"}  # they have no place for a norm
    weights = {f"backbone.{name}": tensor for name, tensor in backbone.state_dict().items()}
    for name, tensor in head.state_dict().items():
        number, _, kind = name.partition(".")
        weights[f"projector.{theirs[number]}.{kind}"] = tensor
    return weights


class Workplace:
    """Copies of the prepared folder, and what each command makes in one without any fault."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._start = prepared(self.folder / "start")
        self._before, self._contents, self._expected, self._seconds, self._n = {}, {}, {}, {}, 0

    def copy(self, name):
        """A new folder to run a command in, with what is there before it."""
        if name not in self._before:
            place = self.folder / f"before-{name}"
            shutil.copytree(self._start, place)
            for command in COMMANDS[name].before:
                ended = ran(place, command)
                assert ended.returncode == 0, ended.stderr
            self._before[name] = place
        self._n += 1
        place = self.folder / f"{name}-{self._n}"
        shutil.copytree(self._before[name], place)
        return place

    def before(self, name):
        """The contents before the command, of a copy: runs know where they were made."""
        if name not in self._contents:
            place = self.copy(name)
            self._contents[name] = contents(place)
            shutil.rmtree(place)
        return self._contents[name]

    def expected(self, name):
        """The contents after a command that nothing happened to."""
        if name not in self._expected:
            place = self.copy(name)
            began = time.monotonic()
            ended = ran(place, COMMANDS[name].arguments)
            self._seconds[name] = time.monotonic() - began
            assert ended.returncode == 0, ended.stderr
            self._expected[name] = contents(place)
            shutil.rmtree(place)
        return self._expected[name]

    def seconds(self, name):
        """How long the command took then."""
        self.expected(name)
        return self._seconds[name]


_TIMINGS = re.compile(
    rb'"(seconds|images_per_second|loss_sum|seconds_within|within)": ?-?[0-9.e+-]+'
    # Of the tables of nonneg reproduce.
    rb'|"training_seconds": \{[^}]*\}|(?<="step_ms": \{)\s*"value": [0-9.e+-]+'
    rb"|\| step, ms \|.*|training took [0-9.]+ minutes"
)


# Names that differ each time: they count, are drawn, or are digests of where and when files lie.
_NAMES = re.compile(
    r"part-[0-9]+(?=[/\"])|(?<=beside-)[0-9a-f]{16}(?=-)|(?<=drawn-rows/)[0-9a-f]{32}"
)


def contents(folder):
    """The digest of each file below a folder, without how long things took; no locks."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and path.name != ".nonneg.lock" and "checkpoints" not in path.parts:
            content = path.read_bytes()
            if path.suffix == ".npz":  # the archive has the time of its writing in it
                with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
                    content = b"".join(archive.read(name) for name in archive.namelist())
            content = _TIMINGS.sub(b"", content).replace(os.fsencode(Path(folder).resolve()), b".")
            name = path.relative_to(folder).as_posix()
            if path.name in ("index.json", "run.json"):
                content = _NAMES.sub("…", content.decode()).encode()
            found[_NAMES.sub("…", name)] = hashlib.sha256(content).hexdigest()
    return found
