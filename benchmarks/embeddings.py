"""How good are readable features of embeddings? Retrieval, purity and time on prepared vectors.

The variable NONNEG_EMBEDDINGS names a folder with ``clinc150_train.npy``, ``clinc150_test.npy``
(MiniLM vectors of the texts, as the model gives them) and their ``…_labels.npy``. Queries are the
test texts, the gallery is the training texts, similarity is the cosine of features. Every method is
fitted on the training vectors alone, without labels; NCL with its defaults.

    NONNEG_EMBEDDINGS=folder python -m benchmarks.embeddings
"""

import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA, TruncatedSVD

from nonneg import metrics
from nonneg.estimators import NCL

VARIABLE = "NONNEG_EMBEDDINGS"
SEEDS = (0, 1, 2)
HEADS = [
    "CLINC150, MiniLM",
    "active a text",
    "P@10",
    "1-NN",
    "top-20 purity, test (features)",
    "top-20 purity, train (features)",
    "alive",
    "fit, s",
]

Vectors = NDArray[np.float32]


class Dense:
    """The vectors themselves."""

    def fit(self, X: Vectors) -> "Dense":
        """Nothing to learn."""
        return self

    def transform(self, X: Vectors) -> Vectors:
        """The same vectors."""
        return X


METHODS: dict[str, tuple[Callable[[int], Any], tuple[int, ...]]] = {
    "dense": (lambda _: Dense(), (0,)),
    "PCA 64": (lambda seed: PCA(64, random_state=seed), (0,)),
    "TruncatedSVD 64": (lambda seed: TruncatedSVD(64, random_state=seed), (0,)),
    "NCL": (lambda seed: NCL(random_state=seed), SEEDS),
}


def missing() -> str | None:
    """Why the benchmark cannot run, or None if it can."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        return f"set {VARIABLE} to a folder of prepared vectors"
    wanted = [f"clinc150_{part}{end}.npy" for part in ("train", "test") for end in ("", "_labels")]
    absent = [name for name in wanted if not (Path(folder) / name).exists()]
    return f"{folder} lacks {', '.join(absent)}" if absent else None


def measure() -> dict[str, list[dict[str, float]]]:
    """For each method the figures of each seed."""
    folder = Path(os.environ[VARIABLE])
    train, train_labels, test, test_labels = (
        np.load(folder / f"clinc150_{part}{end}.npy")
        for part in ("train", "test")
        for end in ("", "_labels")
    )
    return {
        name: [_figures(make(seed), train, train_labels, test, test_labels) for seed in seeds]
        for name, (make, seeds) in METHODS.items()
    }


def transform_share(*, repeats: int = 5) -> float:
    """The rate of NCL's transform as a share of the machine's own matrix-multiply rate."""
    X = np.random.default_rng(0).standard_normal((15_000, 384)).astype(np.float32)
    ncl = NCL(max_steps=1, random_state=0).fit(X[:2_000])
    widths = [384, ncl.n_axes_, *((ncl.hidden,) if ncl.hidden else ()), ncl.n_components]
    n_products = len(X) * sum(a * b for a, b in pairwise(widths))
    size = 2048
    square = torch.rand(size, size)
    own, reference = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        ncl.transform(X)
        between = time.perf_counter()
        square @ square
        own.append(between - began)
        reference.append(time.perf_counter() - between)
    return (n_products / min(own)) / (size**3 / min(reference))


def rows(measured: dict[str, list[dict[str, float]]]) -> list[list[str]]:
    """What was measured, as the rows of a table: mean ± standard deviation over seeds."""
    return [
        [
            name,
            _mean(runs, "active", 1),
            _mean(runs, "p10", 3),
            _mean(runs, "nn1", 3),
            f"{_mean(runs, 'purity_test', 3)} ({_mean(runs, 'n_test', 0)})",
            f"{_mean(runs, 'purity_train', 3)} ({_mean(runs, 'n_train', 0)})",
            _mean(runs, "alive", 0),
            _mean(runs, "seconds", 1),
        ]
        for name, runs in measured.items()
    ]


def _figures(
    method: Any,  # noqa: ANN401
    train: Vectors,
    train_labels: NDArray[np.int64],
    test: Vectors,
    test_labels: NDArray[np.int64],
) -> dict[str, float]:
    began = time.perf_counter()
    method.fit(train)
    seconds = time.perf_counter() - began
    gallery, queries = method.transform(train), method.transform(test)
    on_test = metrics.top_purity(queries, test_labels, m=20)
    on_train = metrics.top_purity(gallery, train_labels, m=20)
    found = {
        f"at {k}": metrics.precision_at_k(queries, test_labels, k, gallery=(gallery, train_labels))
        for k in (1, 10)
    }
    return {
        "active": float(metrics.active_per_sample(queries)),
        "p10": float(found["at 10"]),
        "nn1": float(found["at 1"]),
        "purity_test": float(on_test),
        "n_test": on_test.averaged_over,
        "purity_train": float(on_train),
        "n_train": on_train.averaged_over,
        "alive": on_train.n_alive,
        "seconds": seconds,
    }


def _mean(runs: list[dict[str, float]], key: str, digits: int) -> str:
    values = [run[key] for run in runs]
    mean = f"{np.mean(values):,.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):,.{digits}f}"


def main() -> None:
    """Print what was measured, or why nothing was."""
    reason = missing()
    if reason is not None:
        print(f"skipped: {reason}")
        return
    print(f"{torch.get_num_threads()} threads")
    for line in (HEADS, ["---"] * len(HEADS), *rows(measure())):
        print("| " + " | ".join(line) + " |")
    share = transform_share()
    print(f"transform: {share:.2f} of the machine's matrix-multiply rate (wanted: at least 0.5)")


if __name__ == "__main__":
    main()
