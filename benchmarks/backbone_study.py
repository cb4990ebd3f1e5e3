"""The study of features that teach the backbone: CL and NCL, arm by arm, on held-out images.

    python -m benchmarks.backbone_study            # goes on where it stopped, in the order of ARMS
    python -m benchmarks.backbone_study --table    # what is there so far, also in docs/history
    python -m benchmarks.backbone_study --arm "cifar10-small NCL, MLP" --seeds 1

Every measured epoch of a run is a line of ``results/studies/backbone.jsonl``. Runs are kept in
``runs/backbone-study`` with their checkpoints, so that a killed one goes on. Figures are of images
held out of the training set: the test set is not read.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from benchmarks.studies import Record, append, as_markdown, between_marks, folder_name, read
from nonneg import metrics
from nonneg.data.dataset import Data
from nonneg.encoder import Encoder
from nonneg.evaluation.few_labels import few_label_probe
from nonneg.evaluation.probe.linear import fitted_probe
from nonneg.evaluation.subject import features_of_views, some_data
from nonneg.losses.distributed import centred
from nonneg.pairs.protocol import Batch, Pairs
from nonneg.runs.experiment import build_encoder, build_pairs, read_experiment, training_data
from nonneg.training.contrastive import Contrastive
from nonneg.training.objectives import objective
from nonneg.training.run_folder import RunFolder
from nonneg.training.settings import TrainConfig
from nonneg.training.task import Engine, Upkeep
from nonneg.training.trainer import Run, run_task
from nonneg.training.upkeep import finalise_features, is_finalised

RESULTS = Path(__file__).parents[1] / "results" / "studies" / "backbone.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "history" / "backbone.md"
RUNS = Path("runs/backbone-study")
N_SEPIN = 2000
TOP = 20

Course = Callable[[float], float]
"""A number by the share of the steps that are done."""


@dataclass(frozen=True)
class Arm:
    """A preset with changes; features teach the backbone, unless those say otherwise.

    Args:
        preset: What is changed.
        name: Within the preset.
        changes: As ``nonneg train --set`` takes them.
        signed: Whether it is CL.
        slope: Of the features below zero, by the share of the steps: 1 is signed, 0 is rectified.
        backbone_weight: Of the backbone's own loss, by the share of the steps. The backbone gets
            the features' gradient times one minus it; the projector gets all of it.
        measured: Epochs after which it is measured, besides the last.
        bounds: Of on-rates, least and most, as percentages: the trained features are finalised
            with each of them and measured. Empty: as the preset does.
    """

    preset: str
    name: str
    changes: tuple[str, ...] = ()
    signed: bool = False
    slope: Course | None = None
    backbone_weight: Course | None = None
    measured: tuple[int, ...] = ()
    bounds: tuple[tuple[int, int], ...] = ()

    @property
    def title(self) -> str:
        """What its lines are called."""
        return f"{self.preset} {self.name}"

    def ways(self) -> list[tuple[str, dict[str, Any]]]:
        """The bounds of on-rates with which it is finalised: a title and settings for each."""
        return [
            (
                f"{self.title}, on for {least} to {most} %",
                {"min_on_rate": least / 100, "max_on_rate": most / 100, "keep_angles": True},
            )
            for least, most in self.bounds
        ]

    @property
    def titles(self) -> list[str]:
        """What its lines are called, one for each way in which it is finalised."""
        return [title for title, _ in self.ways()] or [self.title]


class Studied(Contrastive):
    """Contrastive training with courses of slope and weight, measured at length at some epochs.

    Args:
        arm: What is trained.
        seed: Of the run, for the records.
        train: What probes learn from.
        held_out: What is measured.
        encoder: What learns.
        pairs: Which two views belong together.
        config: All settings of the training.
    """

    def __init__(
        self,
        arm: Arm,
        seed: int,
        train: Data,
        held_out: Data,
        *,
        encoder: Encoder,
        pairs: Pairs,
        config: TrainConfig,
    ) -> None:
        super().__init__(encoder, pairs, config)
        self.arm, self.seed, self.train, self.held_out = arm, seed, train, held_out
        self.run: Run | None = None
        self.cpu = time.process_time()

    def identity(self) -> dict[str, Any]:
        """That of the training, with the courses at some places."""
        places = [k / 12 for k in range(12)]
        courses = {"slope": self.arm.slope, "backbone_weight": self.arm.backbone_weight}
        drawn = {key: [f(x) for x in places] for key, f in courses.items() if f is not None}
        return {**super().identity(), "courses": drawn}

    def learn(self, batch: Batch, engine: Engine) -> Tensor:
        """Add the gradients of a batch; gives its loss, without gradient."""
        assert isinstance(engine, Run)
        self.run = engine
        arm = self.arm
        if arm.slope is None and arm.backbone_weight is None:
            return super().learn(batch, engine)
        done = engine.position.step / engine.n_steps
        slope = arm.slope(done) if arm.slope else 0.0
        weight = arm.backbone_weight(done) if arm.backbone_weight else 0.0
        views, compared = self._views(batch), objective(self.config.loss)
        hidden = self.encoder.hidden(views)
        read = hidden.detach() * weight + hidden * (1 - weight)
        scores = self.encoder.projector(read)
        features = self.encoder.nonnegative(scores)
        if slope:
            features = features + slope * scores.clamp_max(0)
        teacher = None
        if self.config.loss.name == "soft_info_nce":
            teacher = centred(hidden.detach())
        shown = compared(*features.chunk(2), teacher)
        loss = shown
        if weight:
            loss = loss + weight * compared(*centred(hidden).chunk(2), None)
        engine.backward(loss)
        return shown.detach()

    def measured(self, loss: float, inputs: Tensor, labels: Tensor | None) -> dict[str, Any]:
        """The usual figures; those of the study go to its file."""
        assert self.run is not None
        epoch, last = self.run.position.epoch + 1, self.config.training.epochs
        if epoch in self.arm.measured or epoch == last:
            self._study(epoch, loss, is_last=epoch == last)
        return super().measured(loss, inputs, labels)

    def _study(self, epoch: int, loss: float, *, is_last: bool) -> None:
        trained = time.process_time() - self.cpu
        for title, encoder in self._finalised(is_last=is_last):
            temperature = float(self.config.loss.temperature)
            record = {
                "arm": title,
                "seed": self.seed,
                "epoch": epoch,
                "epochs": self.config.training.epochs,
                "loss": loss,
                **figures(encoder, self.pairs, self.train, self.held_out, temperature=temperature),
                "core_seconds_training": round(trained, 1),
                "core_seconds": round(time.process_time() - self.cpu, 1),
            }
            # What follows is of the same training, whose time counts once.
            self.cpu, trained = time.process_time(), 0.0
            append(RESULTS, record)

    def _finalised(self, *, is_last: bool) -> Iterator[tuple[str, Encoder]]:
        """What is measured: the encoder as it would be if this epoch were the last."""
        assert self.run is not None
        loop = self.config.training
        if not self.arm.bounds and (is_last or not is_finalised(loop)):
            yield self.arm.title, self.encoder
            return
        ways = {self.arm.title: loop}
        if self.arm.bounds:
            ways = {title: loop.model_copy(update=rates) for title, rates in self.arm.ways()}
        for title, way in ways.items():
            encoder = deepcopy(self.encoder)
            finalise_features(
                Upkeep((encoder,), self._views),
                self.run._looked_at(),
                way,
                decides=True,
                n_processes=1,
            )
            yield title, encoder


def figures(
    encoder: Encoder, pairs: Pairs, train: Data, held_out: Data, *, temperature: float
) -> dict[str, float]:
    """All figures of the study of one encoder.

    Args:
        encoder: What is measured.
        pairs: Makes the views of SEPIN.
        train: What probes learn from.
        held_out: What is measured.
        temperature: Of SEPIN.
    """
    known, shown = encoder.encode(train), encoder.encode(held_out)
    y, labels = train.labels, held_out.labels
    assert y is not None
    assert labels is not None
    of_hidden = fitted_probe(known.hidden, y)
    of_features = fitted_probe(known.features, y)
    sparsity = metrics.sparsity(shown.features)
    purity = metrics.top_purity(shown.features, labels, TOP, n_permutations=1)
    n_quarter = max(1, round(sparsity.n_alive / 4))
    kept = metrics.select(known.features, n_quarter)
    some = some_data(held_out, N_SEPIN, seed=0)
    z_a, z_b = features_of_views(encoder, pairs, some, seed=0)
    few_labels = few_label_probe(
        known.hidden, y, shown.hidden, labels, label_rate=0.01, n_draws=5, seed=0
    )

    def precision(z: Tensor) -> float:
        return metrics.precision_at_k(z, labels, k=10).value

    n_features = sparsity.n_alive + sparsity.n_dead
    return {
        "probe_hidden": of_hidden.accuracy(shown.hidden, labels),
        "probe_features": of_features.accuracy(shown.features, labels),
        "few_labels_hidden": few_labels.value,
        "precision_features": precision(shown.features),
        "precision_hidden": precision(shown.hidden),
        "precision_quarter": precision(shown.features[:, kept]),
        "sparsity_alive": sparsity.value_alive,
        "alive_rate": sparsity.n_alive / n_features,
        "on_for_20_rate": purity.averaged_over / n_features,
        # As often as 20 of the 10,000 images of a test set.
        "on_for_10_rate": _on_for(shown.features, len(shown.features) // 500) / n_features,
        "top20_purity": purity.value,
        "impurity": 1 - purity.value,
        "sepin_1": metrics.sepin(z_a, z_b, temperature=temperature).at[1],
    }


def _on_for(features: Tensor, n: int) -> int:
    """How many features are on for at least so many samples."""
    return int((metrics.active_mask(features).sum(0) >= n).sum())


def lines() -> list[Record]:
    """The records so far; of a repeated epoch of a run the last."""
    return read(RESULTS, "arm", "seed", "epoch", "epochs")


def run_arm(arm: Arm, seed: int) -> bool:
    """Train an arm with a seed; False if it was interrupted."""
    name = arm.preset + ("-cl" if arm.signed else "")
    changes = ["loss.backbone_weight=0", *arm.changes, f"seed={seed}"]
    if arm.bounds:
        changes += ["training.keep_angles=false"]
        changes += ["training.min_on_rate=0", "training.max_on_rate=1"]
    _, experiment = read_experiment(name, changes)
    samples, held_out = training_data(experiment.data, None)
    assert held_out is not None
    encoder = build_encoder(experiment, samples.sample_shape)
    pairs = build_pairs(experiment, samples)
    task = Studied(arm, seed, samples, held_out, encoder=encoder, pairs=pairs, config=experiment)
    result = run_task(
        task,
        samples,
        experiment,
        out=folder_of(arm, seed),
        held_out=held_out,
        resume=True,
        console=Console(quiet=True),
    )
    return result.interrupted_by is None


def is_recorded(arm: Arm, seed: int) -> bool:
    """Whether the last epoch of a run is among the results, wherever it was trained."""
    found = {(r["arm"], r["seed"]) for r in lines() if r["epoch"] == r["epochs"]}
    return found >= {(title, seed) for title in arm.titles}


def folder_of(arm: Arm, seed: int) -> Path:
    """Where a run is, or will be."""
    return RUNS / folder_name(arm.title, seed)


def until(share: float) -> Course:
    """1 up to a share of the steps, 0 after it."""
    return lambda done: 1.0 if done < share else 0.0


def falling(start: float, *, until: float) -> Course:
    """From a number to 0, linearly, at a share of the steps; 0 after it."""
    return lambda done: start * max(0.0, 1 - done / until)


def constant(value: float) -> Course:
    """The same at all steps."""
    return lambda _: value


C, F = "cifar10-small", "fashion-mnist"
_MLP = ("encoder.projector.hidden=[1024]",)
_SOFT = ("loss=soft_info_nce",)
_SIXTY = ("training.epochs=60",)
_CURVE = (3, 6, 10, 20, 40)

_HALF = constant(0.5)

_WIDE = ("encoder.projector.n_features=8192",)
_BESIDE = (*_WIDE, "loss.backbone_weight=1")
_HUNDRED = ("data.name=cifar100",)
_BOUNDS = ((1, 7), (2, 7), (3, 6))


def _pair(
    preset: str, name: str, changes: tuple[str, ...], backbone_weight: Course | None = None
) -> tuple[Arm, Arm]:
    """CL and NCL with the same changes."""
    return (
        Arm(preset, f"CL, {name}", changes, signed=True, backbone_weight=backbone_weight),
        Arm(preset, f"NCL, {name}", changes, backbone_weight=backbone_weight, bounds=_BOUNDS),
    )


# Twice as many features, finalised in several ways; the third set is the part of CIFAR-100.
WIDE = tuple(
    arm
    for preset, where, changes in ((C, "", ()), (C, "100 classes, ", _HUNDRED), (F, "", ()))
    for pair in (
        _pair(preset, f"{where}8,192", (*changes, *_WIDE)),
        _pair(preset, f"{where}8,192, half of the loss", (*changes, *_WIDE), _HALF),
        _pair(preset, f"{where}8,192, beside the backbone", (*changes, *_BESIDE)),
    )
    for arm in pair
)

# In the order of promise; all of them with the first seed before any with the next.
ARMS = (
    Arm(C, "CL", signed=True),
    Arm(C, "NCL"),
    Arm(C, "NCL, signed for a third", slope=until(1 / 3)),
    Arm(C, "NCL, MLP", _MLP),
    Arm(C, "CL, MLP", _MLP, signed=True),
    Arm(C, "NCL, slope closes at 2/3", slope=falling(1.0, until=2 / 3)),
    Arm(C, "NCL, backbone's loss ends", backbone_weight=falling(1.0, until=1.0)),
    Arm(C, "CL, half of the loss the backbone's", signed=True, backbone_weight=_HALF),
    Arm(C, "NCL, half of the loss the backbone's", backbone_weight=_HALF),
    Arm(C, "NCL, soft targets", _SOFT),
    Arm(C, "NCL, rep_relu", ("encoder.nonnegative=rep_relu",)),
    Arm(F, "CL", signed=True),
    Arm(F, "NCL"),
    Arm(F, "NCL, signed for a third", slope=until(1 / 3)),
    Arm(F, "NCL, MLP", _MLP),
    Arm(F, "CL, MLP", _MLP, signed=True),
    Arm(F, "CL, half of the loss the backbone's", signed=True, backbone_weight=_HALF),
    Arm(F, "NCL, half of the loss the backbone's", backbone_weight=_HALF),
    *WIDE,
    Arm(C, "CL, 60 epochs", _SIXTY, signed=True, measured=_CURVE),
    Arm(C, "NCL, 60 epochs", _SIXTY, measured=_CURVE),
    Arm(F, "CL, 60 epochs", _SIXTY, signed=True, measured=_CURVE),
    Arm(F, "NCL, 60 epochs", _SIXTY, measured=_CURVE),
)


def main() -> None:
    """Train what is missing, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--table", action="store_true", help="print what is there so far, also to the page"
    )
    parser.add_argument("--arm", action="append", help="only this one; may be repeated")
    parser.add_argument("--seeds", default="0", help="such as 0,1,2")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.table:
        PAGE.write_text(with_table(PAGE.read_text()))
        print(table())
        return
    torch.set_num_threads(options.threads)
    chosen = [arm for arm in ARMS if not options.arm or arm.title in options.arm]
    if unknown := set(options.arm or ()) - {arm.title for arm in ARMS}:
        parser.error(f"no such arm: {', '.join(sorted(unknown))}")
    for seed in map(int, options.seeds.split(",")):
        for arm in chosen:
            if is_recorded(arm, seed) or RunFolder(folder_of(arm, seed)).is_finished:
                continue
            began = time.time()
            print(f"{time.strftime('%H:%M:%S')} {arm.title}, seed {seed}", flush=True)
            if not run_arm(arm, seed):
                return
            print(f"  {time.time() - began:.0f} s", flush=True)


