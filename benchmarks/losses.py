"""Speed and memory of exact InfoNCE: ours beside the plain forms.

All compute NT-Xent forward and backward, float32, 256 features. Speed: the forms take turns, and
the median of the ratios counts, so that a busy machine slows all of them. Memory: each form runs
once in a fresh process, and its peak is read from the system (Linux). Threshold: the library's
textbook form beside its tiles, in processor time, for batches of many sizes; where tiles begin to
be faster, ``TILED_FROM`` is right.

    python -m benchmarks.losses [speed-512] [speed-4096] [speed-16384] [memory] [growth]
    python -m benchmarks.losses [threshold-128] [threshold-512] [threshold-1024] [threshold-4096]
"""

import importlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg import info_nce
from nonneg.losses.info_nce import NEGATIVES, anchor_losses, scaled_pairs, textbook_info_nce

TEMPERATURE = 0.2
N_FEATURES = 256
N_TURNS = {512: 40, 4096: 5, 16384: 3}
# It compares every pair with every pair of rows: cubic in their number, in time and memory.
LARGEST_FOR_METRIC_LEARNING = 512
GROWTH = [2**power for power in range(10, 17)]
LARGEST_FULL_MATRIX = 16384
THRESHOLD_ROWS = [256, 512, 1024, 2048, 4096, 8192]
THRESHOLD_FEATURES = [128, 512, 1024, 4096]
# How long each size is measured; at least one turn.
THRESHOLD_SECONDS = 3.0
PLOT = Path(__file__).parents[1] / "docs" / "images" / "info-nce-cost.png"

Form = Callable[[Tensor, Tensor], Tensor]


def ours(a: Tensor, b: Tensor) -> Tensor:
    """The library's loss."""
    return info_nce(a, b, temperature=TEMPERATURE)


def cross_entropy(a: Tensor, b: Tensor) -> Tensor:
    """The textbook: cross entropy on the full matrix."""
    z = F.normalize(torch.cat([a, b]))
    itself = torch.eye(len(z), dtype=torch.bool)
    logits = ((z @ z.T) / TEMPERATURE).masked_fill(itself, -math.inf)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(a)))


def mask_and_exp(a: Tensor, b: Tensor) -> Tensor:
    """The common form: exponentials of the full matrix, times masks of partners and negatives."""
    z = F.normalize(torch.cat([a, b]))
    pair = torch.arange(len(a)).repeat(2)
    similar = torch.exp(z @ z.T / TEMPERATURE)
    same = pair[:, None] == pair
    is_partner, is_negative = same & ~torch.eye(len(z), dtype=torch.bool), ~same
    partners = (similar * is_partner).sum(1)
    negatives = (similar * is_negative).sum(1)
    return -(partners / (partners + negatives)).log().mean()


def mask_and_select(a: Tensor, b: Tensor) -> Tensor:
    """Another common form: exponentials, of which all but the diagonal are selected by a mask."""
    a, b = F.normalize(a), F.normalize(b)
    z = torch.cat([a, b])
    similar = torch.exp(z @ z.T / TEMPERATURE)
    mask = (torch.ones_like(similar) - torch.eye(len(z))).bool()
    others = similar.masked_select(mask).view(len(z), -1)
    partners = torch.exp((a * b).sum(1) / TEMPERATURE).repeat(2)
    return -(partners / others.sum(1)).log().mean()


FORMS: dict[str, Form] = {
    "nonneg": ours,
    "cross_entropy": cross_entropy,
    "mask and exp": mask_and_exp,
    "mask and select": mask_and_select,
}


def speed(n_rows: int) -> dict[str, float]:
    """How many times faster ours is than each other form, and the rates of multiplication."""
    seconds = _seconds(n_rows, FORMS, N_TURNS[n_rows])
    found = _ratios(seconds)
    rival = _metric_learning()
    if rival is not None and n_rows <= LARGEST_FOR_METRIC_LEARNING:
        # Apart from the others, whose memory it would push out of the cache.
        forms = {"nonneg": ours, "pytorch-metric-learning": rival}
        found |= _ratios(_seconds(n_rows, forms, 3))
    each = statistics.median(seconds["nonneg"])
    found["ms"] = 1000 * each
    # What the full matrix needs: one product forwards, two backwards.
    found["GFLOP/s, counted as the full matrix"] = 6e-9 * n_rows**2 * N_FEATURES / each
    found["GFLOP/s of a matrix product"] = 1e-9 / statistics.median(seconds["a product"])
    return found


