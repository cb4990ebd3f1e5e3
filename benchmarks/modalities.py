"""Features of two modalities: retrieval across images, captions and claims; planted communities.

The variable NONNEG_EMBEDDINGS names a folder with ``flickr_images.npy`` (EfficientNet-Lite0, one
row per image), ``flickr_captions.npy`` (MiniLM), ``flickr_groups.npy`` (the image of each caption),
``flickr_splits.npy`` (train, dev or test of each image); and with ``scifact_corpus.npy``,
``scifact_titles.npy``, ``scifact_queries_{train,test}.npy`` (MiniLM), ``scifact_corpus_ids.json``
and ``scifact_queries_{train,test}_raw.json`` (each claim with its relevant ids). Settings were
chosen on the development images; the figures are of the test images. The planted graphs need no
files.

    NONNEG_EMBEDDINGS=folder python -m benchmarks.modalities
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from benchmarks.embedding_figures import ndcg_at_10
from benchmarks.embedding_sets import Vectors, missing, prepared
from nonneg import NCL, CrossNCL, GraphNCL, metrics
from nonneg.factorization import graph_world, identification_score, train_table
from nonneg.paper.modalities import planted_graph, recalls, sides_agree

SEEDS = (0, 1, 2)
FILES = [
    *(f"flickr_{part}.npy" for part in ("images", "captions", "groups", "splits")),
    *(f"scifact_{part}.npy" for part in ("corpus", "titles", "queries_train", "queries_test")),
    "scifact_corpus_ids.json",
    "scifact_queries_train_raw.json",
    "scifact_queries_test_raw.json",
]
# The one switch, with the learning rate that is best for signed features and with CrossNCL's; and
# what 0.1 had.
_OLD: dict[str, Any] = {"hidden": 512, "temperature": 0.07, "learning_rate": 1e-3}
FLICKR: dict[str, dict[str, Any]] = {
    "CrossNCL": {},
    "CrossNCL, the 128 largest": {"max_active": 128},
    "signed": {"nonnegative": "identity"},
    "signed, learning rate of CrossNCL": {"nonnegative": "identity", "learning_rate": 6e-3},
    "CrossNCL of 0.1": _OLD,
    "signed, as 0.1": {**_OLD, "nonnegative": "identity"},
}

Runs = dict[str, list[dict[str, float]]]


class Claims(NamedTuple):
    """Claims and, for each, the rows of the abstracts that bear on it."""

    vectors: Vectors
    relevant: list[list[int]]


def section() -> str:
    """All tables as Markdown."""
    reason = missing(FILES)
    parts = [f"Retrieval was skipped: {reason}."] if reason is not None else [_flickr(), _scifact()]
    return "\n\n".join([*parts, _graphs()])


def measure_flickr() -> Runs:
    """For each version the figures of each seed, on the test images."""
    images, captions, groups, splits = (
        np.load(prepared() / f"flickr_{part}.npy")
        for part in ("images", "captions", "groups", "splits")
    )
    here = splits[groups] == "train"
    tested, told = np.flatnonzero(splits == "test"), splits[groups] == "test"
    place = np.searchsorted(tested, groups[told])  # the image of each caption, among the tested
    found: Runs = {}
    for name, settings in FLICKR.items():
        for seed in SEEDS:
            began = time.perf_counter()
            both = CrossNCL(**settings, random_state=seed)
            both.fit(images[groups[here]], captions[here], groups=groups[here])
            seconds = time.perf_counter() - began
            Z_images, Z_captions = both.transform(images[tested], captions[told])
            belongs = place == np.arange(len(tested))[:, None]  # (images, captions)
            figures = {
                **recalls("captions", Z_images, Z_captions, belongs),
                **recalls("images", Z_captions, Z_images, belongs.T),
                "active_images": float(metrics.active_per_sample(Z_images)),
                "active_captions": float(metrics.active_per_sample(Z_captions)),
                "agree": sides_agree(Z_images, Z_captions, captions[told], place),
                "alive": both.n_alive_,
                "seconds": seconds,
            }
            print(f"{name}, seed {seed}: {figures}", file=sys.stderr)
            found.setdefault(name, []).append(figures)
    return found


def measure_scifact() -> Runs:
    """For each method nDCG@10 of the test claims among all abstracts."""
    folder = prepared()
    corpus, titles = (np.load(folder / f"scifact_{part}.npy") for part in ("corpus", "titles"))
    train, test = _claims("train"), _claims("test")
    claim, abstract = _listed(train)
    queries = np.concatenate([train.vectors[claim], titles])
    answers = np.concatenate([corpus[abstract], corpus])
    numbers = np.concatenate([abstract, np.arange(len(corpus))])
    asked = np.concatenate([claim, len(train.vectors) + np.arange(len(corpus))])
    groups = _together(asked, numbers)
    n_own = len(claim)

    def across(n_pairs: int, **settings: Any) -> Callable[[int], tuple[Any, Any]]:  # noqa: ANN401
        def features(seed: int) -> tuple[Any, Any]:
            both = CrossNCL(**settings, random_state=seed)
            both.fit(queries[:n_pairs], answers[:n_pairs], groups=groups[:n_pairs])
            return both.transform(test.vectors, corpus)

        return features

    def alone(seed: int) -> tuple[Any, Any]:
        ncl = NCL(random_state=seed).fit(corpus)
        return ncl.transform(test.vectors), ncl.transform(corpus)

    methods: dict[str, Callable[[int], tuple[Any, Any]]] = {
        "dense": lambda _: (test.vectors, corpus),
        "NCL on the abstracts, no pairs": alone,
        f"CrossNCL, {n_own} claims and abstracts": across(n_own),
        "CrossNCL, and titles of abstracts": across(len(queries)),
        "the same, signed": across(len(queries), nonnegative="identity"),
    }
    found: Runs = {}
    for name, features in methods.items():
        for seed in SEEDS[: 1 if name == "dense" else None]:
            Z_claims, Z_abstracts = features(seed)
            found.setdefault(name, []).append(
                {
                    "ndcg": ndcg_at_10(Z_claims, Z_abstracts, test.relevant),
                    "active": float(metrics.active_per_sample(Z_claims)),
                }
            )
    return found


def measure_graphs(n_nodes: int = 2_000, n_communities: int = 50, n_edges: int = 30_000) -> Runs:
    """For each way to start, how well planted communities are found, and how long it takes."""
    methods: dict[str, Callable[[Any, int], Any]] = {
        "GraphNCL": lambda A, seed: GraphNCL(n_communities, random_state=seed).fit_transform(A),
        "GraphNCL, start=sampling": lambda A, seed: GraphNCL(
            n_communities, start="sampling", random_state=seed
        ).fit_transform(A),
        "GraphNCL, start=random": lambda A, seed: GraphNCL(
            n_communities, start="random", random_state=seed
        ).fit_transform(A),
        "drawn edges only": lambda A, seed: train_table(
            graph_world(A), n_communities, np.random.default_rng(seed), batch_size=n_nodes
        ),
        "a random table": lambda A, seed: GraphNCL(
            n_communities, start="random", max_steps=0, random_state=seed
        ).fit_transform(A),
    }
    found: Runs = {}
    for seed in SEEDS:
        graph, members = planted_graph(n_nodes, n_communities, n_edges, seed)
        for name, features in methods.items():
            began = time.perf_counter()
            score = identification_score(features(graph, seed), members)
            seconds = time.perf_counter() - began
            figures = {"match": score.value, "worst": score.per_feature.min(), "seconds": seconds}
            found.setdefault(name, []).append(figures)
    return found


def _flickr() -> str:
    heads = ["Flickr8k (half), 550 test images", "captions of an image: R@1", "R@5", "R@10"]
    heads += ["image of a caption: R@1", "R@5", "R@10"]
    heads += ["top captions fit top images, %", "active per image", "per caption"]
    heads += ["alive", "fit, s"]
    keys = [f"{side}_{k}" for side in ("captions", "images") for k in (1, 5, 10)]
    return _table(
        heads,
        [
            [
                name,
                *(_mean(runs, key, 1, scale=100) for key in keys),
                _mean(runs, "agree", 1, scale=100),
                _mean(runs, "active_images", 1),
                _mean(runs, "active_captions", 1),
                _mean(runs, "alive", 0),
                _mean(runs, "seconds", 0),
            ]
            for name, runs in measure_flickr().items()
        ],
    )


def _scifact() -> str:
    rows = [
        [name, _mean(runs, "ndcg", 3), _mean(runs, "active", 1)]
        for name, runs in measure_scifact().items()
    ]
    return _table(["SciFact, 300 test claims", "nDCG@10", "active per claim"], rows)


def _graphs() -> str:
    rows = [
        [name, _mean(runs, "match", 3), _mean(runs, "worst", 3), _mean(runs, "seconds", 2)]
        for name, runs in measure_graphs().items()
    ]
    title = "50 overlapping communities of 2,000 nodes"
    return _table([title, "matched cosine", "worst community", "s"], rows)


def _claims(part: str) -> Claims:
    folder = prepared()
    ids = json.loads((folder / "scifact_corpus_ids.json").read_text())
    row = {name: i for i, name in enumerate(ids)}
    raw = json.loads((folder / f"scifact_queries_{part}_raw.json").read_text())
    vectors = np.load(folder / f"scifact_queries_{part}.npy")
    relevant = [[row[str(name)] for name in claim["relevant"]] for claim in raw]
    kept = [i for i, rows in enumerate(relevant) if rows]
    return Claims(vectors[kept], [relevant[i] for i in kept])


def _listed(claims: Claims) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each pair of a claim and an abstract, by their rows."""
    pairs = [(i, row) for i, rows in enumerate(claims.relevant) for row in rows]
    claim, abstract = np.array(pairs).T
    return claim, abstract


def _together(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int32]:
    """A number for each pair, equal where pairs are linked by a claim or an abstract."""
    n_left, n_right = left.max() + 1, right.max() + 1
    n = n_left + n_right
    links = sparse.coo_array((np.ones(len(left)), (left, n_left + right)), shape=(n, n))
    return connected_components(links, directed=False)[1][left]


def _mean(runs: list[dict[str, float]], key: str, digits: int, scale: float = 1) -> str:
    values = [scale * run[key] for run in runs]
    mean = f"{np.mean(values):,.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):,.{digits}f}"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Print all tables."""
    print(section())


if __name__ == "__main__":
    main()
