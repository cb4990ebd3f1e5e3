"""The trainer: a loop that can be killed and resumed."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from nonneg.data.checking import check
from nonneg.data.dataset import Data
from nonneg.io import clear_leftovers
from nonneg.pairs.protocol import Batch
from nonneg.training.batches import check_batch, epoch_batches, loaded_batches
from nonneg.training.checkpoint import Position, load_checkpoint, save_checkpoint
from nonneg.training.display import Display, Interruption, log, loggers
from nonneg.training.monitor import monitored
from nonneg.training.optimizers import learning_rate_factor, optimizer
from nonneg.training.processes import launched_fabric
from nonneg.training.run_folder import RunFolder, locked
from nonneg.training.settings import TrainConfig
from nonneg.training.task import Task, Upkeep, run_identity
from nonneg.training.upkeep import (
    finalise_features,
    idle_bounds,
    is_finalised,
    n_looked_at,
    restart_features,
    restarts,
)

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.loggers.logger import Logger

# Processes have to agree on stopping, which costs a message: so not at every step.
STEPS_BETWEEN_AGREEMENTS = 16


class Run:
    """One training run: its position, and how it is saved, measured and shown.

    Args:
        fabric: The processes and devices.
        task: What learns, and how; moved to the device.
        data: To learn from.
        config: All settings.
        folder: Already claimed.
        held_out: Measured after each epoch.
        console: Where progress is shown.
        loggers: Where history goes besides the folder.
    """

    def __init__(
        self,
        fabric: "Fabric",
        task: Task,
        data: Data,
        config: TrainConfig,
        *,
        folder: RunFolder,
        held_out: Data,
        console: Console,
        loggers: "list[Logger]",
    ) -> None:
        self.fabric, self.task, self.data = fabric, task, data
        self.config, self.loop, self.folder = config, config.training, folder
        self.optimizer = optimizer(task.module, config.optimizer)
        # A compiled module is a module too, whatever its type says.
        learning: Any = torch.compile(task.module) if self.loop.compile else task.module
        self.model, self.fabric_optimizer = fabric.setup(learning, self.optimizer)
        self.watched = monitored(held_out, self.loop.monitor_samples)
        self.interruption = Interruption()
        self.position = Position()
        self.loss_sum = self._on_device(0.0)
        self.steps_per_epoch = len(data) // (self.loop.batch_size * self.loop.accumulate)
        self.n_steps = self.steps_per_epoch * self.loop.epochs
        self.upkeep = task.upkeep
        self.restarts = restarts(self.upkeep, self.n_steps, self.loop.reinit_at)
        self.loggers = loggers
        self.display = Display(
            console if fabric.is_global_zero else Console(quiet=True),
            title=folder.path.name,
            n_steps=self.n_steps,
            n_epochs=self.loop.epochs,
        )

    def take_up(self) -> None:
        """Go to the last checkpoint; a run without one saves its initial state."""
        if self.fabric.is_global_zero:
            clear_leftovers(self.folder.checkpoints)
        found = load_checkpoint(
            self.folder.checkpoints, self.task.module, self.optimizer, say=self.display.say
        )
        # All have looked before the first one writes, or some would find what was not there.
        self.fabric.barrier()
        if found is None:
            if said := idle_bounds(self.upkeep, self.loop):
                self.display.say(said)
            self.save()
            return
        self.position, self.loss_sum = found, self._on_device(found.loss_sum)
        if self.fabric.is_global_zero:
            self.folder.write_history(found.history)
        self.display.say(
            f"resuming {self.folder.path} at step {found.step} of {self.n_steps} "
            f"({found.epoch} of {self.loop.epochs} epochs done)"
        )

    def batches_left(self) -> Iterator[Batch]:
        """The batches of the running epoch that have not been trained on."""
        epoch = self.position.epoch
        batches = epoch_batches(
            len(self.data),
            self.loop.batch_size,
            seed=self.config.seed,
            epoch=epoch,
            rank=self.fabric.global_rank,
            n_ranks=self.fabric.world_size,
        )
        # Batches that are too few for one more step are left out of the epoch.
        last = self.steps_per_epoch * self.loop.accumulate
        return loaded_batches(
            self.data,
            self.task.prepare,
            batches[self.position.batch : last],
            seed=self.config.seed,
            epoch=epoch,
            n_workers=self.loop.n_workers,
            device=self.fabric.device,
        )

    def forward(self, inputs: Tensor, **options: Any) -> Any:  # noqa: ANN401
        """What the module gives for some inputs and options."""
        before = torch.get_default_dtype()
        if self.loop.precision == "64-true":
            # Fabric gives outputs in the default type, and would cut float64 to float32.
            torch.set_default_dtype(torch.float64)
        try:
            return self.model(inputs, **options)
        finally:
            torch.set_default_dtype(before)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss, as its share of a step."""
        self.fabric.backward(loss / self.loop.accumulate)

    def of_this_process(self) -> AbstractContextManager[None]:
        """Forward and backward passes within it are not averaged over processes yet."""
        return self.fabric.no_backward_sync(self.model)

    def seed_layers(self) -> None:
        """Make the draws of layers such as dropout depend on seed, batch and process alone.

        A resumed run then draws what an uninterrupted one would have drawn.
        """
        per_epoch = self.steps_per_epoch * self.loop.accumulate
        number = self.position.epoch * per_epoch + self.position.batch
        words = np.random.SeedSequence([self.config.seed, number, self.fabric.global_rank])
        seed = int(words.generate_state(1, np.uint64)[0])
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type != "cpu":
            getattr(torch, self.fabric.device.type).manual_seed(seed)

    def learning_rate(self, step: int) -> float:
        """Of a step, counted from 0."""
        return self.config.optimizer.lr * learning_rate_factor(
            step,
            n_warmup=self.loop.warmup_epochs * self.steps_per_epoch,
            n_steps=self.n_steps,
        )

    def count(self, loss: Tensor) -> bool:
        """Note the loss of a batch; True where a step is due."""
        self.loss_sum += loss.detach()
        self.position.batch += 1
        return self.position.batch % self.loop.accumulate == 0

    def end_step(self, began: float) -> bool:
        """Show and save what is due; True if the run has been asked to stop."""
        self.position.step += 1
        self.position.seconds += time.perf_counter() - began
        if self.fabric.device.type == "cpu" or self.position.step % 10 == 0:
            self.display.step(
                step=self.position.step,
                loss=self.mean_loss(),
                samples_per_second=self._samples_per_second(),
            )
        if self.upkeep is not None:
            self._keep_up(self.upkeep)
        if self.loop.monitor_every and self.position.step % self.loop.monitor_every == 0:
            self._measure_within()
        every = self.loop.checkpoint_every
        asked = self._asked_to_stop()
        if asked or (every and self.position.step % every == 0):
            self.save()
        return asked

    def end_epoch(self) -> None:
        """Measure, record and save a finished epoch."""
        position, loss = self.position, self.mean_loss()
        record: dict[str, Any] = {
            "epoch": position.epoch + 1,
            "step": position.step,
            "loss": loss,
            "learning_rate": self.learning_rate(position.step - 1),
            **self._measured(loss),
            "seconds": position.seconds,
            # The name under which histories have always had it; samples need not be images.
            "images_per_second": self._samples_per_second(),
        }
        if position.within:
            record["within"] = position.within
        self._watch(record)
        history = [*position.history, record]
        self.position = Position(step=position.step, epoch=record["epoch"], history=history)
        self.loss_sum = self._on_device(0.0)
        self.display.epoch(record)
        log(self.loggers, record)
        if self.fabric.is_global_zero:
            self.folder.write_history(history)
        self.save()

    def _measure_within(self) -> None:
        """Record figures in the middle of an epoch; training is not affected."""
        measured = self._measured(self.mean_loss())
        self.position.within.append({"step": self.position.step, **measured})

    def _measured(self, loss: float) -> dict[str, Any]:
        try:
            return self.task.measured(loss, *self.watched)
        except FloatingPointError as error:
            raise self._diverged(str(error)) from error

    def _keep_up(self, upkeep: Upkeep) -> None:
        """Re-initialise features, or finalise them after the last step, where that is due."""
        decides, n_processes = self.fabric.is_global_zero, self.fabric.world_size
        which = self.restarts.get(self.position.step)
        if which == "all" or (which == "dead" and self.loop.revive):
            restart_features(
                upkeep,
                self._looked_at(upkeep.encoders[0].n_features if which == "all" else 0),
                self.optimizer,
                which=which,
                seed=self.config.seed * 1_000_003 + self.position.step,
                decides=decides,
                n_processes=n_processes,
            )
        if self.position.step == self.n_steps and is_finalised(self.loop):
            finalise_features(
                upkeep,
                self._looked_at(),
                self.loop,
                decides=decides,
                n_processes=n_processes,
            )

    def _looked_at(self, n_restarted: int = 0) -> Iterator[Batch]:
        """Some batches of the running epoch, the same in every process."""
        numbers = epoch_batches(
            len(self.data), self.loop.batch_size, seed=self.config.seed, epoch=self.position.epoch
        )
        return loaded_batches(
            self.data,
            self.task.prepare,
            numbers[: n_looked_at(self.loop.batch_size, n_restarted=n_restarted)],
            seed=self.config.seed,
            epoch=self.position.epoch,
            n_workers=0,
            device=self.fabric.device,
        )

    def finish(self) -> None:
        """Save the encoder that came out."""
        if self.fabric.is_global_zero:
            self.task.save(self.folder.path)
        self.fabric.barrier()

    def save(self) -> None:
        """Write a checkpoint of the present state."""
        self.position.loss_sum = float(self.loss_sum)
        if self.fabric.is_global_zero:
            save_checkpoint(
                self.folder.checkpoints, self.task.module, self.optimizer, self.position
            )
        self.fabric.barrier()

    def mean_loss(self) -> float:
        """Of the running epoch so far.

        Raises:
            FloatingPointError: If it is not finite: going on would only destroy the weights.
        """
        loss = float(self.loss_sum) / self.position.batch
        if not math.isfinite(loss):
            raise self._diverged(f"the loss is {loss}")
        return loss

    def _diverged(self, what: str) -> FloatingPointError:
        return FloatingPointError(
            f"training diverged: {what} by step {self.position.step}; lower optimizer.lr "
            f"({self.config.optimizer.lr:g}) or set training.clip_norm=1"
        )

    def _watch(self, record: dict[str, Any]) -> None:
        """Warn once of a collapse, after the warm-up."""
        spoken = any("warning" in earlier for earlier in self.position.history)
        if spoken or record["epoch"] <= self.loop.warmup_epochs + 1:
            return
        if warning := self.task.warning(record):
            record["warning"] = warning
            self.display.say(f"warning: {warning}")

    def _asked_to_stop(self) -> bool:
        asked = self.interruption.signal_name is not None
        if self.fabric.world_size == 1:
            return asked
        if self.position.step % STEPS_BETWEEN_AGREEMENTS:
            return False
        votes = self._on_device(float(asked))
        torch.distributed.all_reduce(votes)
        return bool(votes > 0)

    def _samples_per_second(self) -> float:
        return self.position.batch * self.loop.batch_size / max(self.position.seconds, 1e-9)

    def _on_device(self, value: float) -> Tensor:
        # Apple's devices have no float64.
        dtype = torch.float32 if self.fabric.device.type == "mps" else torch.float64
        return torch.tensor(value, dtype=dtype, device=self.fabric.device)


@dataclass(frozen=True)
class TrainResult:
    """The result of ``train``."""

    folder: Path
    history: list[dict[str, Any]]
    """A record for each finished epoch."""
    interrupted_by: str | None
    """The signal that ended the run early; None for a finished run."""
    is_new: bool = True
    """False where the same run had been finished before."""


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
    """Train the module of a task in place, and save it with its history in a run folder.

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
