"""The study of non-negative cross entropy: what of the head makes it learn faster, if anything.

    python -m benchmarks.supervised_heads            # goes on where it stopped
    python -m benchmarks.supervised_heads --table    # what is there so far, also in docs/history

The preset ``cifar10-small`` as a classifier, whole: every arm has its best learning rate of a grid,
by held-out images of seed 0, and is then trained with three seeds that no choice has seen, which
are measured on the test set. Every run is a line of ``results/studies/supervised-heads.jsonl``.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from nonneg.losses.cross_entropy import NonNegativeClassifier
from nonneg.runs.experiment import (
    build_encoder,
    build_pairs,
    load_split,
    read_experiment,
    training_data,
)
from nonneg.training.run_folder import read_history
from nonneg.training.supervised import Classifier, Supervised
from nonneg.training.trainer import run_task

RESULTS = Path(__file__).parents[1] / "results" / "studies" / "supervised-heads.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "history" / "supervised-heads.md"
RUNS = Path("runs/supervised-heads")
PRESET = "cifar10-small"
SEEDS = (10, 11, 12)
LEVELS = (20, 30, 40, 50, 60)
# A factor of three apart; one more value beyond an edge that is best.
GRID = (2e-3, 6e-3, 18e-3)
FACTOR = 3.0
EVERY = 20

Head = Callable[[int, int], nn.Module]


def zero_head(width: int, n_classes: int) -> nn.Module:
    """The library's head of cross entropy: all classes equal at first."""
    head = nn.Linear(width, n_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def equal_head(*, weights: str, scale: float = 4.0) -> Head:
    """A head without bias whose weights start equal, as that of non-negative cross entropy."""
    return lambda width, n_classes: NonNegativeClassifier(
        width, n_classes, inputs="identity", weights=weights, scale=scale
    )


class DrawnHead(nn.Module):
    """The head as the authors have it: drawn weights, rectified, without bias or scale."""

    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, n_classes, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        """Logits ``(n, n_classes)`` of features ``(n, width)``."""
        return nn.functional.linear(features, self.linear.weight.relu())


@dataclass(frozen=True)
class Arm:
    """A head on the backbone or on the projector's features.

    Args:
        name: As the table shows it.
        head: Made of the width and the number of classes.
        reads: ``"hidden"``, which is never negative here, or ``"features"``.
        rectified: Whether features are; without effect on the backbone.
        against: The arm that it is compared with.
    """

    name: str
    head: Head
    reads: str = "hidden"
    rectified: bool = False
    against: str | None = None


_CE, _CE_MLP, _CE_RELU = "CE", "CE + MLP", "CE + MLP, features rectified"
ARMS = (
    Arm(_CE, zero_head),
    Arm("CE, NCE's head but signed", equal_head(weights="identity"), against=_CE),
    Arm("NCE", equal_head(weights="relu"), against=_CE),
    Arm("NCE, drawn weights", DrawnHead, against=_CE),
    Arm(_CE_MLP, zero_head, "features"),
    Arm(_CE_RELU, zero_head, "features", rectified=True, against=_CE_MLP),
    Arm(
        "CE + MLP, features rectified, NCE's head but signed",
        equal_head(weights="identity"),
        "features",
        rectified=True,
        against=_CE_RELU,
    ),
    Arm("NCE + MLP", equal_head(weights="relu"), "features", rectified=True, against=_CE_RELU),
    Arm("NCE + MLP, drawn weights", DrawnHead, "features", rectified=True, against=_CE_RELU),
)
CHANGES = (
    "task=supervised",
    "loss=ce",
    "loss.backbone_weight=0",
    "encoder.projector.hidden=[1024]",
    "encoder.projector.n_features=1024",
    "encoder.projector.input_norm=none",
    "training.reinit_at=0",
    "training.keep_angles=false",
    "training.max_on_rate=1",
    f"training.monitor_every={EVERY}",
    "training.monitor_samples=2000",
)


def run_arm(arm: Arm, lr: float, seed: int) -> dict[str, Any] | None:
    """Train an arm and measure it; None if it was interrupted."""
    changes = [*CHANGES, f"reads={arm.reads}", f"optimizer.lr={lr:g}", f"seed={seed}"]
    _, experiment = read_experiment(PRESET, changes)
    if arm.rectified:
        encoder_settings = experiment.encoder.model_copy(update={"nonnegative": "relu"})
        experiment = experiment.model_copy(update={"encoder": encoder_settings})
    samples, held_out = training_data(experiment.data, None)
    assert held_out is not None
    assert samples.labels is not None
    encoder = build_encoder(experiment, samples.sample_shape)
    n_classes = int(samples.labels.max()) + 1
    classifier = Classifier(encoder, n_classes, loss="ce", reads=arm.reads)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classifier.head = arm.head(classifier.head.in_features, n_classes)
    views = build_pairs(experiment, samples)
    task = Supervised(classifier, samples.labels, views.one_view, starts_at=arm.name)
    plain = "".join(c if c.isalnum() else "-" for c in arm.name.lower())
    folder = RUNS / f"{plain}-lr{lr:g}-seed{seed}"
    began = time.process_time()
    done = run_task(
        task,
        samples,
        experiment,
        out=folder,
        held_out=held_out,
        resume=True,
        console=Console(quiet=True),
    )
    if done.interrupted_by is not None:
        return None
    measured = held_out if seed not in SEEDS else load_split(experiment.data, "test")
    assert measured.labels is not None
    predicted = classifier.predict(measured.fetch(torch.arange(len(measured))))
    curve = [
        (point["step"], round(point["accuracy"], 4))
        for epoch in read_history(folder)
        for point in [*epoch.get("within", ()), epoch]
    ]
    return {
        "arm": arm.name,
        "lr": lr,
        "seed": seed,
        "set": "test" if seed in SEEDS else "held out",
        "accuracy": float((predicted == measured.labels).double().mean()),
        "steps_to": {level: first_step(curve, level / 100) for level in LEVELS},
        "curve": curve[:: max(1, len(curve) // 40)],
        "core_seconds": round(time.process_time() - began, 1),
    }


def first_step(curve: list[tuple[int, float]], accuracy: float) -> int | None:
    """The first measured step with an accuracy; None if it never comes.

    Example:
        >>> first_step([(20, 0.1), (40, 0.3), (60, 0.2)], 0.25)
        40
    """
    return next((step for step, value in curve if value >= accuracy), None)


def lines() -> list[dict[str, Any]]:
    """The records so far."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def tuned(arm: Arm, found: list[dict[str, Any]]) -> tuple[float | None, float | None]:
    """The best learning rate of an arm so far, and the one to try next; None if there is none.

    Args:
        arm: Which.
        found: All records.
    """
    tried = {
        r["lr"]: r["accuracy"] for r in found if r["arm"] == arm.name and r["set"] == "held out"
    }
    missing = [lr for lr in GRID if lr not in tried]
    if missing:
        return None, missing[0]
    best = max(tried, key=lambda lr: tried[lr])
    beyond = {min(tried): best / FACTOR, max(tried): best * FACTOR}.get(best)
    if beyond is not None and len(tried) < len(GRID) + 2:
        return best, float(f"{beyond:.1e}")
    return best, None


def main() -> None:
    """Train what is missing, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--table", action="store_true", help="print what is there so far, also to the page"
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.table:
        PAGE.write_text(with_table(PAGE.read_text()))
        print(table())
        return
    torch.set_num_threads(options.threads)
    for arm in ARMS:
        while (choice := tuned(arm, lines()))[1] is not None:
            if not _done(arm, choice[1], seed=0):
                return
    for seed in SEEDS:
        for arm in ARMS:
            best, _ = tuned(arm, lines())
            is_there = any((r["arm"], r["seed"]) == (arm.name, seed) for r in lines())
            if not is_there and not _done(arm, best, seed=seed):
                return


def _done(arm: Arm, lr: float | None, *, seed: int) -> bool:
    """Train, and note the result; False if it was interrupted."""
    assert lr is not None
    print(f"{time.strftime('%H:%M:%S')} {arm.name}, lr {lr:g}, seed {seed}", flush=True)
    try:
        record = run_arm(arm, lr, seed)
    except FloatingPointError:  # a rate that is too high for this arm
        record = {"arm": arm.name, "lr": lr, "seed": seed, "set": "held out", "accuracy": 0.0}
    if record is None:
        return False
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(record) + "\n")
    return True


def table() -> str:
    """What was measured, arm by arm, as Markdown."""
    found = lines()
    heads = ["arm", "learning rate", "test accuracy, %", "against"]
    heads += [f"steps to {level} %" for level in LEVELS]
    rows = [heads, ["---"] * len(heads)]
    for arm in ARMS:
        own = [r for r in found if r["arm"] == arm.name and r["set"] == "test"]
        if not own:
            continue
        other = {r["seed"]: r for r in found if r["arm"] == arm.against and r["set"] == "test"}
        gains = [
            100 * (r["accuracy"] - other[r["seed"]]["accuracy"]) for r in own if r["seed"] in other
        ]
        steps = [[r["steps_to"][str(level)] for r in own] for level in LEVELS]
        rows.append(
            [
                arm.name,
                f"{own[0]['lr']:g}",
                spread([100 * r["accuracy"] for r in own]),
                f"{arm.against}: {spread(gains, sign='+')}" if gains else "",
                *("–" if None in taken else f"{mean(taken):.0f}" for taken in steps),
            ]
        )
    spent = sum(r.get("core_seconds", 0) for r in found) / 3600
    shown = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"{shown}\n\n{spent:.1f} core-hours."


def spread(values: list[float], *, sign: str = "") -> str:
    """Mean and standard deviation.

    Example:
        >>> spread([1.0, 2.0, 3.0], sign="+")
        '+2.00 ± 1.00'
    """
    deviation = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):{sign}.2f}{deviation}"


def with_table(page: str) -> str:
    """The page of the study with the table as it now is, between its marks."""
    before, _, rest = page.partition("<!-- study -->")
    after = rest.partition("<!-- end -->")[2]
    return f"{before}<!-- study -->\n\n{table()}\n\n<!-- end -->{after}"


if __name__ == "__main__":
    main()
