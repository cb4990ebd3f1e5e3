"""Features of each layer of one network: CL and NCL on the four stages of a ResNet, frozen.

    python -m benchmarks.layers --seeds 0 1 2    # trains what is missing
    python -m benchmarks.layers --table          # what is there, also in docs/history

A network is trained by the preset ``fashion-mnist``, where it learns from its own output alone.
Then a projector is trained on what each of its stages gives (``encoder.backbone.stages``), with the
preset's upkeep. Every run is a line of ``results/studies/layers.jsonl``; figures are of images held
out of the training set.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from benchmarks.backbone_study import figures
from benchmarks.studies import Record, append, as_markdown, between_marks, read, spread
from nonneg.backbones import Frozen, ResNet
from nonneg.encoder import Encoder
from nonneg.runs.experiment import (
    Experiment,
    build_encoder,
    build_pairs,
    read_experiment,
    run_experiment,
    training_data,
)
from nonneg.training.contrastive import Contrastive
from nonneg.training.trainer import run_task

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "studies" / "layers.jsonl"
PAGE = ROOT / "docs" / "history" / "layers.md"
RUNS = Path("runs/layers")
PRESET = "fashion-mnist"
METHODS = ("CL", "NCL")
STAGES = (1, 2, 3, 4)
EPOCHS = 3  # of a projector; the network has the preset's
QUIET = Console(quiet=True)


def network(seed: int) -> ResNet:
    """The backbone of a finished run of the preset, trained if it is not there."""
    _, experiment = read_experiment(PRESET, [f"seed={seed}"])
    out = RUNS / f"network-seed{seed}"
    run_experiment(experiment, out=out, resume=True, console=QUIET)
    backbone = Encoder.load(out).backbone
    assert isinstance(backbone, ResNet)
    return backbone


def experiment_of(stage: int, method: str, seed: int) -> Experiment:
    """The preset with a frozen network that ends after a stage."""
    changes = [
        "loss.backbone_weight=0",
        "encoder.frozen=true",
        f"training.epochs={EPOCHS}",
        f"encoder.backbone.stages={stage}",
        f"seed={seed}",
    ]
    return read_experiment(PRESET + ("-cl" if method == "CL" else ""), changes)[1]


def measure(stage: int, method: str, seed: int) -> dict[str, Any]:
    """Train a projector on a stage, and measure its features."""
    began = time.process_time()
    experiment = experiment_of(stage, method, seed)
    samples, held_out = training_data(experiment.data, None)
    assert held_out is not None
    encoder = build_encoder(experiment, samples.sample_shape)
    whole = network(seed)
    assert isinstance(encoder.backbone, Frozen)
    assert isinstance(encoder.backbone.frozen, ResNet)
    encoder.backbone.frozen.load_torchvision(whole.state_dict())
    pairs = build_pairs(experiment, samples)
    run_task(
        Contrastive(encoder, pairs, experiment),
        samples,
        experiment,
        out=RUNS / f"stage{stage}-{method.lower()}-seed{seed}",
        held_out=held_out,
        resume=True,
        console=QUIET,
    )
    trained = time.process_time() - began
    temperature = experiment.loss.temperature
    return {
        "stage": stage,
        "method": method,
        "seed": seed,
        "n_hidden": encoder.hidden_size,
        **figures(encoder, pairs, samples, held_out, temperature=temperature),
        "core_seconds_training": round(trained, 1),
        "core_seconds": round(time.process_time() - began, 1),
    }


def lines() -> dict[tuple[int, str, int], Record]:
    """The records so far, by stage, method and seed; of a repeated run the last."""
    found = read(RESULTS, "stage", "method", "seed")
    return {(r["stage"], r["method"], r["seed"]): r for r in found}


_SHOWN = {
    "sparsity_alive": "sparsity",
    "alive_rate": "alive",
    "on_for_20_rate": "on for 20",
    "top20_purity": "purity",
    "sepin_1": "SEPIN@1",
    "precision_features": "precision@10, features",
    "precision_hidden": "precision@10, layer",
    "probe_features": "probe, features",
    "probe_features_10k": "…, of 10,000 images",
    "probe_hidden": "probe, layer",
}


def table() -> str:
    """Stage by stage, the mean over seeds, as Markdown."""
    rows = [["stage", "", "seeds", *_SHOWN.values(), "impurity", "SEPIN@1 × CL's"]]
    found = lines()
    for stage in STAGES:
        for method in METHODS:
            here = [r for key, r in found.items() if key[:2] == (stage, method)]
            if not here:
                continue
            seeds = ", ".join(str(record["seed"]) for record in here)
            name = f"{stage} ({here[0]['n_hidden']} numbers)"
            cells = [_cell(key, [r[key] for r in here if key in r]) for key in _SHOWN]
            signed = {
                r["seed"]: r for r in found.values() if (r["stage"], r["method"]) == (stage, "CL")
            }
            pairs = [
                (signed[r["seed"]], r) for r in here if method == "NCL" and r["seed"] in signed
            ]
            ratios = [
                spread([ncl[key] / cl[key] for cl, ncl in pairs]) for key in ("impurity", "sepin_1")
            ]
            rows.append([name, method, seeds, *cells, *ratios])
    spent = sum(record["core_seconds"] for record in found.values()) / 60
    return f"{as_markdown(rows)}\n\n{spent:.0f} core-minutes."


def _cell(key: str, values: list[float]) -> str:
    return spread([(1000 if key == "sepin_1" else 100) * value for value in values])


def with_table(page: str) -> str:
    """The page of the study with the table as it now is, between its marks."""
    return between_marks(page, table())


def main() -> None:
    """Train what is missing, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--table", action="store_true", help="write the table of what is there")
    options = parser.parse_args()
    if options.table:
        PAGE.write_text(with_table(PAGE.read_text()))
        print(table())
        return
    torch.set_num_threads(1)
    for seed in options.seeds:
        for stage in STAGES:
            for method in METHODS:
                if (stage, method, seed) not in lines():
                    append(RESULTS, measure(stage, method, seed))
                    print(f"{time.strftime('%H:%M:%S')} {stage} {method} {seed}", flush=True)


if __name__ == "__main__":
    main()
