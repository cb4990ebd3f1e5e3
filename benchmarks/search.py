"""Search among a million sparse rows: ``nonneg.SparseIndex`` beside dense search and its peers.

    export NONNEG_EMBEDDINGS=folder       # made by python -m benchmarks.embedding_vectors
    python -m benchmarks.search [--rows 100000] [--engines nonneg torch]

The rows are made from a real fit: rows of CLINC150's requests are drawn with replacement, one in
five of their entries is exchanged for an entry of any row, and values are multiplied by e to a
normal number of deviation 0.2. Frequencies of features, what occurs together and values are thus
those of the fit. Queries are features of other requests. All engines have one thread, and times
are processor times, since other programs may use the machine.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.embedding_sets import missing, prepared
from benchmarks.embedding_speed import planted
from nonneg import NCL, SparseIndex
from nonneg.search import postings

N_ROWS = 1_000_000
N_DENSE = 384
K = 10
N_QUERIES = 128
N_SINGLE = 16
_EXCHANGED, _DEVIATION = 0.2, 0.2
_ROUNDS = 3
# Rows at once of what is added and removed.
N_CHANGED = 1000
# Active features, the settings of the fit, and the most memory as a share of the dense rows'.
FITS: dict[int, dict[str, Any]] = {
    8: {"target_active": 8},
    32: {"target_active": 32, "detail": "full"},
}
MEMORY_BARS = {(8, "float32"): 15, (32, "float32"): 5, (32, "float16"): 7}

Rows = sparse.csr_array
Searched = Callable[[Rows], NDArray[np.int64]]


class Engine(NamedTuple):
    """An engine with the rows in it.

    Args:
        one: Searches for one query at a time.
        many: Searches for all queries at once; None where that is the same.
        seconds: To build.
        n_bytes: Of memory, where that is known.
    """

    one: Searched
    many: Searched | None
    seconds: float
    n_bytes: int | None = None


def fitted_rows(active: int) -> tuple[Rows, Rows]:
    """Features of a fit's own rows and of queries, both in float32."""
    reason = missing(("clinc150_train.npy", "clinc150_val.npy"))
    if reason is None:
        X, Q = (np.load(prepared() / f"clinc150_{part}.npy") for part in ("train", "val"))
    else:
        X, Q = planted(15_000, 150, 0)[0], planted(3000, 150, 1)[0]
    ncl = NCL(random_state=0, sparse_output=True, **FITS[active]).fit(X)
    found: list[Any] = [ncl.transform(part) for part in (X, Q)]
    rows, queries = (sparse.csr_array(part) for part in found)
    return rows, queries[np.flatnonzero(np.diff(queries.indptr))]


def many_rows(fitted: Rows, n_rows: int, seed: int = 0) -> Rows:
    """So many rows with the activity of a fit ``(n_rows, d)``; see the module."""
    rng = np.random.default_rng(seed)
    rows = fitted[rng.integers(fitted.shape[0], size=n_rows)]
    exchanged = np.flatnonzero(rng.random(rows.nnz) < _EXCHANGED)
    others = rng.integers(fitted.nnz, size=len(exchanged))
    rows.indices[exchanged] = fitted.indices[others]
    rows.data[exchanged] = fitted.data[others]
    rows.data *= np.exp(_DEVIATION * rng.standard_normal(rows.nnz, dtype=np.float32))
    rows.has_canonical_format = False
    rows.sum_duplicates()
    return rows


def _unit(rows: Rows) -> Rows:
    lengths = np.sqrt(rows.power(2).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ rows)


def exact_cosines(rows: Rows, queries: Rows) -> NDArray[np.float64]:
    """The cosine of every row with every query, in float64 ``(n_queries, n_rows)``."""
    one, other = (_unit(part.astype(np.float64)) for part in (queries, rows))
    found: Any = (one @ other.T.tocsr()).toarray()
    return found


