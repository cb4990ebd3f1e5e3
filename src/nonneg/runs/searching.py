"""Search with a run: queries by text, vector or sample, and why each sample was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nonneg.data.vectors import read_vectors
from nonneg.estimators.reading import Explanation, explanation
from nonneg.runs.indexing import INDEX_FOLDER, Beside
from nonneg.runs.record import is_fitted, model_digest
from nonneg.runs.run_model import RunModel
from nonneg.runs.text_fits import are_texts
from nonneg.search.sparse_index import SparseIndex

Which = int | str


@dataclass(frozen=True)
class FoundSample:
    """A sample that a search found, and why.

    Args:
        id: Its row number, or what the named column has.
        cosine: With the query.
        why: The features that both have; contributions add up to the cosine.
        text: What it says, where samples are texts.
        label: Its class, where there are any.
    """

    id: Which
    cosine: float
    why: Explanation
    text: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class FoundSamples:
    """What a search found.

    Args:
        query: The query itself: its active features, each with its share of 1.
        samples: The nearest first.
        note: What was asked for and had no effect; None for nothing.
    """

    query: Explanation
    samples: tuple[FoundSample, ...]
    note: str | None = None


class RunSearch:
    """The index of a run, to be searched by texts, vectors or its own samples.

    Args:
        run: The run folder.
        index: The folder of :func:`nonneg.runs.index_run`; None for ``index`` in the run folder.
        encoder: Where the encoder of texts lies now; None for where it lay.

    Raises:
        FileNotFoundError: There is no such index.
        ValueError: It is the index of another run, or the run was curated since.
    """

    def __init__(
        self,
        run: str | Path,
        index: str | Path | None = None,
        *,
        encoder: Any = None,  # noqa: ANN401
    ) -> None:
        self.run = Path(run)
        self.folder = self.run / INDEX_FOLDER if index is None else Path(index)
        self.index, self._beside = _index_of(self.run, self.folder)
        self.about = self.index.about
        self.model = RunModel(self.run, encoder=encoder) if is_fitted(self.run) else None
        named = [] if self.model is None else self.model.ncl.feature_names_
        self.names: Sequence[str] = named

    def features(
        self,
        query: str | ArrayLike | None = None,
        *,
        like: Which | None = None,
        row: int | None = None,
        of: str | None = None,
    ) -> sparse.csr_array:
        """The features of a query ``(1, d)``, given in one of three ways.

        Args:
            query: A text, a vector, or a vector as text: numbers with commas or spaces between.
            like: The id of a sample of the index.
            row: The number of a sample of another file.
            of: That file: vectors or a table of texts.
        """
        if (query is not None) + (like is not None) + (row is not None) != 1:
            raise ValueError("give one query: a text, a vector, a row of a file, or a sample's id")
        if (row is None) != (of is None):
            raise ValueError("a row is that of a file: give both its number and the file")
        if like is not None:
            found = self.index.features(self._known_id(like))
            return sparse.csr_array(found[None])
        if row is not None and of is not None:
            return self._features_of_row(row, of)
        model = self._queried_model()
        if not isinstance(query, str):
            vector: NDArray[Any] = np.atleast_2d(np.asarray(query))
            return model.of_vectors(vector)
        numbers = _numbers(query)
        if numbers is not None and len(numbers) == model.n_inputs:
            return model.of_vectors(numbers[None])
        if numbers is not None and len(numbers) > 1:
            raise ValueError(
                f"the query has {len(numbers)} numbers; {self.run} reads vectors of "
                f"{model.n_inputs}"
            )
        if not query.strip():
            raise ValueError("the query is an empty text, which has no features")
        return model.of_texts([query])

    def edited(
        self,
        features: sparse.csr_array,
        *,
        without: Sequence[Which] = (),
        boost: Mapping[Which, float] | None = None,
    ) -> sparse.csr_array:
        """The query without some features, or with some multiplied; see :meth:`nonneg.NCL.edit`."""
        if not without and not boost:
            return features
        found: Any = self._queried_model().ncl.edit(features, remove=without, boost=boost)
        return sparse.csr_array(found)

    def search(
        self, features: sparse.csr_array, k: int = 10, *, label: str | None = None
    ) -> FoundSamples:
        """The k nearest samples, each with what it shares with the query.

        Args:
            features: Of one query ``(1, d)``, edited or not.
            k: At most so many.
            label: Search among samples of this class only.
        """
        among = None
        if label is not None:  # of the class, but for those that were removed since
            among = np.intersect1d(self._beside.ids_of_label(self.folder, label), self.index.ids)
        # No more than there are: places for hits take memory.
        hits = self.index.search(features, min(k, max(1, len(self.index))), among=among)
        row = features.toarray()[0]
        samples = []
        for name, cosine in zip(hits.ids[0].tolist(), hits.cosines[0].tolist(), strict=True):
            if cosine <= 0:
                break
            number = self._beside.number(name)
            samples.append(
                FoundSample(
                    id=name,
                    cosine=cosine,
                    why=self.index.explain(row, name, self.names),
                    text=self._beside.text(number),
                    label=self._beside.label(number),
                )
            )
        return FoundSamples(explanation(row, row, self.names), tuple(samples))

    def text(self, id: Which) -> str | None:
        """What a sample of the index says; None where that is not known."""
        return self._beside.text(self._beside.number(id))

    def _queried_model(self) -> RunModel:
        if self.model is None:
            raise ValueError(
                f"{self.run} was trained on images: search for what is like a sample of the index, "
                "by its id"
            )
        return self.model

    def _features_of_row(self, row: int, of: str) -> sparse.csr_array:
        model = self._queried_model()
        if are_texts(of):
            texts = model.texts_of(of)
            _check_row(row, len(texts), of)
            return model.of_texts([texts[row]])
        vectors = read_vectors(of)
        _check_row(row, len(vectors), of)
        some = vectors.vectors[row : row + 1]
        return model.of_vectors(some)

    def _known_id(self, like: Which) -> Which:
        """An id as the index has it: numbers may be given as text."""
        is_text = self.index.ids.dtype.kind == "U"
        if is_text:
            return str(like)
        try:
            return int(like)
        except ValueError as error:
            raise ValueError(
                f"samples of {self.folder} are called by their row numbers, not {like!r}"
            ) from error


def search_run(
    run: str | Path,
    query: str | ArrayLike | None = None,
    *,
    index: str | Path | None = None,
    like: Which | None = None,
    row: int | None = None,
    of: str | None = None,
    k: int = 10,
    without: Sequence[Which] = (),
    boost: Mapping[Which, float] | None = None,
    label: str | None = None,
    encoder: Any = None,  # noqa: ANN401
) -> FoundSamples:
    """The samples of an index that are nearest to a query, and why.

    Args:
        run: The run folder.
        query: See :meth:`RunSearch.features`, like ``like``, ``row`` and ``of``.
        index: The folder of :func:`nonneg.runs.index_run`; None for ``index`` in the run folder.
        like: The id of a sample.
        row: The number of a sample of a file.
        of: The file.
        k: At most so many samples.
        without: Features that the query is to be without, by number or name.
        boost: Factors of features of the query, by number or name.
        label: Search among samples of this class only.
        encoder: Where the encoder of texts lies now; None for where it lay.
    """
    place = RunSearch(run, index, encoder=encoder)
    features = place.features(query, like=like, row=row, of=of)
    edited = place.edited(features, without=without, boost=boost)
    found = place.search(edited, k, label=label)
    if (without or boost) and np.array_equal(edited.toarray(), features.toarray()):
        note = "the query has none of the features that were to be left out or boosted"
        found = replace(found, note=f"{note}: it is searched as it was")
    return found


def _index_of(run: Path, folder: Path) -> tuple[SparseIndex, Beside]:
    if not run.is_dir():
        raise FileNotFoundError(f"there is no run {run}; give the folder of one")
    others = folder.parent != run and (folder.parent / "run.json").exists()
    again = f"nonneg index {run} DATA" + (
        "" if others or folder == run / INDEX_FOLDER else f" --out {folder}"
    )
    try:
        index = SparseIndex.load(folder)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{folder} holds no index; make one: {again}") from error
    about = index.about
    if not {"run", "files", "class_names"} <= about.keys():
        raise ValueError(f"{folder} does not say which run it is of; make it with: {again}")
    if about["run"] != model_digest(run):
        raise ValueError(
            f"{folder} is the index of another run, or {run} has been fitted or curated since; "
            f"{'leave out --index, and make one' if others else 'build it again'} with: {again}"
        )
    try:
        return index, Beside.of(folder, about)
    except ValueError:
        if SparseIndex.load(folder).about == about:
            raise
        return _index_of(run, folder)  # it was replaced meanwhile


def _check_row(row: int, n_rows: int, of: str) -> None:
    if not 0 <= row < n_rows:
        raise ValueError(f"{of} has rows 0 to {n_rows - 1}; there is no row {row}")


def _numbers(query: str) -> NDArray[np.float32] | None:
    """The numbers that a text consists of; None for any other text."""
    try:
        numbers = np.array([float(word) for word in query.replace(",", " ").split()])
    except ValueError:
        return None
    with np.errstate(over="ignore"):  # said by whoever reads them
        return numbers.astype(np.float32)
