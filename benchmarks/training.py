"""What does the loop cost besides the network? Whole runs against bare steps on ready tensors.

A run fetches images, makes views, encodes, steps, measures, logs and saves checkpoints; the bare
steps are the same encoder, loss and optimiser on tensors that are already there. Both are timed in
turn, so that a busy machine slows both, and medians are taken.

    python -m benchmarks.training
"""

import statistics
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from nonneg import info_nce, train
from nonneg.data import ArrayData
from nonneg.experiments import Experiment, build_encoder, build_pairs, read_experiment
from nonneg.training.optimizers import optimizer

PRESETS = {"fashion-mnist": (1, 28, 28), "cifar10-small": (3, 32, 32)}
# About an epoch of fashion-mnist, half a one of cifar10-small: what comes once an epoch counts.
N_STEPS = 40


def measure(*, repeats: int = 2) -> dict[str, dict[str, float]]:
    """For each preset, images a second of whole runs and of bare steps, NCL and CL.

    Args:
        repeats: Interleaved runs of which the median is taken.
    """
    return {name: _measure(name, shape, repeats) for name, shape in PRESETS.items()}


def _measure(name: str, shape: tuple[int, ...], repeats: int) -> dict[str, float]:
    _, experiment = read_experiment(
        name, ["training.epochs=1", "training.warmup_epochs=0", "data.n_train=2"]
    )
    batch_size = experiment.training.batch_size
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (N_STEPS * batch_size, *shape), generator=generator)
    data = ArrayData(pixels.byte(), labels=torch.arange(len(pixels)) % 10, name=name)
    timings: dict[str, list[float]] = {"loop": [], "bare": [], "bare_signed": []}
    import_module("lightning_fabric")  # which takes seconds, once
    for _ in range(repeats):
        timings["loop"].append(_loop(experiment, data))
        timings["bare"].append(_bare(experiment, shape))
        timings["bare_signed"].append(_bare(experiment.signed(), shape))
    seconds = {key: statistics.median(values) for key, values in timings.items()}
    n_images = N_STEPS * batch_size
    return {
        "loop_images_per_second": n_images / seconds["loop"],
        "bare_images_per_second": n_images / seconds["bare"],
        "loop_over_bare": seconds["bare"] / seconds["loop"],
        "ncl_over_cl_step_time": seconds["bare"] / seconds["bare_signed"],
    }


def _loop(experiment: Experiment, data: ArrayData) -> float:
    encoder, pairs = build_encoder(experiment, data.sample_shape), build_pairs(experiment, data)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        train(
            encoder, data, pairs, experiment, out=Path(folder) / "run", console=Console(quiet=True)
        )
        return time.perf_counter() - began


def _bare(experiment: Experiment, shape: tuple[int, ...]) -> float:
    encoder = build_encoder(experiment, shape).train()
    stepper = optimizer(encoder, experiment.optimizer)
    views = torch.rand(2 * experiment.training.batch_size, *shape)
    began = time.perf_counter()
    for _ in range(N_STEPS):
        features = encoder(views).features
        loss = info_nce(*features.chunk(2), temperature=experiment.loss.temperature)
        loss.backward()
        stepper.step()
        stepper.zero_grad()
    return time.perf_counter() - began


def rows(measured: dict[str, dict[str, float]]) -> list[list[Any]]:
    """What was measured, as the rows of a table."""
    return [
        [
            name,
            f"{result['loop_images_per_second']:,.0f}",
            f"{result['bare_images_per_second']:,.0f}",
            f"{result['loop_over_bare']:.2f}",
            f"{result['ncl_over_cl_step_time']:.2f}",
        ]
        for name, result in measured.items()
    ]


def main() -> None:
    """Print what was measured."""
    print("preset, images/s of the loop, of bare steps, loop : bare, step time NCL : CL")
    for row in rows(measure()):
        print("  ", *row)


if __name__ == "__main__":
    main()