def _nonneg(rows: Rows, *, dtype: str = "float32", compiled: bool = True) -> Engine:
    began = time.process_time()
    index = SparseIndex.of(rows, dtype=dtype)
    seconds = time.process_time() - began
    chosen = postings._compiled() if compiled else None

    def search(queries: Rows) -> NDArray[np.int64]:
        usual, postings._compiled = postings._compiled, lambda: chosen  # type: ignore[assignment]
        try:
            return index.search(queries, K).ids
        finally:
            postings._compiled = usual

    return Engine(search, search, seconds, index.n_bytes)


def _without_numba(rows: Rows) -> Engine:
    return _nonneg(rows, compiled=False)._replace(many=None)


def _half(rows: Rows) -> Engine:
    return _nonneg(rows, dtype="float16")


def _scipy(rows: Rows) -> Engine:
    began = time.process_time()
    columns = sparse.csr_array(_unit(rows).T)
    seconds = time.process_time() - began

    def search(queries: Rows) -> NDArray[np.int64]:
        found = np.full((queries.shape[0], K), -1)
        for number in range(queries.shape[0]):
            scores: Any = queries[number : number + 1] @ columns
            best = np.argsort(-scores.data)[:K] if scores.nnz <= K else None
            if best is None:
                best = np.argpartition(-scores.data, K)[:K]
            found[number, : len(best)] = scores.indices[best]
        return found

    return Engine(search, None, seconds, _bytes(columns))


def _topn(rows: Rows) -> Engine:
    library = import_module("sparse_dot_topn")
    began = time.process_time()
    columns = sparse.csr_matrix(_unit(rows).T)
    seconds = time.process_time() - began

    def search(queries: Rows) -> NDArray[np.int64]:
        found = library.sp_matmul_topn(sparse.csr_matrix(queries), columns, top_n=K, sort=True)
        return _padded(found)

    return Engine(search, search, seconds, _bytes(columns))


def _qdrant(rows: Rows) -> Engine:
    library = import_module("qdrant_edge")
    folder = tempfile.mkdtemp()
    config = library.EdgeConfig(
        sparse_vectors={"features": library.EdgeSparseVectorParams()},
        max_search_threads=1,
        wal_enabled=False,
    )
    unit = _unit(rows)
    began = time.process_time()
    shard = library.EdgeShard.create(folder, config)
    for start in range(0, rows.shape[0], 10_000):
        points = [
            library.Point(number, {"features": _qdrant_vector(library, unit, number)})
            for number in range(start, min(start + 10_000, rows.shape[0]))
        ]
        shard.update(library.UpdateOperation.upsert_points(points))
    shard.optimize()
    seconds = time.process_time() - began

    def search(queries: Rows) -> NDArray[np.int64]:
        found = np.full((queries.shape[0], K), -1)
        for number in range(queries.shape[0]):
            vector = _qdrant_vector(library, queries, number)
            query = library.Query.Nearest(vector, using="features")
            hits = shard.query(library.QueryRequest(limit=K, query=query))
            found[number, : len(hits)] = [hit.id for hit in hits]
        return found

    return Engine(search, None, seconds)


def _qdrant_vector(library: Any, rows: Rows, number: int) -> Any:  # noqa: ANN401
    part = slice(rows.indptr[number], rows.indptr[number + 1])
    return library.SparseVector(rows.indices[part].tolist(), rows.data[part].tolist())


