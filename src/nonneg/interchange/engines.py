"""Sparse features as points of search engines: files to load, their settings, and a query."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nonneg.io import replaced_folder, write_bytes, write_json
from nonneg.rows import unit_rows

EXPORT_FILE = "export.json"
QUERY_FILE = "query.json"
FIELD = "features"
# A file of an engine is one request: it holds so many points, or ends after so many bytes.
_MOST_POINTS = 1000
_MOST_BYTES = 8 << 20
_N_HITS = 10
# Elasticsearch and OpenSearch refuse smaller numbers; of a row of length 1 they are nothing.
_SMALLEST = float(np.finfo(np.float32).tiny)

Payload = Callable[[int, int], Sequence[Mapping[str, Any]]]


class Point(NamedTuple):
    """One sample, its numbers written out so that reading them gives the same float32."""

    number: int
    indices: list[str]
    values: list[str]
    payload: Mapping[str, Any]


def _json(content: Any) -> str:  # noqa: ANN401
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _as_lists(point: Point) -> str:
    return f'"indices":[{",".join(point.indices)}],"values":[{",".join(point.values)}]'


def _qdrant_point(point: Point) -> str:
    vector = f'{{"{FIELD}":{{{_as_lists(point)}}}}}'
    return f'{{"id":{point.number},"vector":{vector},"payload":{_json(point.payload)}}}'


def _bulk_lines(point: Point) -> str:
    pairs = zip(point.indices, point.values, strict=True)
    weights = ",".join(f'"{index}":{value}' for index, value in pairs)
    others = _json(point.payload)[1:-1]
    document = f'{{"{FIELD}":{{{weights}}}{"," if others else ""}{others}}}'
    return f'{{"index":{{"_id":"{point.number}"}}}}\n{document}\n'


def _json_line(point: Point) -> str:
    others = _json(point.payload)[1:-1]
    return f'{{"id":{point.number},{_as_lists(point)}{"," if others else ""}{others}}}\n'


def _qdrant_query(weights: dict[str, float], k: int) -> dict[str, Any]:
    vector = {"indices": list(map(int, weights)), "values": list(weights.values())}
    return {"query": vector, "using": FIELD, "limit": k, "with_payload": True}


def _elasticsearch_query(weights: dict[str, float], k: int) -> dict[str, Any]:
    query = {"field": FIELD, "query_vector": weights, "prune": False}
    return {"size": k, "_source": _SHOWN, "query": {"sparse_vector": query}}


def _opensearch_query(weights: dict[str, float], k: int) -> dict[str, Any]:
    query = {"neural_sparse": {FIELD: {"query_tokens": weights}}}
    return {"size": k, "_source": _SHOWN, "query": query}


_SHOWN = ["text", "label", "date"]
_OTHER_FIELDS = {
    "text": {"type": "text"},
    "label": {"type": "keyword"},
    "date": {"type": "date", "format": "yyyy-MM-dd"},
}


def _mapping(field: dict[str, Any]) -> dict[str, Any]:
    return {"mappings": {"properties": {FIELD: field, **_OTHER_FIELDS}}}


class Engine(NamedTuple):
    """How an engine takes points."""

    part: str
    """The name of a file of points, with its number."""
    point: Callable[[Point], str]
    around: tuple[str, str, str] = ("", "", "")
    """What a file begins with, has between points, and ends with."""
    settings: tuple[str, dict[str, Any]] | None = None
    """A file that makes the collection or index, and its content."""
    query: Callable[[dict[str, float], int], dict[str, Any]] | None = None
    """The body of a search for a row of weights and so many hits."""
    takes_negative: bool = True
    is_one_file: bool = False
    guide: str = ""
    """How to load the files."""


_QDRANT_GUIDE = """Qdrant 1.10 or newer; scores are cosines.

```sh
URL=http://localhost:6333 NAME=features
curl -fX PUT "$URL/collections/$NAME" -H 'Content-Type: application/json' -d @collection.json
for part in points-*.json; do
  curl -fX PUT "$URL/collections/$NAME/points?wait=true" -H 'Content-Type: application/json' \\
    --data-binary "@$part"
done
curl -f "$URL/collections/$NAME/points/query" -H 'Content-Type: application/json' -d @query.json
```
"""
_BULK_GUIDE = """{version}; scores are cosines up to 0.4 %, since weights are kept to 9 bits.

