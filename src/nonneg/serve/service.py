"""What a server answers of one run: features, hits and explanations; nothing of the web."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg.estimators.reading import Explanation, explanation
from nonneg.runs.indexing import INDEX_FOLDER
from nonneg.runs.record import is_fitted
from nonneg.runs.run_model import RunModel
from nonneg.runs.searching import RunSearch
from nonneg.search.sparse_index import SparseIndex
from nonneg.serve.batching import Batches, StoppedError, TooBusyError
from nonneg.serve.bodies import Feature, Given, Hit, Search

Id = int | str


class RefusedError(Exception):
    """A request that gets no answer: an HTTP status, and why in one sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(frozen=True)
class Limits:
    """What one client can ask of the server."""

    max_batch: int = 256
    """Inputs per request."""
    max_body: int = 4_000_000
    """Bytes per request."""
    timeout: float = 30.0
    """Seconds until a request is given up."""
    max_waiting: int = 1024
    """Inputs of all clients that wait for the model."""


class _Inputs(NamedTuple):
    """What the model is to compute the features of: texts, or vectors ``(n, d)``."""

    texts: list[str] | None
    vectors: NDArray[np.float32] | None


# Inputs that the model reads at once, of different requests.
_MOST_AT_ONCE = 128


class Service:
    """A run, and an index of its features where there is one, for concurrent requests.

    Args:
        model: Of the run.
        index: Of features of the same run.
        texts: Of the samples of the index, by id; None where they are not known.
        limits: What a request may ask.
    """

    def __init__(
        self,
        model: RunModel,
        index: SparseIndex | None = None,
        *,
        texts: Callable[[Id], str | None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.model, self.index, self.limits = model, index, limits or Limits()
        # Rows come without names of columns, of which scikit-learn would warn each time.
        model.ncl.__dict__.pop("feature_names_in_", None)
        self.names, self.n_features = model.names, model.n_features
        self.reads_texts = model.reads_texts
        # Before the first request: what cannot be loaded is said, and code is compiled.
        if self.reads_texts:
            model.text_encoder.encode(["."])
        if index is not None:
            index.search(sparse.csr_array(([1.0], ([0], [0])), shape=(1, self.n_features)), 1)
        self._text_of = texts
        waiting = self.limits.max_waiting
        self.embedding = Batches(
            self._computed, most=_MOST_AT_ONCE, most_waiting=waiting, name="embedding"
        )
        # A thread of its own: a search need not wait for a batch of texts.
        self.searching: Batches[Callable[[], Any], Any] = Batches(
            lambda works: [work() for work in works],
            most=1,
            most_waiting=waiting,
            wait=0,
            name="searching",
        )

    @property
    def name(self) -> str:
        """Of the run."""
        return self.model.folder.resolve().name

    @property
    def is_running(self) -> bool:
        """Whether requests are answered."""
        return self.embedding.is_running and self.searching.is_running

    def close(self) -> None:
        """Finish what was begun; no request is answered from now on."""
        self.embedding.close()
        self.searching.close()

    async def features_of(self, inputs: Any, name: str) -> sparse.csr_array:  # noqa: ANN401
        """Features of what ``/embed_sparse`` and ``/v1/embeddings`` take, ``(n, n_features)``.

        Args:
            inputs: A text, texts, a vector or vectors.
            name: Of the field that they stand in.
        """
        first = inputs[0]
        are_texts = isinstance(inputs, str) or isinstance(first, str)
        if are_texts != self.reads_texts:
            raise RefusedError(422, self._other_kind(are_texts=are_texts))
        if are_texts:
            return await self._of_texts([inputs] if isinstance(inputs, str) else inputs, name)
        return await self._of_vectors(inputs if isinstance(first, list) else [inputs], name)

    async def rows_of(self, given: Given) -> sparse.csr_array:
        """Features of texts, vectors or rows of features ``(n, n_features)``."""
        kinds = {"texts": given.texts, "vectors": given.vectors, "rows": given.rows}
        if sum(values is not None for values in kinds.values()) != 1:
            raise RefusedError(422, f"give one of {', '.join(kinds)}")
        if given.vectors is not None:
            return await self._of_vectors(given.vectors, "vectors")
        if given.rows is not None:
            self._check_number(len(given.rows), "rows")
            return self._rows(given.rows)
        assert given.texts is not None
        if not self.reads_texts:
            raise RefusedError(422, self._other_kind(are_texts=True))
        return await self._of_texts(given.texts, "texts")

    async def search(self, asked: Search) -> list[list[Hit]]:
        """The hits of each query."""
        index = self._index()
        queries = await self.rows_of(asked)
        return await self._hits(index, queries, asked.k, asked.among)

    async def explain(self, given: Given, id: Id | None) -> Explanation:
        """The features that two inputs share, or one and a sample of the index; or of one alone."""
        rows = await self.rows_of(given)
        if id is not None:
            if rows.shape[0] != 1:
                raise RefusedError(422, "give one input beside an id")
            index = self._index()
            explained: Explanation = await self._within(
                self.searching, lambda: index.explain(rows, id, self.names), 1, unknown=404
            )
            return explained
        if rows.shape[0] > 2:
            raise RefusedError(422, "give two inputs, one beside an id, or one alone")
        dense = rows.toarray()
        return explanation(dense[0], dense[-1], self.names)

    def n_tokens(self, inputs: Any) -> int:  # noqa: ANN401
        """Tokens that the encoder reads of texts; 0 for vectors, or where it does not say."""
        texts = [inputs] if isinstance(inputs, str) else inputs
        if not isinstance(texts[0], str):
            return 0
        model = self.model.text_encoder.model
        tokenizer, longest = (getattr(model, key, None) for key in ("tokenizer", "max_seq_length"))
        if not callable(tokenizer):
            return 0
        found = tokenizer(texts, truncation=longest is not None, max_length=longest)
        return sum(map(len, found["input_ids"]))

    def feature(self, number: int) -> Feature:
        """What is known of a feature."""
        if not 0 <= number < self.n_features:
            raise RefusedError(
                404, f"there is no feature {number}; they are numbered 0 to {self.n_features - 1}"
            )
        ncl = self.model.ncl
        groups = {n: group for group in ncl.curation_.merged for n in group}
        group = groups.get(number, ())
        return Feature(
            feature=number,
            name=self.names[number],
            expected_activation=float(ncl.expected_activation_[number]),
            is_hidden=number in ncl.curation_.hidden,
            merged_into=group[0] if group and group[0] != number else None,
            members=list(group) if group and group[0] == number else [],
        )

    async def strongest(self, number: int, k: int = 10) -> list[Hit] | None:
        """The samples of the index that consist of a feature most; None without an index."""
        if self.index is None:
            return None
        one = sparse.csr_array(([1.0], ([0], [number])), shape=(1, self.n_features))
        (hits,) = await self._hits(self.index, one, k)
        return hits

    def ranked(self, find: str) -> list[int]:
        """Features by expected activation whose name has some words in it, in any case."""
        words = find.casefold()
        numbers = self.model.ncl.rank_.tolist()
        return [n for n in numbers if words in self.names[n].casefold()] if words else numbers

    async def _of_texts(self, texts: list[str], name: str) -> sparse.csr_array:
        self._check_number(len(texts), name)
        for place, text in enumerate(texts):
            if not text.strip():
                raise RefusedError(422, f"{name} holds an empty text in place {place}")
            if not _is_unicode(text):
                raise RefusedError(
                    422, f"{name} holds a text in place {place} with half of a surrogate pair"
                )
        return await self._computed_with_others(_Inputs(texts, None), len(texts))

    async def _of_vectors(self, vectors: list[list[float]], name: str) -> sparse.csr_array:
        self._check_number(len(vectors), name)
        width = self.model.n_inputs
        for place, vector in enumerate(vectors):
            if len(vector) != width:
                raise RefusedError(
                    422,
                    f"{name} holds a vector of {len(vector)} numbers in place {place}; the run "
                    f"reads {width}",
                )
        with np.errstate(over="ignore"):
            given = np.array(vectors, dtype=np.float64).astype(np.float32)
        if not np.isfinite(given).all():
            raise RefusedError(422, f"{name} holds numbers beyond float32")
        return await self._computed_with_others(_Inputs(None, given), len(vectors))

    async def _computed_with_others(self, inputs: _Inputs, n: int) -> sparse.csr_array:
        rows: sparse.csr_array = await self._within(self.embedding, inputs, n)
        return rows

    def _rows(self, rows: Sequence[Sequence[Any]]) -> sparse.csr_array:
        columns = [entry.index for row in rows for entry in row]
        values = np.array([entry.value for row in rows for entry in row], dtype=np.float64)
        if columns and max(columns) >= self.n_features:
            raise RefusedError(
                422,
                f"there is no feature {max(columns)}; they are numbered 0 to {self.n_features - 1}",
            )
        if any(len({entry.index for entry in row}) < len(row) for row in rows):
            raise RefusedError(422, "a row holds one feature twice")
        if not (values <= np.finfo(np.float32).max).all():
            raise RefusedError(422, "rows holds numbers beyond float32")
        starts = np.cumsum([0, *map(len, rows)])
        shape = (len(rows), self.n_features)
        return sparse.csr_array((values.astype(np.float32), columns, starts), shape=shape)

    def _check_number(self, n: int, name: str) -> None:
        most = self.limits.max_batch
        if n > most:
            raise RefusedError(413, f"{name} holds {n:,} inputs; at most {most:,} per request")

    def _other_kind(self, *, are_texts: bool) -> str:
        if are_texts:
            return f"the run has no encoder of texts; give vectors of {self.model.n_inputs} numbers"
        return (
            "the run reads texts; numbers of tokens are not read, and vectors go to /search and "
            "/explain"
        )

    def _index(self) -> SparseIndex:
        if self.index is None:
            raise RefusedError(
                404, "the server has no index; make one with nonneg index, and start it again"
            )
        return self.index

    async def _hits(
        self, index: SparseIndex, rows: sparse.csr_array, k: int, among: list[Any] | None = None
    ) -> list[list[Hit]]:
        def found() -> list[list[Hit]]:
            hits = index.search(rows, k, among=among)
            return [
                [self._hit(*hit) for hit in zip(*both, strict=True) if hit[1] > 0]
                for both in zip(hits.ids.tolist(), hits.cosines.tolist(), strict=True)
            ]

        hits: list[list[Hit]] = await self._within(self.searching, found, 1)
        return hits

    def _hit(self, id: Id, cosine: float) -> Hit:
        text = None if self._text_of is None else self._text_of(id)
        return Hit(id=id, cosine=cosine, text=text)

    async def _within(
        self,
        batches: Batches[Any, Any],
        work: Any,  # noqa: ANN401
        n_inputs: int,
        *,
        unknown: int = 422,
    ) -> Any:  # noqa: ANN401
        """The result of some work; refusals where there is none, with a status for bad values."""
        try:
            return await asyncio.wrap_future(batches.submit(work, n_inputs))
        except TooBusyError:
            raise RefusedError(429, "too many requests wait already; ask again later") from None
        except StoppedError:
            raise RefusedError(503, "the server is stopping; ask another") from None
        except ValueError as error:
            raise RefusedError(unknown, str(error)) from error

    def _computed(self, works: Sequence[_Inputs]) -> list[sparse.csr_array]:
        """Features of several requests, texts and vectors each at once."""
        found: list[sparse.csr_array] = [sparse.csr_array((0, self.n_features))] * len(works)
        for are_texts, compute in ((True, self._of_all_texts), (False, self._of_all_vectors)):
            places = [n for n, work in enumerate(works) if (work.texts is not None) is are_texts]
            if not places:
                continue
            rows = compute([works[place] for place in places])
            if not np.isfinite(rows.data).all():
                raise ValueError("the inputs have features beyond float32; give smaller numbers")
            at = 0
            for place in places:
                n = len(works[place].texts or works[place].vectors)  # type: ignore[arg-type]
                found[place], at = rows[at : at + n], at + n
        return found

    def _of_all_texts(self, works: list[_Inputs]) -> sparse.csr_array:
        return self.model.of_texts([text for work in works for text in work.texts or ()])

    def _of_all_vectors(self, works: list[_Inputs]) -> sparse.csr_array:
        parts = [work.vectors for work in works if work.vectors is not None]
        return self.model.of_vectors(np.concatenate(parts))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_service(
    run: str | Path,
    index: str | Path | None = None,
    *,
    encoder: Any = None,  # noqa: ANN401
    limits: Limits | None = None,
) -> Service:
    """The service of a run folder and of an index folder.

    Args:
        run: Of ``nonneg fit``, or what ``NCL.save`` wrote.
        index: Of the same run; None for ``index`` in the run folder, where there is one.
        encoder: Where the encoder of texts lies now, if not where it lay.
        limits: What a request may ask.

    Raises:
        FileNotFoundError: There is no such index.
        ValueError: The run is no fitted one, or the index is of another run.
    """
    if not is_fitted(run):
        raise ValueError(f"{run} holds no fitted run; give a folder of nonneg fit, or of NCL.save")
    if index is None and not (Path(run) / INDEX_FOLDER).is_dir():
        return Service(RunModel(run, encoder=encoder), limits=limits)
    found = RunSearch(run, index, encoder=encoder)
    assert found.model is not None
    return Service(found.model, found.index, texts=found.text, limits=limits)