def _seismic(rows: Rows) -> Engine:
    library = import_module("seismic")
    unit = _unit(rows)
    words = np.array([str(j) for j in range(rows.shape[1])], dtype=library.get_seismic_string())
    began = time.process_time()
    dataset = library.SeismicDataset()
    for number in range(rows.shape[0]):
        part = slice(unit.indptr[number], unit.indptr[number + 1])
        dataset.add_document(str(number), words[unit.indices[part]], unit.data[part])
    index = library.SeismicIndex.build_from_dataset(dataset, num_threads=1)
    seconds = time.process_time() - began

    def search(queries: Rows) -> NDArray[np.int64]:
        found = np.full((queries.shape[0], K), -1)
        for number in range(queries.shape[0]):
            part = slice(queries.indptr[number], queries.indptr[number + 1])
            hits = index.search(
                query_id="", query_components=words[queries.indices[part]],
                query_values=queries.data[part], k=K, query_cut=10, heap_factor=0.8,
            )  # fmt: skip
            found[number, : len(hits)] = [int(hit[2]) for hit in hits]
        return found

    return Engine(search, None, seconds)


def _dense_rows(n_rows: int) -> NDArray[np.float32]:
    """Any dense rows: what a dense search costs does not depend on what is in them."""
    some = np.random.default_rng(0).standard_normal((10_000, N_DENSE), dtype=np.float32)
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    return np.resize(some, (n_rows, N_DENSE))


def _faiss(dense: NDArray[np.float32], queries: NDArray[np.float32]) -> Engine:
    library = import_module("faiss")
    library.omp_set_num_threads(1)
    began = time.process_time()
    index = library.IndexFlatIP(N_DENSE)
    index.add(dense)
    seconds = time.process_time() - began

    def search(sparse_queries: Rows) -> NDArray[np.int64]:
        return np.asarray(index.search(queries[: sparse_queries.shape[0]], K)[1])

    return Engine(search, None, seconds, dense.nbytes)


def _torch(dense: NDArray[np.float32], queries: NDArray[np.float32]) -> Engine:
    gallery = torch.from_numpy(dense)

    def search(sparse_queries: Rows) -> NDArray[np.int64]:
        asked = torch.from_numpy(queries[: sparse_queries.shape[0]])
        return (asked @ gallery.T).topk(K).indices.numpy()

    return Engine(search, search, 0.0, dense.nbytes)


SPARSE: dict[str, Callable[[Rows], Engine]] = {
    "nonneg": _nonneg,
    "nonneg, float16": _half,
    "nonneg, no numba": _without_numba,
    "SciPy": _scipy,
    "sparse_dot_topn": _topn,
    "qdrant-edge": _qdrant,
    "Seismic": _seismic,
}
DENSE: dict[str, Callable[..., Engine]] = {"faiss, flat": _faiss, "torch": _torch}


def _bytes(rows: Any) -> int:  # noqa: ANN401
    return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)


def _padded(found: Any) -> NDArray[np.int64]:  # noqa: ANN401
    numbers = np.full((found.shape[0], K), -1)
    for row in range(found.shape[0]):
        here = found.indices[found.indptr[row] : found.indptr[row + 1]]
        numbers[row, : len(here)] = here
    return numbers


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Timed(NamedTuple):
    """What one engine was measured to do.

    Args:
        one: Milliseconds for a query, one at a time.
        many: The same for all of them at once; None where the engine has no such call.
        seconds: To build.
        n_bytes: Of memory, where known.
        recall: Share of the exact ten nearest that it finds; None for dense engines.
        why_not: Why it was not measured.
    """

    one: float = 0.0
    many: float | None = None
    seconds: float = 0.0
    n_bytes: int | None = None
    recall: float | None = None
    why_not: str = ""


def _timed(engine: Engine, queries: Rows, exact: NDArray[np.float64] | None) -> Timed:
    """Medians over rounds, after a first search, which may compile."""
    singles = [queries[i : i + 1] for i in range(N_SINGLE)]
    engine.one(singles[0])
    one, many = [], []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for single in singles:
            engine.one(single)
        one.append((time.process_time() - began) / N_SINGLE)
        if engine.many is not None:
            began = time.process_time()
            engine.many(queries)
            many.append((time.process_time() - began) / queries.shape[0])
    recall = None
    if exact is not None:
        recall = recall_at_k((engine.many or engine.one)(queries[: len(exact)]), exact)
    batch = 1000 * median(many) if many else None
    return Timed(1000 * median(one), batch, engine.seconds, engine.n_bytes, recall)


