"""The quality of readable features of embeddings: NCL and its peers on the same vectors.

Retrieval, purity, monosemanticity and cost on CLINC150 (see ``benchmarks.embedding_sets`` for the
files), retrieval of abstracts by claims on SciFact, and 20 Newsgroups, on which nothing was tuned.
NCL has its defaults; its peers were tuned on CLINC150's validation texts.

    NONNEG_EMBEDDINGS=folder python -m benchmarks.embeddings
"""

import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from benchmarks.embedding_peers import METHODS
from benchmarks.embedding_sets import (
    Claims,
    Labelled,
    clinc150,
    missing,
    ndcg_at_10,
    newsgroups20,
    scifact,
)
from nonneg import NCL, metrics

SEEDS = {"CLINC150": 5, "SciFact": 3, "20NG": 3}
ON_SCIFACT = (
    "dense",
    "PCA 64",
    "FastICA 64",
    "TopK autoencoder, 8",
    "TopK autoencoder, 32",
    "CSR, 8",
    "CSR, 32",
    "NCL",
)
ON_NEWSGROUPS = ("dense", "PCA 64", "FastICA 64", "CSR, 8", "NCL")

NOTES = """\
Queries are test texts, searched among the training texts by cosine; every method is fitted on the
training vectors without labels. Mean ± standard deviation over 5 seeds (3 on SciFact and 20
Newsgroups); one run of the vectors themselves, PCA, FastICA and NMF. A number behind a name is how
many features a text may have on (on average for BatchTopK and NCL); "8 largest" cuts each row
afterwards; "denoised" is fitted on what NCL's own denoising gives. Purity is the share of the
commonest class among the 20 strongest test texts of a feature, over the features that are on for at
least 20 (their number in brackets), with absolute values where features are signed. Monosemanticity
is the mean cosine of the vectors of two texts, weighted by their activations, absolute values
again. Empty texts have no feature on and find nothing. Fit is in seconds of one core, and as a
multiple of NCL's."""

Figures = dict[str, float]
Runs = dict[str, list[Figures] | str]


def section() -> str:
    """All tables as Markdown, or why there are none."""
    reason = missing()
    return f"Skipped: {reason}." if reason is not None else "\n\n".join(tables())


def tables() -> Iterator[str]:
    """The tables one by one, each as soon as it was measured."""
    yield clinc150_table(measure_clinc150())
    yield NOTES
    yield scifact_table(measure_scifact())
    yield newsgroups_table(measure_newsgroups())
    share = transform_share()
    yield f"NCL's transform runs at {share:.2f} of the machine's matrix-multiply rate."


def measure_clinc150() -> Runs:
    """For each method the figures of each seed, or why there are none."""
    data = clinc150()
    return _measure("CLINC150", tuple(METHODS), lambda method: labelled_figures(method, data))


def measure_newsgroups() -> Runs:
    """The same on 20 Newsgroups, for some of the methods."""
    data = newsgroups20()
    return _measure("20NG", ON_NEWSGROUPS, lambda method: labelled_figures(method, data))


def measure_scifact() -> Runs:
    """nDCG@10 of claims among abstracts, methods fitted on the abstracts."""
    data = scifact()
    return _measure("SciFact", ON_SCIFACT, lambda method: _claims_figures(method, data))