_SHOWN = {
    "probe_hidden": "probe, backbone",
    "probe_features": "probe, features",
    "probe_features_10k": "…, of 10,000",
    "few_labels_hidden": "1 % of labels",
    "precision_hidden": "precision@10, backbone",
    "precision_features": "precision@10, features",
    "precision_quarter": "a quarter",
    "sparsity_alive": "sparsity",
    "alive_rate": "alive",
    "on_for_20_rate": "on for 20",
    "on_for_10_rate": "on for 10",
    "top20_purity": "purity",
    "sepin_1": "SEPIN@1",
}


def table() -> str:
    """All that was measured, the mean over seeds, as Markdown."""
    groups: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for record in lines():
        groups.setdefault((record["arm"], record["epochs"], record["epoch"]), []).append(record)
    rows = [["arm", "epoch", "seeds", *_SHOWN.values()]]
    for (arm, epochs, epoch), found in groups.items():
        seeds = ", ".join(str(record["seed"]) for record in found)
        rows.append([arm, f"{epoch} of {epochs}", seeds, *(_mean(found, key) for key in _SHOWN)])
    spent = sum(record["core_seconds"] for record in lines()) / 3600
    return f"{as_markdown(rows)}\n\n{spent:.1f} core-hours."


def with_table(page: str) -> str:
    """The page of the study with the table as it now is, between its marks."""
    return between_marks(page, table())


def _mean(found: list[dict[str, Any]], key: str) -> str:
    values = [record[key] for record in found if record.get(key) is not None]
    if not values:
        return "–"
    if key == "sepin_1":
        return f"{1000 * mean(values):.2f}"
    return f"{100 * mean(values):.2f}"


if __name__ == "__main__":
    main()
