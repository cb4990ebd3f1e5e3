"""How does training go? One loop: batches, their gradients, a step; saved so that it can resume."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from nonneg.data import Data, check
from nonneg.data.arrays import Samples, as_data
from nonneg.encoder import Encoder
from nonneg.pairs import Pairs
from nonneg.run_lock import locked
from nonneg.training.contrastive import Contrastive
from nonneg.training.loggers import loggers
from nonneg.training.momentum import MomentumQueue
from nonneg.training.order import check_batch
from nonneg.training.processes import launched_fabric
from nonneg.training.run import Run, run_identity
from nonneg.training.run_folder import RunFolder
from nonneg.training.settings import TrainConfig
from nonneg.training.task import Task


@dataclass(frozen=True)
class TrainResult:
    """What a call of ``train`` leaves behind."""

    folder: Path
    history: list[dict[str, Any]]
    """A record for each finished epoch."""
    interrupted_by: str | None
    """The signal that ended the run early; None for a finished run."""
    is_new: bool = True
    """False where the same run was there already, finished."""


def train(
    encoder: Encoder,
    data: Samples,
    pairs: Pairs,
    config: TrainConfig,
    *,
    out: str | Path,
    held_out: Samples | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> TrainResult:
    """Train an encoder in place, and leave it with its history in a run folder.

    The folder gets ``run.json`` (settings), ``history.jsonl`` (a line an epoch), ``checkpoints``
    (the last two), and at the end ``config.json`` and ``model.safetensors``: the encoder.

    Args:
        encoder: What learns. With the identity as its transform, this is ordinary CL.
        data: To learn from: a data set, or bare samples ``(n, *sample_shape)``. Labels are only
            measured, and learnt from by the supervised contrastive loss alone.
        pairs: Which two views belong together.
        config: Loss, optimiser, schedule and machine.
        out: The run folder. One that holds another run is refused.
        held_out: Measured after each epoch; a draw of the training data where absent.
        resume: Continue from the last checkpoint; starts at the beginning if there is none.
        console: Where progress is shown; standard output by default.
    """
    if not isinstance(config, TrainConfig):
        raise TypeError(
            f"config must be a TrainConfig, got {type(config).__name__}; make one with "
            "nonneg.TrainConfig.read"
        )
    samples = as_data(data)
    measured = samples if held_out is None else as_data(held_out)
    encoder.check_shape(measured.sample_shape)  # views of the others may have another shape
    return run_task(
        contrastive_task(encoder, pairs, config, labels=samples.labels),
        samples,
        config,
        out=out,
        held_out=None if held_out is None else measured,
        resume=resume,
        console=console,
    )


def contrastive_task(
    encoder: Encoder, pairs: Pairs, config: TrainConfig, *, labels: Tensor | None = None
) -> Contrastive:
    """How an encoder learns from pairs with the loss of the settings.

    Args:
        encoder: What learns.
        pairs: Which two views belong together.
        config: Its ``loss`` says how.
        labels: Of all training samples ``(n,)``, where there are some.
    """
    if config.loss.name == "queue":
        return MomentumQueue(encoder, pairs, config)
    return Contrastive(encoder, pairs, config, labels=labels)


def run_task(
    task: Task,
    data: Data,
    config: TrainConfig,
    *,
    out: str | Path,
    held_out: Data | None = None,
    resume: bool = False,
    console: Console | None = None,
    data_digest: str | None = None,
) -> TrainResult:
    """Train whatever a task says, in place, and leave it with its history in a run folder.

    Args:
        task: What learns, and how.
        data: To learn from.
        config: Optimiser, schedule and machine.
        out: The run folder.
        held_out: Measured after each epoch; a draw of the training data where absent.
        resume: Continue from the last checkpoint.
        console: Where progress is shown.
        data_digest: Of the file that the data comes from, to be kept with the run.

    Raises:
        BlockingIOError: If another process is writing to the folder.
    """
    fabric = launched_fabric(config.training)
    check_batch(len(data), config.training, n_ranks=fabric.world_size)
    check(data)
    if held_out is not None:
        check(held_out)
    folder = RunFolder(out)
    # Of several processes only the first one writes.
    with locked(folder.path) if fabric.is_global_zero else nullcontext():
        made = []
        if fabric.is_global_zero:
            # Before the folder is claimed: what cannot be logged to leaves nothing behind.
            made = loggers(config.training.loggers, folder.path)
            identity = run_identity(task, data, config)
            folder.claim(identity, resume=resume, data_digest=data_digest)
        fabric.barrier()
        run = Run(
            fabric,
            task,
            data,
            config,
            folder=folder,
            held_out=held_out or data,
            console=console or Console(),
            loggers=made,
        )
        # Layers that draw, such as dropout, use torch's own generator, which is given back after.
        devices = [fabric.device] if fabric.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), run.interruption, run.display:
            run.take_up()
            while run.position.epoch < config.training.epochs:
                if not _train_epoch(run):
                    break
                run.end_epoch()
            else:
                run.finish()
    is_finished = run.position.epoch == config.training.epochs
    return TrainResult(
        folder.path,
        run.position.history,
        interrupted_by=None if is_finished else run.interruption.signal_name,
    )


def _train_epoch(run: Run) -> bool:
    """Train on what is left of the running epoch; False if the run was asked to stop."""
    run.task.module.train()
    run.seed_layers()  # before anything is fetched: data may draw too
    began = time.perf_counter()
    for batch in run.batches_left():
        run.seed_layers()
        step_is_due = (run.position.batch + 1) % run.loop.accumulate == 0
        with run.fabric.no_backward_sync(run.model, enabled=not step_is_due):
            loss = run.task.learn(batch, run)
        if run.count(loss):
            _step(run)
            if run.end_step(began):
                return False
            began = time.perf_counter()
    return True


def _step(run: Run) -> None:
    for group in run.optimizer.param_groups:
        group["lr"] = run.learning_rate(run.position.step)
    if run.loop.clip_norm is not None:
        run.fabric.clip_gradients(run.model, run.fabric_optimizer, max_norm=run.loop.clip_norm)
    run.fabric_optimizer.step()
    run.fabric_optimizer.zero_grad(set_to_none=True)
