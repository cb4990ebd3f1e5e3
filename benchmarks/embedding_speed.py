"""The speed of NCL against version 0.1.0, side by side in one run.

Both versions fit the same 15,000 vectors of 384 numbers and transform single rows, in processes of
their own that take turns; 0.1.0 is read from the history of this repository. With ``--million``,
NCL also fits a million planted vectors, whose neighbours must be found again by the features.

    python -m benchmarks.embedding_speed [--threads 1] [--repeats 3] [--million [new|both]]
"""

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parent.parent
# The last commit of version 0.1.0.
OLD_COMMIT = "4dc6d4c"
N_NUMBERS = 384
N_CENTRES = 2000
# Length of the noise as a multiple of a centre's: more, and the vectors lose neighbours too.
NOISE = 1.5
N_ROW_CALLS = 300
N_SEARCHES = 1000
_TILE_ROWS = 20_000
BARS = {
    "fit of 15,000 × 384": (0.6, 0.35),
    "transform of one row": (0.5, None),
    "fit of 1,000,000 × 384": (0.25, None),
}

Vectors = NDArray[np.float32]
Measured = dict[str, float]


def planted(n_samples: int, n_centres: int, seed: int) -> tuple[Vectors, NDArray[np.int64]]:
    """Unit vectors ``(n_samples, 384)`` around random centres, and the number of each one's centre.

    The centres are the same for every seed.
    """
    centres = np.random.default_rng(0).standard_normal((n_centres, N_NUMBERS), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    rng = np.random.default_rng(seed + 1)
    groups = rng.integers(n_centres, size=n_samples)
    X = np.empty((n_samples, N_NUMBERS), dtype=np.float32)
    for start in range(0, n_samples, _TILE_ROWS):
        here = slice(start, start + _TILE_ROWS)
        noise = rng.standard_normal(X[here].shape, dtype=np.float32)
        X[here] = centres[groups[here]] + noise * np.float32(NOISE / N_NUMBERS**0.5)
        X[here] /= np.linalg.norm(X[here], axis=1, keepdims=True)
    return X, groups


def measure(n_threads: int, n_repeats: int, *, n_samples: int = 15_000) -> dict[str, Any]:
    """Seconds of both versions, in turns: medians over repeats.

    Raises:
        RuntimeError: The history of the repository is not there.
    """
    with tempfile.TemporaryDirectory() as folder:
        sources = {"old": _old_source(Path(folder)), "new": ROOT / "src"}
        found: dict[str, list[Measured]] = {"old": [], "new": []}
        for _ in range(n_repeats):
            for version, source in sources.items():
                found[version].append(_child(source, n_threads, "fit", n_samples))
                _report(f"{version}, {n_samples:,} rows", found[version][-1])
    return {
        version: {key: median(run[key] for run in runs) for key in runs[0]}
        for version, runs in found.items()
    }


def measure_million(
    n_threads: int, versions: str, *, n_samples: int = 1_000_000, n_centres: int = N_CENTRES
) -> dict[str, Any]:
    """Time, memory and retrieval of a fit of a million vectors, of one version or of both."""
    with tempfile.TemporaryDirectory() as folder:
        sources = {"new": ROOT / "src"}
        if versions == "both":
            sources["old"] = _old_source(Path(folder))
        found = {}
        for version, source in sources.items():
            found[version] = _child(source, n_threads, "million", n_samples, n_centres)
            _report(f"{version}, {n_samples:,} rows", found[version])
    return found


def section() -> str:
    """The ratios as a table of Markdown, or why there are none."""
    try:
        return table(measure(1, 3), 1)
    except RuntimeError as error:
        return f"Skipped: {error}."


def table(measured: dict[str, Any], n_threads: int) -> str:
    """Both versions, their ratio, and whether it is below its bar."""
    names = {"fit of 15,000 × 384": "fit", "transform of one row": "row"}
    lines = [
        f"| {n_threads} thread{'s' * (n_threads > 1)} | 0.1.0 | now | ratio | bar |",
        "| --- | --- | --- | --- | --- |",
    ]
    for title, key in names.items():
        old, new = measured["old"][key], measured["new"][key]
        lines.append(f"| {title} | {_time(old)} | {_time(new)} | {_ratio(title, new / old)} |")
    return "\n".join(
        [
            *lines,
            "",
            "CPU seconds of a fit of MiniLM's vectors of CLINC150's requests, or of planted ones "
            "where those are not there; wall time of one row. Medians of processes in turns.",
        ]
    )


def million_table(measured: dict[str, Any]) -> str:
    """Time, memory and retrieval of a million vectors."""
    lines = [
        "| 1,000,000 × 384, planted | fit, CPU s | peak memory, GiB | P@10 of vectors | P@10 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for version, run in measured.items():
        name = {"old": "0.1.0", "new": "now"}[version]
        cells = [f"{run['fit']:.0f}", f"{run['peak']:.2f}", f"{run['dense_p10']:.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} | {run['p10']:.3f} |")
    new = measured["new"]
    bars = [
        _bar("peak memory ≤ 6 GiB", new["peak"] <= 6),
        _bar("P@10 ≥ 0.95", new["p10"] >= 0.95),
    ]
    if "old" in measured:
        title = "fit of 1,000,000 × 384"
        bars.append("time " + _ratio(title, new["fit"] / measured["old"]["fit"]).replace(" |", ","))
    return "\n".join([*lines, "", "; ".join(bars) + "."])


def _ratio(title: str, ratio: float) -> str:
    bar, aim = BARS[title]
    aimed = "" if aim is None else f", aim {aim:.2f} {'reached' if ratio <= aim else 'not reached'}"
    return f"{ratio:.2f} | {_bar(f'≤ {bar:.2f}', ratio <= bar)}{aimed}"


def _bar(text: str, is_held: bool) -> str:
    return f"{text} held" if is_held else f"**{text} missed**"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.2f} ms"


def _old_source(folder: Path) -> Path:
    """The sources of version 0.1.0, unpacked into a folder."""
    command = ["git", "-C", str(ROOT), "archive", OLD_COMMIT, "src"]
    packed = subprocess.run(command, capture_output=True, check=False)
    if packed.returncode:
        raise RuntimeError(
            f"version 0.1.0 is commit {OLD_COMMIT}, which needs git and the whole history: "
            f"{packed.stderr.decode().strip()}"
        )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def _child(source: Path, n_threads: int, *arguments: str | int) -> Measured:
    """What a process of its own measures with the package of some folder."""
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {
        **os.environ,
        **dict.fromkeys(names, str(n_threads)),
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT), *filter(None, inherited)]),
    }
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.embedding_speed", "--child"]
    command += [str(argument) for argument in [source, *arguments]]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _in_child(source: str, task: str, *sizes: str) -> Measured:
    import nonneg

    assert Path(nonneg.__file__).is_relative_to(source), nonneg.__file__
    return {"fit": _fit_and_rows, "million": _million}[task](*map(int, sizes))