def recall_at_k(found: NDArray[np.int64], exact: NDArray[np.float64]) -> float:
    """The share of what was found that is as near as the exact k nearest, or a tie with them."""
    last = np.partition(exact, -K, axis=1)[:, -K:].min(axis=1, keepdims=True) - 1e-6
    cosines = np.take_along_axis(exact, np.maximum(found, 0), axis=1)
    return float(((cosines >= last) & (found >= 0)).mean())


def measure(active: int, n_rows: int, names: list[str]) -> dict[str, Any]:
    """Everything for one number of active features."""
    fitted, asked = fitted_rows(active)
    rows = many_rows(fitted, n_rows)
    queries = _unit(asked[np.random.default_rng(1).permutation(asked.shape[0])[:N_QUERIES]])
    exact = exact_cosines(rows, queries)
    found: dict[str, Timed] = {}
    with _one_thread():
        dense, dense_queries = _dense_rows(n_rows), _dense_rows(N_QUERIES)
        for name in filter(names.__contains__, DENSE):
            made = partial(DENSE[name], dense, dense_queries)
            found[name] = _guarded(name, made, queries, None)
        for name in filter(names.__contains__, SPARSE):
            found[name] = _guarded(name, partial(SPARSE[name], rows), queries, exact)
        changes = _changes(rows, queries, exact)
    lists = np.bincount(rows.indices, minlength=rows.shape[1])
    return {
        "shape": rows.shape,
        "active": rows.nnz / n_rows,
        "active_queries": queries.nnz / queries.shape[0],
        "postings": float(lists[queries.indices].sum() / queries.shape[0]),
        "engines": found,
        **changes,
    }


def _guarded(
    name: str, make: Callable[[], Engine], queries: Rows, exact: NDArray[np.float64] | None
) -> Timed:
    try:
        found = _timed(make(), queries, exact)
    except (ImportError, RuntimeError, OSError) as error:
        found = Timed(why_not=next(iter(str(error).splitlines()), type(error).__name__))
    print(f"{name}: {found}", file=sys.stderr, flush=True)
    return found


def _changes(rows: Rows, queries: Rows, exact: NDArray[np.float64]) -> dict[str, Any]:
    """How far cosines are from exact ones, and what adding and removing cost."""
    index = SparseIndex.of(rows)
    hits = index.search(queries[: len(exact)], K)
    best = -np.sort(-np.partition(exact, -K, axis=1)[:, -K:], axis=1)
    others = rows[:N_CHANGED]
    seconds = {}
    for name, act in {
        "add": lambda: index.add(others),
        "remove": lambda: index.remove(np.arange(0, 100 * N_CHANGED, 100) % rows.shape[0]),
        "search after": lambda: index.search(queries[:1], K),
    }.items():
        began = time.process_time()
        act()
        seconds[name] = 1000 * (time.process_time() - began)
    with tempfile.TemporaryDirectory() as folder:
        index.save(folder)
        began = time.process_time()
        SparseIndex.load(folder)
        seconds["load"] = 1000 * (time.process_time() - began)
    return {"difference": float(np.abs(hits.cosines - best).max()), "milliseconds": seconds}


