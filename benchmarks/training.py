"""The cost of the training loop besides the network: whole runs against bare steps.

A run fetches images, makes views, encodes, steps, measures, logs and saves checkpoints; the bare
steps are the same encoder, loss and optimiser on tensors that are already there. A bare step of NCL
and one of CL are taken beside every step of the run, so that a busy machine slows all three alike.

    python -m benchmarks.training
"""

import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from nonneg import info_nce, train
from nonneg.data import ArrayData
from nonneg.pairs import Batch
from nonneg.runs import Experiment, build_encoder, build_pairs, read_experiment
from nonneg.training.optimizers import optimizer

PRESETS = {"fashion-mnist": (1, 28, 28), "cifar10-small": (3, 32, 32)}
# An epoch of either: what comes once an epoch counts.
N_IMAGES = 20_480


def measure() -> dict[str, dict[str, float]]:
    """For each preset, images a second of a whole run and of bare steps, NCL and CL."""
    return {name: _measure(name, shape) for name, shape in PRESETS.items()}


def _measure(name: str, shape: tuple[int, ...]) -> dict[str, float]:
    # Features are looked at a few times a run, however short: not what an epoch costs. The bare
    # steps have the loss of the features alone, and so has the run.
    changes = [
        "training.epochs=1",
        "training.warmup_epochs=0",
        "training.revive=false",
        "training.reinit_at=0",
        "training.keep_angles=false",
        "training.max_on_rate=1",
        "encoder.projector.n_features=2048",
        "loss.backbone_weight=0",
    ]
    _, experiment = read_experiment(name, changes)
    pixels = torch.randint(0, 256, (N_IMAGES, *shape), generator=torch.Generator().manual_seed(0))
    data = ArrayData(pixels.byte(), labels=torch.arange(N_IMAGES) % 10, name=name)
    bare = {
        "ncl": _bare_step(experiment, shape),
        "cl": _bare_step(experiment.signed(), shape),
    }
    seconds = dict.fromkeys(bare, 0.0)
    views = build_pairs(experiment, data)

    def beside_bare_steps(batch: Batch) -> tuple[Tensor, Tensor]:
        for method, step in bare.items():
            began = time.perf_counter()
            step()
            seconds[method] += time.perf_counter() - began
        return views(batch)

    import_module("lightning_fabric")  # which takes seconds, once
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        train(
            build_encoder(experiment, shape),
            data,
            beside_bare_steps,
            experiment,
            out=Path(folder) / "run",
            console=Console(quiet=True),
        )
        loop = time.perf_counter() - began - sum(seconds.values())
    return {
        "loop_images_per_second": N_IMAGES / loop,
        "bare_images_per_second": N_IMAGES / seconds["ncl"],
        "loop_over_bare": seconds["ncl"] / loop,
        "ncl_over_cl_step_time": seconds["ncl"] / seconds["cl"],
    }


def _bare_step(experiment: Experiment, shape: tuple[int, ...]) -> Callable[[], None]:
    encoder = build_encoder(experiment, shape).train()
    stepper = optimizer(encoder, experiment.optimizer)
    views = torch.rand(2 * experiment.training.batch_size, *shape)

    def step() -> None:
        features = encoder(views).features
        loss = info_nce(*features.chunk(2), temperature=experiment.loss.temperature)
        loss.backward()
        stepper.step()
        stepper.zero_grad()

    return step


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