def _fit_and_rows(n_samples: int) -> Measured:
    from nonneg import NCL

    X = _requests(n_samples)
    NCL(max_steps=2, random_state=0).fit(X[:600])  # what is loaded with the first fit
    began = time.process_time()
    ncl = NCL(random_state=0).fit(X)
    seconds = time.process_time() - began
    row, calls = X[:1], []
    for _ in range(N_ROW_CALLS):
        began = time.perf_counter()
        ncl.transform(row)
        calls.append(time.perf_counter() - began)
    return {"fit": seconds, "row": median(calls)}


def _requests(n_samples: int) -> Vectors:
    folder = os.environ.get("NONNEG_EMBEDDINGS")
    path = None if folder is None else Path(folder) / "clinc150_train.npy"
    if path is not None and path.exists():
        vectors: Vectors = np.load(path)[:n_samples]
        if len(vectors) == n_samples:
            return vectors
    return planted(n_samples, 150, 0)[0]


def _million(n_samples: int, n_centres: int) -> Measured:
    from nonneg import NCL

    X, groups = planted(n_samples, n_centres, 0)
    queries, asked = planted(N_SEARCHES, n_centres, 1)
    began = time.process_time()
    ncl = NCL(random_state=0).fit(X)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    features = ncl.transform(queries)
    tiles = [slice(start, start + _TILE_ROWS) for start in range(0, n_samples, _TILE_ROWS)]
    found = {
        "p10": _nearest(features, (ncl.transform(X[here]) for here in tiles)),
        "dense_p10": _nearest(queries, (X[here] for here in tiles)),
    }
    right = {key: float((groups[rows] == asked[:, None]).mean()) for key, rows in found.items()}
    return {"fit": seconds, "peak": peak, **right}


def _nearest(queries: Vectors, tiles: Any) -> NDArray[np.int64]:  # noqa: ANN401
    """The ten rows of largest cosine with each query, of a gallery that comes in tiles."""
    queries = _unit(queries)
    best = np.full((len(queries), 10), -np.inf, dtype=np.float32)
    rows = np.zeros((len(queries), 10), dtype=np.int64)
    start = 0
    for tile in tiles:
        cosine = np.hstack([best, queries @ _unit(tile).T])
        numbers = np.hstack(
            [rows, np.broadcast_to(np.arange(start, start + len(tile)), (len(queries), len(tile)))]
        )
        kept = np.argpartition(-cosine, 9, axis=1)[:, :10]
        best, rows = (np.take_along_axis(array, kept, axis=1) for array in (cosine, numbers))
        start += len(tile)
    return rows


def _unit(rows: Vectors) -> Vectors:
    lengths: Vectors = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths, np.finfo(np.float32).tiny)


def _report(what: str, found: Measured) -> None:
    shown = ", ".join(f"{key} {value:.4g}" for key, value in found.items())
    print(f"{what}: {shown}", file=sys.stderr, flush=True)


def main() -> None:
    """Print the tables."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_in_child(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedding_speed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--million", nargs="?", const="new", choices=["new", "both"], help="a million vectors only"
    )
    given = parser.parse_args()
    try:
        if given.million:
            print(million_table(measure_million(given.threads, given.million)))
        else:
            print(table(measure(given.threads, given.repeats), given.threads))
    except RuntimeError as error:
        sys.exit(f"skipped: {error}")


if __name__ == "__main__":
    main()