def memory(*, n_rows: int = 16384) -> dict[str, float]:
    """Peak extra memory in MB of each form, and ours as a share of cross entropy's."""
    peaks = {name: _fresh_process(name, n_rows)["peak_mb"] for name in FORMS}
    found = {f"{n_rows} rows: MB, {name}": peak for name, peak in peaks.items()}
    share = peaks["nonneg"] / peaks["cross_entropy"]
    return found | {f"{n_rows} rows: share of cross_entropy": share}


def growth() -> dict[str, float]:
    """Seconds and peak MB against the number of rows; also as a plot."""
    found: dict[str, float] = {}
    figure, (times, memories) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name in ("nonneg", "cross_entropy"):
        sizes = [n for n in GROWTH if name == "nonneg" or n <= LARGEST_FULL_MATRIX]
        runs = [_fresh_process(name, n) for n in sizes]
        times.plot(sizes, [run["seconds"] for run in runs], marker="o", label=name)
        memories.plot(sizes, [run["peak_mb"] for run in runs], marker="o", label=name)
        for n, run in zip(sizes, runs, strict=True):
            found[f"{n} rows: s, {name}"] = run["seconds"]
            found[f"{n} rows: MB, {name}"] = run["peak_mb"]
    for axes, label in ((times, "seconds"), (memories, "peak extra memory, MB")):
        axes.set(xscale="log", yscale="log", xlabel="rows (two views)", ylabel=label)
        axes.set_xticks(GROWTH, [f"{n // 1024}k" for n in GROWTH], minor=False)
        axes.minorticks_off()
        axes.grid(visible=True, alpha=0.3)
    times.legend()
    figure.suptitle("InfoNCE forward and backward, float32, 256 features")
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, dpi=120)
    plt.close(figure)
    return found


def threshold(n_features: int) -> dict[str, float]:
    """How many times the processor time of tiles the textbook form takes."""
    found: dict[str, float] = {}
    for negatives in NEGATIVES:
        for n_rows in THRESHOLD_ROWS:
            views = _views(n_rows if negatives == "both" else 2 * n_rows, n_features)
            ratios = _textbook_over_tiles(views, negatives)
            found[f"{negatives}, {n_rows} rows"] = statistics.median(ratios)
    return found


def _textbook_over_tiles(views: tuple[Tensor, Tensor], negatives: str) -> list[float]:
    forms: dict[str, Form] = {
        "textbook": lambda a, b: textbook_info_nce(a, b, TEMPERATURE, negatives),
        "tiles": partial(_tiled, negatives=negatives),
    }
    for form in forms.values():  # what is loaded on first use
        _step(form, _views(512))
    ratios: list[float] = []
    began = time.perf_counter()
    while not ratios or time.perf_counter() - began < THRESHOLD_SECONDS:
        seconds = {}
        for name, form in forms.items():
            start = time.process_time()
            _step(form, views)
            seconds[name] = time.process_time() - start
        ratios.append(seconds["textbook"] / seconds["tiles"])
    return ratios


def _tiled(a: Tensor, b: Tensor, *, negatives: str) -> Tensor:
    """What the library does with large batches, for batches of any size."""
    module = importlib.import_module("nonneg.losses.info_nce")
    with patch.object(module, "TILED_FROM", 0):
        pairs = scaled_pairs(a, b, temperature=TEMPERATURE)
        return anchor_losses(pairs, pairs, negatives=negatives, same_group="ignored").mean()


def measure(*names: str) -> dict[str, dict[str, float]]:
    """The figures of the named benchmarks, or of all but the thresholds."""
    return {name: BENCHMARKS[name]() for name in names or USUAL}


