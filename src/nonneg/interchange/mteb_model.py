"""Fitted runs on texts in mteb: as a model, with our index for its retrieval tasks.

Three of its tasks read their texts from a local folder, so that nothing is downloaded.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nonneg.rows import unit_rows
from nonneg.search.sparse_index import SparseIndex

# So many documents of a corpus are dense at once.
_CHUNK = 10_000


class TextFeatures(Protocol):
    """What makes features of texts, such as :class:`nonneg.runs.run_model.RunModel`."""

    digest: str

    @property
    def n_features(self) -> int:
        """Columns of the features."""
        ...

    def of_texts(self, texts: Sequence[str]) -> sparse.csr_array:
        """Features ``(n, n_features)``."""
        ...


class MtebModel:
    """A fitted run as mteb takes it: ``mteb.evaluate(MtebModel(RunModel("runs/mine")), tasks)``.

    Embeddings are features scaled to length 1. Retrieval and reranking use a
    :class:`nonneg.SparseIndex`. Prompts of tasks are not used.

    Args:
        model: The run.
        name: ``owner/name`` of the results; None for the folder's name.

    Raises:
        ImportError: mteb is not installed.
    """

    def __init__(self, model: TextFeatures, name: str | None = None) -> None:
        mteb_models = _mteb("mteb.models")
        folder = Path(getattr(model, "folder", "features")).resolve().name
        self.model = model
        self.mteb_model_meta = mteb_models.ModelMeta.create_empty(
            overwrites={
                "name": name or f"nonneg/{re.sub(r'[^A-Za-z0-9._-]', '-', folder)}",
                "revision": model.digest,
                "embed_dim": model.n_features,
                "similarity_fn_name": import_module("mteb.models.model_meta").ScoringFunction(
                    "cosine"
                ),
                "framework": ["PyTorch"],
                "model_type": ["sparse"],
                "use_instructions": False,
            }
        )
        self._search = mteb_models.SearchEncoderWrapper(self, index_backend=SparseBackend())

    def encode(
        self,
        inputs: Any,  # noqa: ANN401
        **_: Any,  # noqa: ANN401
    ) -> NDArray[np.float32]:
        """Features of texts, rows of length 1 or of zeros, float32 ``(n, n_features)``.

        Args:
            inputs: Batches, each a table with the column ``text``.
        """
        texts = [text for batch in inputs for text in batch["text"]]
        if not texts:
            return np.zeros((0, self.model.n_features), dtype=np.float32)
        features = torch.from_numpy(self.model.of_texts(texts).toarray())
        return np.asarray(unit_rows(features).numpy(), dtype=np.float32)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:  # noqa: ANN401
        """Cosines of all rows of one side with all of the other ``(n, m)``."""
        first, second = (_rows(side) for side in (embeddings1, embeddings2))
        return first @ second.T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:  # noqa: ANN401
        """Cosine of each row of one side with that of the other ``(n,)``."""
        first, second = (_rows(side) for side in (embeddings1, embeddings2))
        return (first * second).sum(dim=1)

    def index(self, corpus: Any, **given: Any) -> None:  # noqa: ANN401
        """Put a corpus into the index, part by part."""
        self._search.index_backend.clear()
        for start in range(0, len(corpus), _CHUNK):
            part = corpus.select(range(start, min(start + _CHUNK, len(corpus))))
            self._search.index(part, **given)
        self._search.task_corpus = corpus

    def search(self, queries: Any, **given: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401
        """The nearest documents of each query, or those given in a new order."""
        found: dict[str, dict[str, float]] = self._search.search(queries, **given)
        return found


class SparseBackend:
    """A :class:`nonneg.SparseIndex` where mteb asks for an ``index_backend``.

    Documents that share no feature with a query are not found; among given ones they come last.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all documents."""
        self._ids: list[str] = []
        self._index: SparseIndex | None = None

    def add_documents(self, embeddings: Any, idxs: Sequence[str]) -> None:  # noqa: ANN401
        """Add documents.

        Args:
            embeddings: Their features ``(n, d)``.
            idxs: Their ids in mteb.
        """
        rows = np.asarray(embeddings, dtype=np.float32)
        if self._index is None:
            self._index = SparseIndex(rows.shape[1])
        self._index.add(rows, np.arange(len(self._ids), len(self._ids) + len(rows)))
        self._ids += list(idxs)

    def search(
        self,
        embeddings: Any,  # noqa: ANN401
        top_k: int,
        similarity_fn: Any = None,  # noqa: ANN401
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        query_idx_to_id: Mapping[int, str] | None = None,
    ) -> tuple[list[list[float]], list[list[int]]]:
        """Cosines and places of the nearest documents of each query, the nearest first.

        Args:
            embeddings: Features of the queries ``(n, d)``.
            top_k: At most so many each.
            similarity_fn: Not used: it is the cosine.
            top_ranked: The documents to put in order, by the id of the query; places are then
                those among them.
            query_idx_to_id: The id of each query.
        """
        if self._index is None:
            raise ValueError("there are no documents; call add_documents first")
        queries = np.asarray(embeddings, dtype=np.float32)
        if top_ranked is None:
            hits = self._index.search(queries, min(top_k, max(len(self._ids), 1)))
            found = [_there(*row) for row in zip(hits.ids, hits.cosines, strict=True)]
        else:
            names = query_idx_to_id or {}
            given = (top_ranked.get(names.get(row, ""), ()) for row in range(len(queries)))
            found = [
                self._ordered(query, list(ids), top_k)
                for query, ids in zip(queries, given, strict=True)
            ]
        return [cosines for cosines, _ in found], [places for _, places in found]

    def _ordered(
        self, query: NDArray[np.float32], ids: list[str], top_k: int
    ) -> tuple[list[float], list[int]]:
        if not ids or self._index is None:
            return [], []
        numbers = {name: number for number, name in enumerate(self._ids)}
        place = {numbers[name]: at for at, name in enumerate(ids)}
        hits = self._index.search(query[None], len(place), among=np.array(list(place)))
        cosines, found = _there(hits.ids[0], hits.cosines[0])
        last = [number for number in place if number not in set(found)]
        cosines += [0.0] * len(last)
        return cosines[:top_k], [place[number] for number in (found + last)[:top_k]]


def _there(ids: NDArray[Any], cosines: NDArray[np.float32]) -> tuple[list[float], list[int]]:
    """Without the places where nothing was found."""
    is_there = ids >= 0
    return cosines[is_there].tolist(), ids[is_there].tolist()


def _rows(embeddings: Any) -> torch.Tensor:  # noqa: ANN401
    rows = torch.as_tensor(embeddings, dtype=torch.float32)
    return unit_rows(rows if rows.ndim == 2 else rows[None])


class _TaskKind(NamedTuple):
    """What mteb is told of a task, and how its folder is read."""

    base: str
    """The class of mteb."""
    type: str
    main_score: str
    description: str
    read: Callable[[Path], Any]


def local_task(name: str, folder: str | Path) -> Any:  # noqa: ANN401
    """A task of mteb that reads its texts from a folder.

    Files are JSON lines, ``.jsonl`` or ``.jsonl.gz``:

    - ``"SciFact"`` (retrieval, nDCG@10): ``corpus`` with ``id``, ``title`` and ``text``, and
      ``queries_test`` with ``id``, ``text`` and ``relevant``, a list of ids of the corpus;
    - ``"CLINC150"`` (classification, accuracy): ``train`` and ``test`` with ``text`` and ``label``;
    - ``"20Newsgroups"`` (clustering, V-measure): ``test`` with ``text`` and ``label``.

    Args:
        name: One of these three; any other data in such files will do too.
        folder: Where the files are.

    Raises:
        ImportError: mteb is not installed.
    """
    if name not in _TASKS:
        raise ValueError(f"unknown task {name!r}; known: {', '.join(_TASKS)}")
    kind, place = _TASKS[name], Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {place}; give the one with the texts")
    abstasks = _mteb("mteb.abstasks")
    metadata = import_module("mteb.abstasks.task_metadata").TaskMetadata(
        name=f"Local{name}",
        description=kind.description,
        dataset={"path": f"local/{name.lower()}", "revision": "local"},
        type=kind.type,
        category="t2t" if kind.type == "Retrieval" else "t2c",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=kind.main_score,
    )

    def load_data(task: Any, num_proc: int | None = None, **_: Any) -> None:  # noqa: ANN401
        if not task.data_loaded:
            task.dataset, task.data_loaded = kind.read(place), True

    body = {"metadata": metadata, "load_data": load_data}
    return type(f"Local{name}", (getattr(abstasks, kind.base),), body)()


def _retrieval(folder: Path) -> Any:  # noqa: ANN401
    columns = _mteb("datasets").Dataset.from_list
    corpus = [
        {key: str(record.get(key, "")) for key in ("id", "title", "text")}
        for record in _records(folder, "corpus", "id", "text")
    ]
    asked = list(_records(folder, "queries_test", "id", "text", "relevant"))
    split = {
        "corpus": columns(corpus),
        "queries": columns([{"id": str(q["id"]), "text": str(q["text"])} for q in asked]),
        "relevant_docs": {str(q["id"]): {str(one): 1 for one in q["relevant"]} for q in asked},
        "top_ranked": None,
    }
    return {"default": {"test": split}}


def _classification(folder: Path) -> Any:  # noqa: ANN401
    datasets = _mteb("datasets")
    return datasets.DatasetDict(
        {split: datasets.Dataset.from_list(_labelled(folder, split)) for split in ("train", "test")}
    )


def _clustering(folder: Path) -> Any:  # noqa: ANN401
    datasets, records = _mteb("datasets"), _labelled(folder, "test")
    columns = {"sentences": [r["text"] for r in records], "labels": [r["label"] for r in records]}
    return datasets.DatasetDict({"test": datasets.Dataset.from_dict(columns)})


_TASKS = {
    "SciFact": _TaskKind(
        "AbsTaskRetrieval", "Retrieval", "ndcg_at_10", "Abstracts that bear on a claim.", _retrieval
    ),
    "CLINC150": _TaskKind(
        "AbsTaskClassification",
        "Classification",
        "accuracy",
        "Intents of short requests.",
        _classification,
    ),
    "20Newsgroups": _TaskKind(
        "AbsTaskClustering", "Clustering", "v_measure", "Groups of posts.", _clustering
    ),
}


def _labelled(folder: Path, name: str) -> list[dict[str, Any]]:
    records = _records(folder, name, "text", "label")
    return [{"text": str(record["text"]), "label": record["label"]} for record in records]


def _records(folder: Path, name: str, *keys: str) -> Iterator[dict[str, Any]]:
    """The records of a file of JSON lines, which have at least these keys."""
    found = [path for ending in ("", ".gz") if (path := folder / f"{name}.jsonl{ending}").is_file()]
    if not found:
        raise FileNotFoundError(f"{folder} lacks {name}.jsonl or {name}.jsonl.gz")
    opened = gzip.open if found[0].suffix == ".gz" else open
    with opened(found[0], "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            place = f"line {number} of {found[0]}"
            try:
                record = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{place} is not readable JSON ({error})") from error
            if not isinstance(record, dict) or not record.keys() >= set(keys):
                raise ValueError(f"{place} lacks one of {', '.join(keys)}")
            yield record


def _mteb(module: str) -> Any:  # noqa: ANN401
    try:
        return import_module(module)
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"measuring with mteb needs mteb, which cannot be imported ({error}); install it with: "
            "pip install 'nonneg[mteb]'"
        ) from error