def table(measured: dict[int, dict[str, Any]]) -> str:
    """The tables and the bars, as Markdown."""
    parts = []
    for active, found in measured.items():
        n_rows, n_features = found["shape"]
        settings = ", ".join(f"{key}={value!r}" for key, value in FITS[active].items())
        dense_bytes = 4 * N_DENSE * n_rows
        lines = [
            f"### {active} active",
            "",
            f"`NCL({settings})`: {n_rows:,} rows × {n_features:,} features, {found['active']:.1f} "
            f"active, queries {found['active_queries']:.1f}; a query's lists hold "
            f"{found['postings']:,.0f} entries.",
            "",
            "| | ms, one at a time | ms, in a batch | recall@10 | build, s | MB |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for name, timed in found["engines"].items():
            if timed.why_not:
                lines.append(f"| {name} | {timed.why_not} | | | | |")
                continue
            batch = "" if timed.many is None else f"{timed.many:.2f}"
            recall = "" if timed.recall is None else f"{timed.recall:.4f}"
            size = "" if timed.n_bytes is None else f"{timed.n_bytes / 1e6:,.0f}"
            lines.append(
                f"| {name} | {timed.one:.2f} | {batch} | {recall} | {timed.seconds:.1f} | {size} |"
            )
        times = found["milliseconds"]
        lines += [
            "",
            f"{N_CHANGED:,} rows are added in {times['add']:.0f} ms and removed in "
            f"{times['remove']:.0f} ms; the next search takes {times['search after']:.1f} ms, "
            f"loading {times['load']:.0f} ms. Cosines are exact to {found['difference']:.1e}.",
            "",
            *[f"- {line}" for line in _bars(active, found, dense_bytes)],
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _bars(active: int, found: dict[str, Any], dense_bytes: int) -> Iterator[str]:
    """What was asked for, held or missed."""
    engines: dict[str, Timed] = found["engines"]
    ours, half = engines["nonneg"], engines.get("nonneg, float16", Timed(why_not="left out"))
    faiss = engines.get("faiss, flat", Timed(why_not="left out"))
    product = engines.get("torch", Timed(why_not="left out"))
    yield _bar("cosines exact to 1e-6", found["difference"], found["difference"] <= 1e-6, ".1e")
    if not half.why_not and half.recall is not None:
        yield _bar("float16: recall@10 ≥ 0.999", half.recall, half.recall >= 0.999, ".4f")
    if not faiss.why_not:
        ratio = faiss.one / ours.one
        yield _bar("one at a time ≥ 10 × faiss flat", ratio, ratio >= 10, ".1f")
    if not product.why_not and product.many and ours.many:
        ratio = product.many / ours.many
        yield _bar("in batches ≥ 3 × torch product and topk", ratio, ratio >= 3, ".1f")
    for (number, dtype), share in MEMORY_BARS.items():
        timed = ours if dtype == "float32" else half
        if number == active and timed.n_bytes:
            ratio = dense_bytes / timed.n_bytes
            text = f"memory, {dtype}: at most 1/{share} of dense"
            yield _bar(text, ratio, ratio >= share, ".1f", of="1/")
    yield _bar("build ≤ 10 s", ours.seconds, ours.seconds <= 10, ".1f")


def _bar(text: str, value: float, is_held: bool, form: str, *, of: str = "") -> str:
    shown = f"{of}{value:{form}}"
    return f"{text}: {shown}, held" if is_held else f"**{text}: {shown}, missed**"


def section(n_rows: int = N_ROWS, names: list[str] | None = None) -> str:
    """All tables."""
    reason = missing(("clinc150_train.npy", "clinc150_val.npy"))
    source = "CLINC150's requests" if reason is None else f"planted vectors ({reason})"
    chosen = names or [*DENSE, *SPARSE]
    measured = {active: measure(active, n_rows, chosen) for active in FITS}
    return (
        f"Exact top {K} by cosine; rows made from a fit of {source}: drawn with replacement, one "
        "in five entries exchanged for an entry of any row, values times e to a normal number of "
        f"deviation {_DEVIATION}. Queries are other requests. Dense rows have {N_DENSE} numbers. "
        "One thread, processor time, medians of three rounds; batches of "
        f"{N_QUERIES} queries. Seismic is approximate by design.\n\n{table(measured)}"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search")
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--engines", nargs="+", choices=[*DENSE, *SPARSE])
    given = parser.parse_args()
    print(section(given.rows, given.engines))


if __name__ == "__main__":
    main()