def _views(n_rows: int, n_features: int = N_FEATURES) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(2, n_rows // 2, n_features, generator=generator).relu()
    return views[0].clone().requires_grad_(), views[1].clone().requires_grad_()


def _step(form: Form, views: tuple[Tensor, Tensor]) -> None:
    for view in views:
        view.grad = None
    form(*views).backward()


def _seconds(n_rows: int, forms: dict[str, Form], n_turns: int) -> dict[str, list[float]]:
    """Seconds of each turn of each form, and seconds per FLOP of a large matrix product."""
    views = _views(n_rows)
    left, right = torch.rand(2048, N_FEATURES), torch.rand(N_FEATURES, 2048)
    steps: dict[str, Callable[[], object]] = {
        name: (lambda form=form: _step(form, views)) for name, form in forms.items()
    }
    steps["a product"] = lambda: left @ right
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for turn in range(-1, n_turns):
        # Whoever comes after a form that fills the cache pays for it: each in its turn.
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            step = steps[name]
            began = time.perf_counter()
            step()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - began)
    n_flops = 2 * 2048 * 2048 * N_FEATURES
    seconds["a product"] = [each / n_flops for each in seconds["a product"]]
    return seconds


def _ratios(seconds: dict[str, list[float]]) -> dict[str, float]:
    return {
        f"times as fast as {name}": statistics.median(
            other / our for our, other in zip(seconds["nonneg"], theirs, strict=True)
        )
        for name, theirs in seconds.items()
        if name not in ("nonneg", "a product")
    }


def _metric_learning() -> Form | None:
    try:
        losses = importlib.import_module("pytorch_metric_learning.losses")
    except (ImportError, RuntimeError, OSError):
        return None
    loss = losses.NTXentLoss(temperature=TEMPERATURE)
    return lambda a, b: loss(torch.cat([a, b]), torch.arange(len(a)).repeat(2))


def _fresh_process(name: str, n_rows: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.losses", "--one", name, str(n_rows)]
    # Freed blocks of a MB or more go back to the system: the peak is of what was in use at once.
    settings = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**20)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=settings)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _one(name: str, n_rows: int) -> dict[str, float]:
    """Seconds and peak extra memory of one step; the inputs are there before."""
    views = _views(n_rows)
    _step(FORMS[name], _views(512))  # what is loaded on first use
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    before = pages * resource.getpagesize()
    began = time.perf_counter()
    _step(FORMS[name], views)
    seconds = time.perf_counter() - began
    # Not ru_maxrss: a new process takes over the peak of the one that started it.
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return {"seconds": seconds, "peak_mb": (peak - before) / 1e6}


USUAL: dict[str, Callable[[], dict[str, float]]] = {
    **{f"speed-{n_rows}": partial(speed, n_rows) for n_rows in N_TURNS},
    "memory": memory,
    "growth": growth,
}
# These take long, and are needed only where the choice of a form is in question.
BENCHMARKS = USUAL | {f"threshold-{d}": partial(threshold, d) for d in THRESHOLD_FEATURES}
MEANINGS = {
    "speed-512": "512 rows (wanted: at least 0.91 × cross_entropy)",
    "speed-4096": "4,096 rows (wanted: at least 2.5 × cross_entropy)",
    "speed-16384": "16,384 rows (wanted: at least 3 × cross_entropy, 5 × mask and exp)",
    "memory": "wanted: at most 0.05 of cross_entropy",
    "growth": "seconds and peak extra MB of one step",
    **{
        f"threshold-{d}": f"{d} features: processor time of the textbook form over that of tiles"
        for d in THRESHOLD_FEATURES
    },
}


def main() -> None:
    """Print what was measured."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(_one(sys.argv[2], int(sys.argv[3]))))
        return
    print(f"{N_FEATURES} features, {torch.get_num_threads()} threads")
    for name in sys.argv[1:] or USUAL:
        print(f"{name}: {MEANINGS[name]}")
        for case, value in BENCHMARKS[name]().items():
            print(f"  {case:44s} {value:10.3f}", flush=True)


if __name__ == "__main__":
    main()
