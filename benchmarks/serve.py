"""``nonneg serve`` under 200 concurrent clients, beside the bare encoder on the same texts.

    python -m benchmarks.serve --encoder FOLDER [--threads 1 2] [--rounds 3] [--seconds 20]

One run: requests of CLINC150 come with the package, with vectors of all-MiniLM-L6-v2, which FOLDER
has to be. The encoder alone and the server take turns, some seconds each, so that whatever else the
machine does concerns both. Server, clients and the encoder alone share the machine's cores; the
encoder has as many threads in the server as alone. Each client sends one text after the other on a
connection of its own; texts are those of the run in another order for each client.
"""

import argparse
import asyncio
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from nonneg.runs import fit_run, text_files
from nonneg.runs.vector_fits import vector_experiment
from nonneg.texts import TextEncoder

VARIABLE = "NONNEG_MINILM"
N_CLIENTS = 200
_PER_CALL = 512


class Figures(NamedTuple):
    """What one number of threads gave; rates are medians over rounds."""

    threads: int
    bare: float
    """Texts per second of the encoder alone."""
    served: float
    """Requests per second, of one text each."""
    p50: float
    """Seconds from a request to its answer, over all rounds."""
    p99: float
    n_requests: int
    n_errors: int
    cpu: float
    """Processor time per text of the encoder alone, by that of the server."""


def prepared(folder: Path, encoder: str) -> tuple[Path, list[str]]:
    """A run on the requests that come with the package, and these requests."""
    shipped = files("nonneg.data") / "clinc150"
    run = folder / "requests"
    with as_file(shipped / "requests.csv") as table, as_file(shipped / "vectors.npz") as vectors:
        found = text_files(
            table, out=run, text="text", label="intent", vectors=vectors, encoder=encoder
        )
        experiment, machine = vector_experiment(found)
        fit_run(experiment, out=run, machine=machine)
        with table.open(newline="", encoding="utf-8") as file:
            texts = [row["text"] for row in csv.DictReader(file)]
    return run, texts


@contextmanager
def server(run: Path, encoder: str, threads: int) -> Iterator[tuple[str, int]]:
    """Host and port of a server that runs meanwhile."""
    command = [sys.executable, "-m", "nonneg", "serve", str(run), "--encoder", encoder]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "COLUMNS": "300"}
    process = subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://([\d.]+):(\d+)/", process.stdout.readline())
        if found is None:
            raise RuntimeError("the server did not start")
        yield found[1], int(found[2])
    finally:
        process.terminate()
        process.wait(60)


def bare_rate(encoder: TextEncoder, texts: list[str], seconds: float) -> tuple[float, float]:
    """Texts per second, and processor seconds per text, of the encoder alone."""
    started, cpu, n_done = time.perf_counter(), time.process_time(), 0
    supply = cycle(texts)
    while (elapsed := time.perf_counter() - started) < seconds:
        n_done += len(encoder.encode(list(islice(supply, _PER_CALL))))
    elapsed = time.perf_counter() - started
    return n_done / elapsed, (time.process_time() - cpu) / n_done


async def served_times(
    host: str, port: int, texts: list[str], seconds: float
) -> tuple[list[float], int]:
    """Seconds of each request of all clients, and how many were not answered with 200."""
    end = time.perf_counter() + seconds
    times: list[float] = []
    n_errors = 0

    async def client(number: int) -> None:
        nonlocal n_errors
        order = np.random.default_rng(number).permutation(len(texts))
        reader, writer = await asyncio.open_connection(host, port)
        for place in cycle(order.tolist()):
            body = json.dumps({"inputs": texts[place]}).encode()
            head = f"POST /embed_sparse HTTP/1.1\r\nhost: {host}\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            sent = time.perf_counter()
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
            assert length is not None
            await reader.readexactly(int(length[1]))
            times.append(time.perf_counter() - sent)
            n_errors += not answer.startswith(b"HTTP/1.1 200 ")
            if time.perf_counter() > end:
                break
        writer.close()

    done = await asyncio.gather(*map(client, range(N_CLIENTS)), return_exceptions=True)
    return times, n_errors + sum(isinstance(each, BaseException) for each in done)


def _server_cpu(host: str, port: int) -> float:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as said:
        found = re.search(r"^process_cpu_seconds_total ([\d.]+)", said.read().decode(), re.M)
    assert found is not None
    return float(found[1])


def measure(encoder: str, threads: int, *, rounds: int = 3, seconds: float = 20) -> Figures:
    """The encoder alone and the server in turn."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        run, texts = prepared(Path(folder), encoder)
        alone = TextEncoder(encoder)
        bare, served, times, cpus = [], [], [], []
        n_errors = 0
        with server(run, encoder, threads) as (host, port):
            bare_rate(alone, texts, 2)
            asyncio.run(served_times(host, port, texts, 2))
            for number in range(rounds):
                rate, cpu = bare_rate(alone, texts, seconds / 2)
                bare.append(rate)
                before, started = _server_cpu(host, port), time.perf_counter()
                found, n_wrong = asyncio.run(served_times(host, port, texts, seconds))
                served.append(len(found) / (time.perf_counter() - started))
                cpus.append(cpu / ((_server_cpu(host, port) - before) / len(found)))
                times += found
                n_errors += n_wrong
                said = f"{threads} threads, round {number + 1}: bare {rate:.0f} texts/s, served "
                print(f"{said}{served[-1]:.0f} requests/s", file=sys.stderr, flush=True)
    p50, p99 = np.percentile(times, [50, 99])
    return Figures(
        threads, median(bare), median(served), p50, p99, len(times), n_errors, median(cpus)
    )


def table(measured: list[Figures]) -> str:
    """The figures of each number of threads."""
    lines = [
        "| threads of the encoder | encoder alone, texts/s | served, requests/s | served : alone "
        "| p50 | p99 | requests | errors | processor time, alone : served |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.threads} | {f.bare:,.0f} | {f.served:,.0f} | {f.served / f.bare:.2f} "
        f"| {f.p50:.2f} s | {f.p99:.2f} s | {f.n_requests:,} | {f.n_errors} | {f.cpu:.2f} |"
        for f in measured
    ]
    return "\n".join(lines)


def section() -> str:
    """For ``benchmarks/results.md``; without the model it says what is missing."""
    encoder = os.environ.get(VARIABLE)
    if encoder is None:
        return f"Not measured: set {VARIABLE} to the folder of all-MiniLM-L6-v2."
    measured = [measure(encoder, threads) for threads in (1, 2)]
    return (
        f"{N_CLIENTS} clients for a minute, one text per request, sharing "
        f"{os.cpu_count()} cores with the server.\n\n{table(measured)}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default=os.environ.get(VARIABLE))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    if given.encoder is None:
        sys.exit(f"give --encoder, or set {VARIABLE}, to the folder of all-MiniLM-L6-v2")
    how = {"rounds": given.rounds, "seconds": given.seconds}
    print(table([measure(given.encoder, threads, **how) for threads in given.threads]))


if __name__ == "__main__":
    main()
