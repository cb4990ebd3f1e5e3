"""Two processes against two threads: the same training on the same two cores, both ways.

Each way is a whole ``nonneg train`` of the fashion-mnist preset on images of noise; speed is what
its history says of the last epoch. The share of the loss in a step is measured beside.

    python -m benchmarks.processes
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from nonneg import info_nce
from nonneg.runs import build_encoder, read_experiment
from nonneg.training import read_history
from nonneg.training.optimizers import optimizer

N_IMAGES = 5120
SETTINGS = [
    "data.held_out=512",
    "training.epochs=2",
    "training.warmup_epochs=1",
    "training.reinit_at=0",
    "training.keep_angles=false",
    "training.max_on_rate=1",
    "encoder.projector.n_features=2048",
    "loss.backbone_weight=0",
]
WAYS = {
    "one process, two threads": ([sys.executable, "-m"], "2"),
    "two processes, one thread each": (
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m"],
        "1",
    ),
}


def measure() -> dict[str, float]:
    """Images a second of each way, and the loss's share of a step of one process."""
    with tempfile.TemporaryDirectory() as folder:
        images = np.random.default_rng(0).integers(0, 256, (N_IMAGES, 28, 28), dtype=np.uint8)
        np.save(Path(folder) / "noise.npy", images)
        speeds = {way: _speed(way, Path(folder)) for way in WAYS}
    first, second = speeds.values()
    return {**speeds, "two processes : two threads": second / first, "loss share": _loss_share()}


def _speed(way: str, folder: Path) -> float:
    start, n_threads = WAYS[way]
    settings = [*SETTINGS, f"data.name={folder / 'noise.npy'}"]
    out = folder / way.replace(" ", "-")
    command = [*start, "nonneg", "train", "fashion-mnist", "--out", str(out)]
    command += [part for setting in settings for part in ("--set", setting)]
    environment = {**os.environ, "OMP_NUM_THREADS": n_threads}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return float(read_history(out)[-1]["images_per_second"])


def _loss_share(n_steps: int = 8) -> float:
    """Forward and backward of the loss alone, over the whole step on ready tensors."""
    _, experiment = read_experiment("fashion-mnist")
    encoder = build_encoder(experiment, (1, 28, 28)).train()
    stepper = optimizer(encoder, experiment.optimizer)
    views = torch.rand(2 * experiment.training.batch_size, 1, 28, 28)
    loss_seconds = whole = 0.0
    for _ in range(n_steps):
        began = time.perf_counter()
        features = encoder(views).features
        before = time.perf_counter()
        loss = info_nce(*features.chunk(2), temperature=experiment.loss.temperature)
        (slope,) = torch.autograd.grad(loss, features, retain_graph=True)
        loss_seconds += time.perf_counter() - before
        features.backward(slope)
        stepper.step()
        stepper.zero_grad()
        whole += time.perf_counter() - began
    return loss_seconds / whole


def main() -> None:
    """Print what was measured."""
    for name, value in measure().items():
        print(f"{name}: {value:,.2f}")


if __name__ == "__main__":
    main()
