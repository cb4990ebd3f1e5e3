"""The runs of the benchmarks of embeddings: measured once, and kept one per line of a file.

A run is one method on one part of one set with one seed. It is written as soon as it ends, so that
a benchmark that was stopped goes on where it was, and it counts only for the code and the vectors
that it was made with.
"""

import hashlib
import json
import sys
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nonneg
from benchmarks.embedding_figures import Figures, figures
from benchmarks.embedding_peers import METHODS, Size
from benchmarks.embedding_sets import SETS, Labelled, Search, missing, read_set

FILE = "embedding_runs.jsonl"
_PACKAGE = Path(nonneg.__file__).parent
_HERE = Path(__file__).parent
# What a run depends on: NCL on the whole package, its peers on little of it.
_SOURCES: dict[str, tuple[Path, ...]] = {
    "dense": (_PACKAGE / "metrics", _HERE / "embedding_figures.py"),
    "ncl": (_PACKAGE, _HERE / "embedding_figures.py"),
    "peer": (
        _PACKAGE / "metrics",
        *(
            _HERE / f"{name}.py"
            for name in (
                "embedding_figures",
                "embedding_peers",
                "sparse_autoencoders",
                "contrastive_autoencoder",
            )
        ),
    ),
}


class Run(NamedTuple):
    """What identifies a run."""

    set_name: str
    part: str
    method: str
    seed: int
    code: str
    data: str
    size: Size | None
    """Of a peer; None for the others."""

    @property
    def key(self) -> str:
        """The run in one line of text."""
        return json.dumps(self)


# The figures of each seed, or why there are none.
Measured = list[Figures] | str


class Store:
    """Finished runs in a file of JSON lines.

    A last line that a killed process left unfinished is passed over, and its run measured again.

    Args:
        path: The file; made with the first run.
        is_fresh: Whether runs that are there already are measured again.
    """

    def __init__(self, path: Path, *, is_fresh: bool = False) -> None:
        self.path = path
        self._found: dict[str, Figures] = {}
        if is_fresh or not path.exists():
            return
        for line in path.read_text().splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            self._found[record["key"]] = record["figures"]

    def find(self, run: Run) -> Figures | None:
        """The figures of a run, or None if it was not measured."""
        return self._found.get(run.key)

    def keep(self, run: Run, found: Figures) -> None:
        """Append the figures of a run."""
        line = json.dumps({**run._asdict(), "figures": found, "key": run.key})
        content = self.path.read_bytes()[-1:] if self.path.exists() else b""
        with self.path.open("a") as file:
            file.write(("\n" if content not in (b"", b"\n") else "") + line + "\n")
        self._found[run.key] = found


class Plan(NamedTuple):
    """What is measured.

    Args:
        part: ``"validation"`` or ``"test"``.
        sets: Keys of ``SETS``.
        methods: Keys of ``METHODS``.
        seeds: Of methods that are seeded; the others have the first only.
        measures: Whether runs that are missing are made, or only those that are there are read.
    """

    part: str
    sets: Sequence[str]
    methods: Sequence[str]
    seeds: Sequence[int]
    measures: bool = True


def measure(plan: Plan, store: Store) -> dict[str, dict[str, Measured]]:
    """For each set the runs of each method, or why there are none."""
    found: dict[str, dict[str, Measured]] = {}
    for name in plan.sets:
        reason = missing(SETS[name].files)
        if reason is not None:
            found[name] = dict.fromkeys(["dense", *plan.methods], reason)
            continue
        found[name] = _measure_set(name, plan, store)
    return found


def _measure_set(name: str, plan: Plan, store: Store) -> dict[str, Measured]:
    data = read_set(name, plan.part)
    # The size of peers is that of NCL, and everything is read beside the vectors themselves.
    needed = ["dense", *(["ncl"] if _has_peers(plan.methods) else ())]
    found: dict[str, Measured] = {}
    for method in dict.fromkeys([*needed, *plan.methods]):
        size = size_of(found["ncl"]) if METHODS[method].group == "peer" else None
        found[method] = _measure_method(name, method, data, size, plan, store)
    return found


def _measure_method(
    name: str,
    method: str,
    data: Labelled | Search,
    size: Size | None,
    plan: Plan,
    store: Store,
) -> Measured:
    chosen = METHODS[method]
    if chosen.group == "peer" and size is None:
        return "NCL was not measured, whose size it has"
    found, reason = [], ""
    for seed in plan.seeds if chosen.is_seeded else plan.seeds[:1]:
        code = source_digest(_SOURCES[chosen.group])
        run = Run(name, plan.part, method, seed, code, data_digest(data), size)
        known = store.find(run)
        if known is None:
            reason = "not measured" if not plan.measures else chosen.why_not() or ""
            if reason:
                continue
            X = data.train if isinstance(data, Labelled) else data.corpus
            try:
                made = chosen.make(size or Size(0, 0), seed)(X, data.queries)
            except ValueError as error:  # a peer may not stand the size or the vectors
                reason = f"fails: {error}"
                continue
            known = figures(made, data)
            store.keep(run, known)
            _report(run, known)
        found.append(known)
    return found or reason


def size_of(runs: Measured) -> Size | None:
    """How many features NCL has, and how many are active, on average over seeds; None without."""
    if isinstance(runs, str):
        return None
    active, n_features = (np.mean([run[key] for run in runs]) for key in ("active", "n_features"))
    return Size(max(1, round(active)), round(n_features))


def data_digest(data: Labelled | Search) -> str:
    """A short name of the vectors and of what is right about them."""
    digest = 0
    for value in data:
        content = value if isinstance(value, np.ndarray) else json.dumps(value).encode()
        digest = zlib.crc32(np.ascontiguousarray(content) if value is content else content, digest)
    return f"{digest:08x}"


@cache
def source_digest(places: Iterable[Path]) -> str:
    """A short name of the code in files and folders, which changes with it."""
    digest = hashlib.sha256()
    for place in places:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(place.parent).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _has_peers(methods: Iterable[str]) -> bool:
    return any(METHODS[method].group == "peer" for method in methods)


def _report(run: Run, found: dict[str, Any]) -> None:
    shown = ", ".join(
        f"{key} {value:.4g}" for key, value in found.items() if isinstance(value, int | float)
    )
    what = f"{run.set_name}, {run.part}, {run.method}, seed {run.seed}"
    print(f"{what}: {shown}", file=sys.stderr, flush=True)