```sh
URL=http://localhost:9200 NAME=features
curl -fX PUT "$URL/$NAME" -H 'Content-Type: application/json' -d @index.json
for part in points-*.ndjson; do
  curl -fX POST "$URL/$NAME/_bulk" -H 'Content-Type: application/x-ndjson' --data-binary "@$part"
done
# each answer says "errors":false
curl -fX POST "$URL/$NAME/_refresh"
curl -f "$URL/$NAME/_search" -H 'Content-Type: application/json' -d @query.json
```
"""

ENGINES = {
    "qdrant": Engine(
        part="points-{:05d}.json",
        point=_qdrant_point,
        around=('{"points":[\n', ",\n", "\n]}\n"),
        settings=("collection.json", {"sparse_vectors": {FIELD: {}}}),
        query=_qdrant_query,
        guide=_QDRANT_GUIDE,
    ),
    "elasticsearch": Engine(
        part="points-{:05d}.ndjson",
        point=_bulk_lines,
        # By default queries are pruned of common features of small weight.
        settings=(
            "index.json",
            _mapping({"type": "sparse_vector", "index_options": {"prune": False}}),
        ),
        query=_elasticsearch_query,
        takes_negative=False,
        guide=_BULK_GUIDE.format(version="Elasticsearch 8.19, 9.1 or newer"),
    ),
    "opensearch": Engine(
        part="points-{:05d}.ndjson",
        point=_bulk_lines,
        settings=("index.json", _mapping({"type": "rank_features"})),
        query=_opensearch_query,
        takes_negative=False,
        guide=_BULK_GUIDE.format(version="OpenSearch 2.17 or newer, with its neural search plugin"),
    ),
    "jsonl": Engine(
        part="points.jsonl",
        point=_json_line,
        is_one_file=True,
        guide="One sample per line: `indices` are numbers of features, `values` their values.\n",
    ),
}


class Written(NamedTuple):
    """What ``write_points`` has written."""

    n_points: int
    n_files: int


def engine_query(engine: str, row: Any, *, k: int = 10) -> dict[str, Any]:  # noqa: ANN401
    """The body of a search for the k points that are nearest to a row of features, by cosine.

    Args:
        engine: ``"qdrant"``, ``"elasticsearch"`` or ``"opensearch"``.
        row: ``(n_features,)`` or ``(1, n_features)``, an array or SciPy sparse, not all zero.
        k: The number of hits.

    Example:
        >>> engine_query("qdrant", [0.0, 3.0, 0.0, 4.0], k=5)["query"]
        {'indices': [1, 3], 'values': [0.6, 0.8]}
    """
    known = _engine(engine)
    if known.query is None:
        raise ValueError(f"{engine} is a file and has no queries; name a search engine")
    dense = np.asarray(row.toarray() if _is_sparse(row) else row)
    if dense.size == 0 or dense.size != max(dense.shape, default=0):
        raise ValueError(f"give one row of features, got an array of shape {dense.shape}")
    weights = _scaled(dense.reshape(1, -1).astype(np.float32), engine, known)
    if not weights.nnz:
        raise ValueError("a row without any feature finds nothing; give another text or row")
    numbers = zip(weights.indices.tolist(), _texts(weights.data), strict=True)
    return known.query({str(number): float(text) for number, text in numbers}, k)


def write_points(
    engine: str,
    parts: Iterable[NDArray[np.float32]],
    out: str | Path,
    *,
    names: Sequence[str],
    payload: Payload = lambda start, stop: [{}] * (stop - start),
    mark: Mapping[str, Any] | None = None,
) -> Written:
    """Write a folder that a search engine loads, part by part, whatever the number of points.

    Rows have length 1, so that dot products are cosines; ``jsonl`` has features as they are. In the
    folder are files of points, each a request of moderate size, the settings of the collection or
    index, a query for the first point, the names of the features, and how to load all this.

    Args:
        engine: A key of ``ENGINES``.
        parts: Features ``(some, n_features)``; points are numbered from 0 on.
        out: What is there is replaced, when all is written.
        names: One per feature.
        payload: What else is known of the points from one number to another, such as ``text``.
        mark: Written as ``export.json``, with the number of points.

    Raises:
        ValueError: Features are negative and the engine takes none such, or a text is no Unicode.
        OSError: The folder cannot be written.
    """
    known, out = _engine(engine), Path(out)
    n_points = n_files = 0
    example: dict[str, float] = {}
    with replaced_folder(out) as folder:
        for points in _batches(_points(engine, known, parts, payload), known):
            with (folder / known.part.format(n_files)).open("ab") as file:
                file.write(_content(points, known))
            first = next((point for point, _ in points if point.indices), None)
            if first is not None and not example:
                example = dict(zip(first.indices, map(float, first.values), strict=True))
            n_points += len(points)
            n_files += not known.is_one_file
        if known.query is not None and example:
            write_json(folder / QUERY_FILE, known.query(example, _N_HITS))
        if known.settings is not None:
            write_json(folder / known.settings[0], known.settings[1])
        write_json(folder / "feature_names.json", list(names))
        write_bytes(folder / "README.md", _readme(engine, known, n_points, len(names)).encode())
        counts = {"n_points": n_points, "n_features": len(names)}
        write_json(folder / EXPORT_FILE, {**(mark or {}), **counts})
    return Written(n_points, max(n_files, 1))


def _is_sparse(row: Any) -> bool:  # noqa: ANN401
    found: bool = sparse.issparse(row)
    return found


def _engine(name: str) -> Engine:
    if name not in ENGINES:
        raise ValueError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    return ENGINES[name]


def _points(
    name: str, engine: Engine, parts: Iterable[NDArray[np.float32]], payload: Payload
) -> Iterator[Point]:
    start = 0
    for part in parts:
        rows = _scaled(part, name, engine)
        indices, values = rows.indices.astype(str).tolist(), _texts(rows.data)
        known = payload(start, start + len(part))
        for number, (begin, end) in enumerate(pairwise(rows.indptr.tolist())):
            yield Point(start + number, indices[begin:end], values[begin:end], known[number])
        start += len(part)


def _scaled(part: NDArray[np.float32], name: str, engine: Engine) -> sparse.csr_array:
    """Rows as the engine takes them, sparse; zeros are left out."""
    if engine.query is None:
        return sparse.csr_array(part)
    if not engine.takes_negative and part.size and part.min() < 0:
        raise ValueError(
            f"{name} takes no negative features, and there are some (min {part.min():.3g}); export "
            "to qdrant or jsonl, or a run of non-negative features"
        )
    rows = unit_rows(torch.from_numpy(np.ascontiguousarray(part))).numpy()
    if not engine.takes_negative:
        rows[rows < _SMALLEST] = 0
    return sparse.csr_array(rows)


def _texts(values: NDArray[np.float32]) -> list[str]:
    """The shortest decimal numbers that are read as the same float32."""
    texts: list[str] = values.astype(str).tolist()
    return texts


def _batches(points: Iterable[Point], engine: Engine) -> Iterator[list[tuple[Point, str]]]:
    """Points with their texts, as many as go into one file."""
    batch: list[tuple[Point, str]] = []
    size = 0
    for point in points:
        text = engine.point(point)
        if batch and (len(batch) == _MOST_POINTS or size + len(text) > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((point, text))
        size += len(text)
    if batch:
        yield batch


def _content(points: Sequence[tuple[Point, str]], engine: Engine) -> bytes:
    begin, between, end = engine.around
    try:
        return f"{begin}{between.join(text for _, text in points)}{end}".encode()
    except UnicodeEncodeError as error:
        wrong = next(point.number for point, text in points if not _is_unicode(text))
        raise ValueError(
            f"the text of sample {wrong} holds half a character (a lone surrogate), which no "
            "engine takes; mend the text"
        ) from error


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _readme(name: str, engine: Engine, n_points: int, n_features: int) -> str:
    lines = [
        f"# {n_points:,} points of {n_features:,} features, for {name}",
        "",
        "Written by nonneg. `feature_names.json` has the names of the features, in the order of "
        "their numbers.",
        "",
        engine.guide,
    ]
    if engine.query is not None:
        lines += [
            "`query.json` looks for the first point that has a feature: it finds that point with "
            "score 1. For a row of your own, `nonneg.interchange.engine_query` makes the body.",
            "",
        ]
    return "\n".join(lines)
