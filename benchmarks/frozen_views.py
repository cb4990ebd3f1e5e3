"""Images as a frozen network sees them: vectors of the images and of their views, encoded once.

Of photographs, which have no classes, also what they are of and a vector of their captions.
"""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.embedding_vectors import image_encoder, photographs, records, text_vectors
from nonneg.data import load
from nonneg.data.dataset import ArrayData, Data, permutation
from nonneg.pairs.image_views import ImageViews
from nonneg.pairs.protocol import Batch, Draws
from nonneg.pairs.view_settings import ViewSettings, recipe
from nonneg.rows import unit_rows
from nonneg.runs.experiment import read_experiment, training_data

CACHE = Path("~/.cache/nonneg-frozen").expanduser()
PRESET = "cifar10-small"
# Of the views that SEPIN is measured on.
N_SEPIN = 2000

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
