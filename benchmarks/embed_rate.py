"""Rows a second and core when many parquet files are embedded by a fitted run.

Vectors of 384 numbers around 2,000 centres lie in files; a run is fitted to them as
``nonneg fit`` does. Measured are the head alone, with vectors in memory, and ``embed_fragments``
with reading and writing; in processor seconds of one thread, which other programs on the machine
disturb little. With an encoder, texts are embedded too: the short requests of CLINC150 and the
abstracts of Cranfield, as far as ``benchmarks.embedding_vectors`` has left them.

    python -m benchmarks.embed_rate [--rows 1000000] [--file-rows 125000] [--encoder FOLDER]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.embedding_sets import VARIABLE, prepared
from benchmarks.embedding_speed import N_CENTRES, N_NUMBERS, planted
from nonneg.interchange.arrow import features_of_arrow
from nonneg.runs import (
    VectorFiles,
    arrow_features,
    drawn_file,
    embed_fragments,
    fit_run,
    vector_experiment,
)
from nonneg.runs.run_model import RunModel
from nonneg.texts import TextEncoder

N_IN_MEMORY = 125_000
N_TEXTS = 256
TEXTS = {"short requests": "clinc150_train_texts.json", "abstracts": "cranfield_corpus_texts.json"}
BILLION = 1_000_000_000
_PEAK = (
    "import resource, subprocess, sys; "
    "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--file-rows", type=int, default=125_000)
    parser.add_argument("--encoder", help="the folder of a sentence-transformers model")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        measure_vectors(Path(folder), chosen.rows, chosen.file_rows)
    if chosen.encoder:
        measure_texts(chosen.encoder)


def measure_vectors(folder: Path, n_rows: int, file_rows: int) -> None:
    """Fit, then embed with and without files."""
    write_files(folder / "in", n_rows, file_rows)
    drawn, seconds = timed(lambda: drawn_file(folder / "in", out=folder / "run"))
    told("rows drawn for the fit", drawn.origin.n_rows, seconds)
    files = VectorFiles.at(vectors=drawn.path, drawn=drawn.origin)
    run, seconds = timed(lambda: fit_run(vector_experiment(files)[0], out=folder / "run"))
    ncl = run.ncl.set_params(sparse_output=True)
    print(
        f"fit: {seconds:.0f} s of processor time; {ncl.encoder_.n_features:,} features, "
        f"{run.active_per_sample:.1f} active"
    )
    X, _ = planted(N_IN_MEMORY, N_CENTRES, seed=1)
    ncl.transform(X[:1000])
    told("the head alone, vectors in memory", len(X), timed(lambda: ncl.transform(X))[1])
    arrow = import_module("pyarrow")
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(X.ravel()), N_NUMBERS)
    features = arrow_features(folder / "run")
    batches = arrow.table({"vector": lists}).to_batches(max_chunksize=8192)
    features(batches[0], range(8192))
    _, seconds = timed(lambda: list(features.each(batches, first=0)))
    told("Arrow batches to Arrow batches", len(X), seconds)
    done, seconds = timed(
        lambda: embed_fragments(folder / "run", folder / "in", out=folder / "out")
    )
    told("embed: files to files", done.n_rows, seconds)
    size = sum(path.stat().st_size for path in (folder / "out").iterdir())
    print(f"{size / done.n_rows:.0f} bytes per row written")
    for source, what in (("in/part-0000.parquet", "one file"), ("in/*.parquet", "all files")):
        print(f"peak of memory of nonneg embed, {what}: {peak_of_command(folder, source)} MiB")
    check(folder, ncl.encoder_.n_features)


def check(folder: Path, n_features: int) -> None:
    """What was written is what ``transform`` gives."""
    table = import_module("pyarrow.parquet").read_table(folder / "out" / "part-0000.parquet")
    _, Z = features_of_arrow(table.slice(0, 1000), n_features)
    of_file, _ = planted(1000, N_CENTRES, seed=10)
    expected: Any = RunModel(folder / "run").of_vectors(of_file)
    assert abs(Z - expected).max() < 1e-4


def write_files(folder: Path, n_rows: int, file_rows: int) -> None:
    """The vectors, one row group per file: the hardest for memory."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    folder.mkdir()
    for number, start in enumerate(range(0, n_rows, file_rows)):
        X = np.concatenate(
            [
                planted(1000, N_CENTRES, seed=10 + number)[0],
                planted(min(file_rows, n_rows - start) - 1000, N_CENTRES, seed=1000 + number)[0],
            ]
        )
        lists = arrow.FixedSizeListArray.from_arrays(arrow.array(X.ravel()), N_NUMBERS)
        path = folder / f"part-{number:04}.parquet"
        parquet.write_table(arrow.table({"vector": lists}), path, row_group_size=file_rows)


def measure_texts(encoder: str) -> None:
    """The encoder alone, beside which the head takes nothing."""
    if VARIABLE not in os.environ:
        print(f"texts: left out, since {VARIABLE} names no folder of prepared vectors")
        return
    model = TextEncoder(encoder)
    model.encode(["a first text loads the model"])
    for title, name in TEXTS.items():
        texts = json.loads((prepared() / name).read_text())[:N_TEXTS]
        n_words = np.mean([len(text.split()) for text in texts])
        parts = [texts[start : start + 256] for start in range(0, len(texts), 256)]

        def encode(parts: list[list[str]] = parts) -> None:
            for part in parts:
                model.encode(part)

        told(f"{title}, {n_words:.0f} words each", len(texts), timed(encode)[1])


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its seconds of processor time, of this process."""
    began = time.process_time()
    found = call()
    return found, time.process_time() - began


def told(what: str, n_rows: int, seconds: float) -> None:
    """Print a rate, and how long a billion rows take at it."""
    rate = n_rows / seconds
    hours = BILLION / rate / 3600
    print(
        f"{what}: {rate:,.0f} rows a second and core; 1,000 M rows take {hours:,.1f} core hours",
        flush=True,
    )


def peak_of_command(folder: Path, source: str) -> int:
    """Of the memory of a process that embeds files, in MiB."""
    out = f"out-{source.count('*')}"
    uri = f"{(folder / 'in').as_uri()}{source.removeprefix('in')}"
    command = [sys.executable, "-m", "nonneg", "embed", "run", uri, "--out", out]
    # A child counts the memory of the process that starts it, so a small one has to.
    started = [sys.executable, "-S", "-c", _PEAK, *command]
    return int(subprocess.run(started, cwd=folder, check=True, capture_output=True).stdout)


if __name__ == "__main__":
    main()