def labelled_figures(method: Any, data: Labelled) -> Figures:  # noqa: ANN401
    """Every measure of a method, fitted on the training vectors of a set."""
    seconds = _fit(method, data.train)
    gallery, queries = method.transform(data.train), method.transform(data.test)
    searched = (gallery, data.train_labels)
    at_10, at_1 = (
        metrics.precision_at_k(queries, data.test_labels, k, gallery=searched) for k in (10, 1)
    )
    purity = metrics.top_purity(queries, data.test_labels, m=20)
    return {
        "active": float(metrics.active_per_sample(queries)),
        "p10": float(at_10),
        "nn1": float(at_1),
        "purity": float(purity),
        "n_pure": purity.averaged_over,
        "monosemanticity": float(metrics.monosemanticity(queries, data.test)),
        "alive": float(metrics.alive_features(gallery).sum()),
        "empty": at_10.n_zero_rows,
        "seconds": seconds,
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
    return float((n_products / min(own)) / (size**3 / min(reference)))


def clinc150_table(measured: Runs) -> str:
    """Every measure of every method."""
    heads = ["CLINC150, MiniLM", "active a text", "P@10", "1-NN", "top-20 purity (features)"]
    heads += ["monosemanticity", "alive", "empty texts", "fit, s", "× NCL"]
    return _table(
        heads,
        measured,
        lambda runs: [
            _mean(runs, "active", 1),
            _mean(runs, "p10", 3),
            _mean(runs, "nn1", 3),
            f"{_mean(runs, 'purity', 3)} ({np.mean([run['n_pure'] for run in runs]):.0f})",
            _mean(runs, "monosemanticity", 3),
            _mean(runs, "alive", 0),
            f"{np.mean([run['empty'] for run in runs]):.0f}",
            f"{_seconds(runs):.1f}",
            f"{_seconds(runs) / _seconds(measured['NCL']):.2f}",
        ],
    )


def scifact_table(measured: Runs) -> str:
    """Retrieval of abstracts by claims."""
    heads = ["SciFact, 300 claims, 5,183 abstracts", "nDCG@10", "active a claim", "fit, s"]
    return _table(
        heads,
        measured,
        lambda runs: [
            _mean(runs, "ndcg", 3),
            _mean(runs, "active", 1),
            f"{_seconds(runs):.1f}",
        ],
    )


def newsgroups_table(measured: Runs) -> str:
    """Retrieval and purity on a set that no setting was chosen on."""
    heads = ["20 Newsgroups, 4,000 + 1,000 posts", "active a post", "P@10", "1-NN"]
    return _table(
        [*heads, "top-20 purity (features)"],
        measured,
        lambda runs: [
            _mean(runs, "active", 1),
            _mean(runs, "p10", 3),
            _mean(runs, "nn1", 3),
            f"{_mean(runs, 'purity', 3)} ({np.mean([run['n_pure'] for run in runs]):.0f})",
        ],
    )


def _measure(title: str, names: tuple[str, ...], figures: Callable[[Any], Figures]) -> Runs:
    measured: Runs = {}
    for name in names:
        method = METHODS[name]
        try:
            measured[name] = [
                _reported(f"{title}, {name}, seed {seed}", figures(method.make(seed)))
                for seed in range(SEEDS[title] if method.seeded else 1)
            ]
        except ImportError as error:
            measured[name] = str(error)
            print(f"{title}, {name}: {error}", file=sys.stderr)
    return measured


def _reported(what: str, figures: Figures) -> Figures:
    shown = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
    print(f"{what}: {shown}", file=sys.stderr, flush=True)
    return figures


def _fit(method: Any, X: Any) -> float:  # noqa: ANN401
    """Fit, and give the seconds of processor time that it took: others may use the machine too."""
    began = time.process_time()
    method.fit(X)
    return time.process_time() - began


def _claims_figures(method: Any, data: Claims) -> Figures:  # noqa: ANN401
    seconds = _fit(method, data.corpus)
    queries = method.transform(data.queries)
    return {
        "ndcg": ndcg_at_10(queries, method.transform(data.corpus), data.relevant),
        "active": float(metrics.active_per_sample(queries)),
        "seconds": seconds,
    }


def _seconds(runs: list[Figures] | str) -> float:
    assert not isinstance(runs, str), runs
    return float(np.mean([run["seconds"] for run in runs]))


def _mean(runs: list[Figures], key: str, digits: int) -> str:
    values = [run[key] for run in runs]
    mean = f"{np.mean(values):,.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):,.{digits}f}"


def _table(heads: list[str], measured: Runs, cells: Callable[[list[Figures]], list[str]]) -> str:
    lines = [heads, ["---"] * len(heads)]
    for name, runs in measured.items():
        lines.append([name, runs] if isinstance(runs, str) else [name, *cells(runs)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Print each table as soon as it is there, or why there are none."""
    reason = missing()
    if reason is not None:
        sys.exit(f"skipped: {reason}")
    for table in tables():
        print(table, end="\n\n", flush=True)


if __name__ == "__main__":
    main()
