"""Ways to rank with sparse features: rare features weighted, and dense scores beside them.

    export NONNEG_EMBEDDINGS=folder       # made by python -m benchmarks.embedding_vectors
    python -m benchmarks.retrieval [--part test]

Ways are chosen on the validation parts of SciFact and Cranfield; the test parts are read once.
"""

import argparse
from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.embedding_figures import bootstrap_interval
from benchmarks.embedding_sets import PARTS, SETS, Search, missing, read_set
from nonneg import NCL, SparseIndex
from nonneg.search import fused, idf_weights

SEARCHES = ("cranfield", "scifact")
DETAILS = ("balanced", "full")
SEEDS = (0, 1, 2)
# So many places of each search are fused.
_N_FUSED = 100
_DISCOUNTS = 1 / np.log2(np.arange(10) + 2)

Ids = NDArray[Any]


class Features(NamedTuple):
    """Features and vectors of a search."""

    corpus: Any
    queries: Any
    dense_corpus: NDArray[np.float32]
    dense_queries: NDArray[np.float32]


def fitted(data: Search, detail: str, seed: int) -> Features:
    """Features of an ``NCL`` that is fitted to the documents."""
    ncl = NCL(detail=detail, random_state=seed).fit(data.corpus)
    return Features(
        ncl.transform(data.corpus), ncl.transform(data.queries), data.corpus, data.queries
    )


def _found(found: Features, weights: Any = None) -> Ids:  # noqa: ANN401
    index = SparseIndex.of(found.corpus, weights=weights)
    return index.search(found.queries, _N_FUSED).ids


def _sparse(found: Features) -> Ids:
    return _found(found)


def _idf(power: float) -> Callable[[Features], Ids]:
    return lambda found: _found(found, idf_weights(found.corpus, power=power))


def _idf_of_queries(found: Features) -> Ids:
    queries = found.queries * idf_weights(found.corpus, power=1).astype(np.float32)
    return _found(found._replace(queries=queries))


def _to_the_power(power: float) -> Callable[[Features], Ids]:
    return lambda found: _found(
        found._replace(corpus=found.corpus**power, queries=found.queries**power)
    )


def _dense(found: Features) -> Ids:
    return np.argsort(-_dense_cosines(found), axis=1, kind="stable")[:, :_N_FUSED]


def _dense_cosines(found: Features) -> NDArray[np.float32]:
    cosines: NDArray[np.float32] = _unit(found.dense_queries) @ _unit(found.dense_corpus).T
    return cosines


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def _fused(first: Callable[[Features], Ids], weight: float = 0.5) -> Callable[[Features], Ids]:
    return lambda found: fused(first(found), _dense(found), weight=weight).ids


def _summed(weight: float) -> Callable[[Features], Ids]:
    def rank(found: Features) -> Ids:
        cosines = weight * _unit(found.queries) @ _unit(found.corpus).T
        cosines += (1 - weight) * _dense_cosines(found)
        return np.argsort(-cosines, axis=1, kind="stable")[:, :10]

    return rank


WAYS: dict[str, Callable[[Features], Ids]] = {
    "dense vectors": _dense,
    "sparse features": _sparse,
    "idf^¼": _idf(0.25),
    "idf^½": _idf(0.5),
    "idf": _idf(1),
    "idf, of queries only": _idf_of_queries,
    "square roots of values": _to_the_power(0.5),
    "values^1.5": _to_the_power(1.5),
    "ranks fused, .3 : .7 dense": _fused(_sparse, 0.3),
    "ranks fused, half each": _fused(_sparse),
    "ranks fused, .7 : .3 dense": _fused(_sparse, 0.7),
    "idf^½, ranks fused": _fused(_idf(0.5)),
    "cosines added, .3 : .7 dense": _summed(0.3),
    "cosines added, half each": _summed(0.5),
}


def ndcg(ids: Ids, relevant: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """nDCG@10 of each query, from the ids found, the nearest first."""
    scores = []
    for found, wanted in zip(ids[:, :10].tolist(), map(set, relevant), strict=True):
        gain = sum(_DISCOUNTS[place] for place, row in enumerate(found) if row in wanted)
        scores.append(gain / _DISCOUNTS[: len(wanted)].sum())
    return np.array(scores)


def measure(
    name: str, detail: str, part: str, make: Callable[..., Features] = fitted
) -> dict[str, list[NDArray[np.float64]]]:
    """For each way the nDCG@10 of all queries, seed by seed."""
    data = read_set(name, part)
    assert isinstance(data, Search)
    scores: dict[str, list[NDArray[np.float64]]] = {way: [] for way in WAYS}
    for seed in SEEDS:
        found = make(data, detail, seed)
        for way, rank in WAYS.items():
            scores[way].append(ndcg(rank(found), data.relevant))
    return scores


def table(part: str, make: Callable[..., Features] | None = None) -> str:
    """Ways by sets and details, with the paired difference from sparse features alone."""
    columns = {}
    for name in SEARCHES:
        reason = missing(SETS[name].files)
        if reason is not None:
            return f"Skipped: {reason}."
        for detail in DETAILS:
            given = {} if make is None else {"make": make}
            columns[f"{SETS[name].title}, {detail}"] = measure(name, detail, part, **given)
    lines = [
        f"| {part} | " + " | ".join(columns) + " |",
        "| --- " * (1 + len(columns)) + "|",
    ]
    for way in WAYS:
        cells = [_cell(found[way], found["sparse features"], way) for found in columns.values()]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(scores: list[NDArray[np.float64]], usual: list[NDArray[np.float64]], way: str) -> str:
    means = [float(seed.mean()) for seed in scores]
    text = f"{mean(means):.3f}" + ("" if way == "dense vectors" else f" ± {stdev(means):.3f}")
    low, _ = bootstrap_interval(np.mean(scores, axis=0) - np.mean(usual, axis=0))
    return f"**{text}**" if low > 0 and way != "sparse features" else text


def section() -> str:
    """Both parts."""
    tables = "\n\n".join(table(part) for part in PARTS)
    return (
        "nDCG@10, mean ± standard deviation over three seeds of `NCL()` and of "
        '`NCL(detail="full")`, fitted to the documents. **Bold**: better than sparse features '
        "alone, by the paired 95 % interval over questions. Ways were chosen on the validation "
        f"parts.\n\n{tables}"
    )


def main() -> None:
    """Print the table of a part."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval")
    parser.add_argument("--part", choices=PARTS, default="validation")
    print(table(parser.parse_args().part))


if __name__ == "__main__":
    main()
