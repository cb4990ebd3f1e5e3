"""An index of sparse features: exact search by cosine, through the features that samples share.

A query visits the lists of its own active features only, so that its time follows from how many
samples share a feature with it, not from how many there are.
"""

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nonneg.data.arrays import npy_array
from nonneg.estimators.reading import Explanation, explanation
from nonneg.io import read_json, write_json
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import BoolArray, IntArray
from nonneg.search.postings import Postings, unit_parts, write_array
from nonneg.search.ranking import checked_weights

INDEX_FILE = "index.json"
# Files beside the index that belong to it, and to no index of another kind.
BESIDE = "beside-"
_DTYPES = ("float32", "float16")
# More parts than this are joined: each takes a query some time of its own.
_MOST_PARTS = 16
_REMEDY = "build it again with nonneg index"

Ids = NDArray[Any]


class Hits(NamedTuple):
    """What a search found for n queries, the nearest first."""

    ids: Ids
    """``(n, k)``; behind the last sample that shares a feature with the query -1, or an empty
    text where ids are texts."""
    cosines: NDArray[np.float32]
    """``(n, k)``; 0 where there is none."""


@dataclass(eq=False)
class _Part:
    """Samples that were added together."""

    lists: Postings
    ids: Ids
    is_there: BoolArray
    """Which have not been removed ``(n,)``."""

    @cached_property
    def order(self) -> IntArray | None:
        """The rows in the order of their ids; None where that is their own."""
        if bool((self.ids[1:] > self.ids[:-1]).all()):
            return None
        return np.argsort(self.ids, kind="stable")

    def rows_of(self, ids: Ids) -> IntArray:
        """The row of each id, -1 for one that is not there or was removed."""
        if not len(self.ids) or (ids.dtype.kind == "U") != (self.ids.dtype.kind == "U"):
            return np.full(len(ids), -1)
        at = np.searchsorted(self.ids, ids, sorter=self.order)
        rows = np.minimum(at, len(self.ids) - 1)
        rows = rows if self.order is None else self.order[rows]
        return np.where((self.ids[rows] == ids) & self.is_there[rows], rows, -1)


class SparseIndex:
    """Samples by the features that they have.

    Made by :meth:`of` or :meth:`load`.

    Args:
        n_features: Columns of the features.
        dtype: ``"float32"``, or ``"float16"`` for values of 16 bits. These are no IEEE halves but
            65,535ths, with a factor per row that keeps its length 1: cosines with samples like
            the query, the nearest ones, are then almost those of 32 bits.
        weights: A factor from 0 on for each feature, of samples and queries alike ``(d,)``, such as
            :func:`nonneg.search.idf_weights`; None for equal ones. Cosines and explanations are
            those of the weighted features.

    Attributes:
        about: What else is known of the index, as JSON can hold it; saved with it.

    Example:
        >>> index = SparseIndex.of([[3, 4, 0], [0, 1, 0], [0, 0, 2]], ids=["a", "b", "c"])
        >>> hits = index.search([[0, 5, 0]], k=3)
        >>> hits.ids.tolist(), hits.cosines.round(2).tolist()
        ([['b', 'a', '']], [[1.0, 0.800000011920929, 0.0]])
    """

    def __init__(
        self, n_features: int, *, dtype: str = "float32", weights: ArrayLike | None = None
    ) -> None:
        if dtype not in _DTYPES:
            raise ValueError(f"unknown dtype {dtype!r}; known: {', '.join(_DTYPES)}")
        self.n_features, self.dtype = n_features, dtype
        self.weights = None if weights is None else checked_weights(weights, n_features)
        self.about: dict[str, Any] = {}
        self._parts: list[_Part] = []
        self._next_id = 0

    @classmethod
    def of(
        cls,
        Z: FeatureLike,
        ids: ArrayLike | None = None,
        *,
        dtype: str = "float32",
        weights: ArrayLike | None = None,
    ) -> Self:
        """The index of some samples.

        Args:
            Z: Non-negative features ``(n, d)``, dense or sparse. All-zero rows are never found.
            ids: One whole number or text per sample, no two alike; their numbers by default.
            dtype: Of the values that are kept.
            weights: Of features.
        """
        features = checked_features(Z)
        index = cls(features.n_features, dtype=dtype, weights=weights)
        index.add(Z, ids)
        return index

    def __len__(self) -> int:
        """How many samples can be found."""
        return sum(int(part.is_there.sum()) for part in self._parts)

    @property
    def ids(self) -> Ids:
        """Of the samples that can be found, in the order in which they were added ``(n,)``."""
        parts = self._parts or [self._empty()]
        return np.concatenate([part.ids[part.is_there] for part in parts])

    @property
    def n_bytes(self) -> int:
        """Memory of the lists, ids and marks."""
        return sum(p.lists.n_bytes + p.ids.nbytes + p.is_there.nbytes for p in self._parts)

    def add(self, Z: FeatureLike, ids: ArrayLike | None = None) -> Self:
        """Put more samples into the index, without building it again.

        Args:
            Z: Their features ``(n, d)``.
            ids: None that is there already; by default the numbers that follow.
        """
        rows = self._unit_rows(Z, "Z")
        given = self._checked_ids(ids, rows.shape[0])
        lists = Postings.of(rows, is_short=self.dtype == "float16")
        parts = [*self._parts, _Part(lists, given, np.ones(len(given), dtype=np.bool_))]
        if len(parts) > _MOST_PARTS:
            # The two smallest neighbours: a large part is seldom built again.
            sizes = [len(part.ids) for part in parts]
            at = min(range(len(sizes) - 1), key=lambda i: sizes[i] + sizes[i + 1])
            parts[at : at + 2] = [self._joined(parts[at : at + 2])]
        self._parts = parts
        if given.dtype.kind != "U":
            self._next_id = max(self._next_id, int(given.max()) + 1)
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Take samples out of the index; their ids can be used again.

        Args:
            ids: Each must be there.
        """
        for place in self._found(ids):
            part, row = self._at(int(place))
            part.is_there[row] = False
        return self

    def search(
        self,
        Z: FeatureLike,
        k: int = 10,
        *,
        among: ArrayLike | None = None,
    ) -> Hits:
        """The k samples of largest cosine with each query; of equals the earlier one first.

        Args:
            Z: Features of the queries ``(n, d)``, edited or not.
            k: At most so many per query.
            among: Search among these samples only: their ids, or a boolean mask over the samples
                in the order in which they were added, those removed left out.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
            raise ValueError(f"k must be a whole number from 1 on, got {k!r}")
        queries = self._unit_rows(Z, "Z")
        allowed = self._allowed(among)
        found = [(np.zeros((queries.shape[0], 0), np.int64), np.zeros((queries.shape[0], 0), "f4"))]
        start = 0
        for part in self._parts:
            n = len(part.ids)
            mask = part.is_there if allowed is None else part.is_there & allowed[start : start + n]
            numbers, cosines = part.lists.best(queries, min(k, n), None if mask.all() else mask)
            found.append((np.where(numbers >= 0, numbers + start, -1), cosines))
            start += n
        numbers, cosines = (np.concatenate(column, axis=1) for column in zip(*found, strict=True))
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        numbers = np.take_along_axis(numbers, order, axis=1)
        cosines = np.take_along_axis(cosines, order, axis=1)
        missing = k - numbers.shape[1]
        if missing > 0:
            numbers = np.pad(numbers, ((0, 0), (0, missing)), constant_values=-1)
            cosines = np.pad(cosines, ((0, 0), (0, missing)))
        return Hits(self._ids_of(numbers), cosines)

    def explain(self, z: FeatureLike, id: int | str, names: Sequence[str] = ()) -> Explanation:
        """The features that a query and a sample share; contributions add up to the cosine.

        Args:
            z: Features of the query ``(d,)`` or ``(1, d)``.
            id: Of the sample.
            names: Of the features; may be empty.
        """
        row = (
            z if getattr(z, "ndim", 0) == 2 or sparse.issparse(z) else np.atleast_2d(np.asarray(z))
        )
        query = self._unit_rows(row, "z")
        if query.shape[0] != 1:
            raise ValueError(f"explain takes one query at a time, got {query.shape[0]}")
        (place,) = self._found([id])
        part, number = self._at(int(place))
        return explanation(query.toarray()[0], part.lists.row(number), names)

    def features(self, id: int | str) -> NDArray[np.float32]:
        """The features of one sample, scaled to length 1 ``(d,)``."""
        (place,) = self._found([id])
        part, number = self._at(int(place))
        return part.lists.row(number)

    def save(self, folder: str | Path) -> None:
        """Write the index into a folder of its own; a half-written one is never read.

        Raises:
            FileExistsError: The folder holds something else.
            OSError: The folder cannot be written or the disk is full; an index that was there
                before is still there.
        """
        folder = Path(folder)
        check_index_folder(folder)
        if len(self._parts) > 1 or not all(part.is_there.all() for part in self._parts):
            self._parts = [self._joined(self._parts)]
        (part,) = self._parts or [self._empty()]
        generation = _generation(folder) + 1
        place = folder / f"part-{generation}"
        try:
            part.lists.write(place)
            write_array(place / "ids.npy", part.ids)
            if self.weights is not None:
                write_array(place / "weights.npy", self.weights)
            facts = {
                "nonneg": "index",
                "n_features": self.n_features,
                "n_samples": len(part.ids),
                "dtype": self.dtype,
                "next_id": self._next_id,
                "is_weighted": self.weights is not None,
                "part": place.name,
                "about": self.about,
            }
            write_json(folder / INDEX_FILE, facts)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        for old in folder.glob("part-*"):
            if old != place:
                shutil.rmtree(old, ignore_errors=True)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The index of a folder, mapped into memory and read where it is searched."""
        path = Path(folder) / INDEX_FILE
        if not path.is_file():
            raise FileNotFoundError(f"{folder} holds no index: {INDEX_FILE} is missing; {_REMEDY}")
        while True:
            facts = read_json(path, remedy=_REMEDY)
            try:
                return cls._of_facts(path, facts)
            except (KeyError, TypeError, ValueError, OSError) as error:
                if read_json(path, remedy=_REMEDY) == facts:  # else it was replaced meanwhile
                    raise ValueError(
                        f"{path} does not describe a whole index ({error}); {_REMEDY}"
                    ) from error

    @classmethod
    def _of_facts(cls, path: Path, facts: Any) -> Self:  # noqa: ANN401
        """What index.json tells of; raises errors of many kinds where it is forged."""
        index = cls(int(facts["n_features"]), dtype=facts["dtype"])
        if not re.fullmatch(r"part-\w+", facts["part"]):
            raise ValueError(f"its part is {facts['part']!r}")
        place, n = path.parent / facts["part"], int(facts["n_samples"])
        index._next_id, index.about = int(facts["next_id"]), dict(facts["about"])
        lists = Postings.read(place, n, index.n_features, is_short=index.dtype == "float16")
        ids = npy_array(place / "ids.npy", mapped=True)
        if facts["is_weighted"]:
            weights = npy_array(place / "weights.npy")
            index.weights = checked_weights(weights, index.n_features)
        if ids.shape != (n,) or ids.dtype.kind not in "iU":
            raise ValueError("ids and lists do not fit together")
        index._parts = [_Part(lists, ids, np.ones(n, dtype=np.bool_))]
        return index

    def _joined(self, parts: Sequence[_Part]) -> _Part:
        """One part of several, without what was removed."""
        lists = Postings.joined([(part.lists, part.is_there) for part in parts])
        ids = np.concatenate([part.ids[part.is_there] for part in parts])
        return _Part(lists, ids, np.ones(len(ids), dtype=np.bool_))

    def _empty(self) -> _Part:
        rows: Any = sparse.csr_array((0, self.n_features), dtype=np.float32)
        lists = Postings.of(rows, is_short=self.dtype == "float16")
        return _Part(lists, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_))

    def _unit_rows(self, Z: FeatureLike, name: str) -> sparse.csr_array:
        features = checked_features(Z, name)
        if features.n_features != self.n_features:
            raise ValueError(
                f"{name} has {features.n_features} features, the index has {self.n_features}; give "
                "features of the model that the index was built with"
            )
        if features.signed:
            raise ValueError(f"{name} has negative entries; an index takes non-negative features")
        rows = sparse.csr_array(sparse.vstack(list(unit_parts(features)), format="csr"))
        if self.weights is None:
            return rows
        weighted = sparse.csr_array(rows @ sparse.diags_array(self.weights)).astype(np.float32)
        parts = unit_parts(checked_features(weighted, name))
        return sparse.csr_array(sparse.vstack(list(parts), format="csr"))

    def _checked_ids(self, ids: ArrayLike | None, n: int) -> Ids:
        there = [part.ids for part in self._parts]
        if ids is None:
            if any(known.dtype.kind == "U" for known in there):
                raise ValueError("the samples of this index have texts as ids; give ids=…")
            return np.arange(self._next_id, self._next_id + n)
        given = np.asarray(ids)
        if given.shape != (n,) or given.dtype.kind not in "iuU":
            raise ValueError(
                f"ids has shape {given.shape} and type {given.dtype}; give one whole number or "
                f"text for each of the {n} samples"
            )
        if given.dtype.kind != "U":
            given = given.astype(np.int64)
            if (given < 0).any():
                raise ValueError(f"ids are numbers from 0 on, or texts; got {given.min()}")
        if any(known.dtype.kind != given.dtype.kind for known in there):
            raise ValueError(
                "ids of one index are all numbers or all texts; give such as are there"
            )
        if len(np.unique(given)) < n:
            raise ValueError("ids holds one twice; give each sample its own")
        known = self._places_of(given) >= 0
        if known.any():
            raise ValueError(
                f"id {given[known][0].item()!r} is in the index already; remove it first"
            )
        return given

    def _places_of(self, ids: Ids) -> IntArray:
        """The place of each id among all samples, -1 for one that is not there."""
        places, start = np.full(len(ids), -1), 0
        for part in self._parts:
            rows = part.rows_of(ids)
            places = np.where(rows >= 0, rows + start, places)
            start += len(part.ids)
        return places

    def _found(self, ids: ArrayLike) -> IntArray:
        """The places of ids; an error names one that is not there."""
        given = np.asarray(ids)
        if given.ndim != 1:
            raise ValueError(f"ids has shape {given.shape}; give a list of ids")
        places = self._places_of(given)
        if (places < 0).any():
            raise ValueError(f"there is no sample with id {given[places < 0][0].item()!r}")
        return places

    def _at(self, place: int) -> tuple[_Part, int]:
        """The part that holds a place among all samples, and the row there."""
        for part in self._parts:
            if place < len(part.ids):
                return part, place
            place -= len(part.ids)
        raise IndexError(place)

    def _allowed(self, among: ArrayLike | None) -> BoolArray | None:
        if among is None:
            return None
        there = [part.is_there for part in self._parts]
        allowed = np.concatenate([np.zeros(0, dtype=np.bool_), *there])
        given = np.asarray(among)
        if given.dtype.kind != "b":
            places = self._found(given)
            allowed[:] = False
            allowed[places] = True
        elif given.shape == (len(self),):
            allowed[allowed] = given
        else:
            raise ValueError(
                f"among has shape {given.shape} for {len(self)} samples; give one mark each, or ids"
            )
        return allowed

    def _ids_of(self, numbers: IntArray) -> Ids:
        """The ids at places among all samples; -1 stands for none."""
        parts = self._parts or [self._empty()]
        is_text = parts[0].ids.dtype.kind == "U"
        widest = max((part.ids.dtype for part in parts), key=lambda dtype: dtype.itemsize)
        ids = np.full(numbers.shape, "" if is_text else -1, dtype=widest)
        start = 0
        for part in parts:
            here = (numbers >= start) & (numbers < start + len(part.ids))
            ids[here] = part.ids[numbers[here] - start]
            start += len(part.ids)
        return ids


def check_index_folder(folder: Path) -> None:
    """Raise ``FileExistsError`` for a folder that holds something else than an index."""
    if not folder.is_dir():
        return
    known: tuple[str, ...] = ("part-", BESIDE, ".")  # of an index that was not finished
    try:
        facts = read_json(folder / INDEX_FILE)
    except FileNotFoundError:
        is_ours = False
    except (OSError, ValueError):  # damaged
        is_ours, known = False, (*known, INDEX_FILE)
    else:
        is_ours = isinstance(facts, dict) and facts.get("nonneg") == "index"
    if not is_ours and any(not path.name.startswith(known) for path in folder.iterdir()):
        raise FileExistsError(f"{folder} holds something else than an index; choose another folder")


def _generation(folder: Path) -> int:
    """The largest number of a part in a folder; 0 for none."""
    names: Iterable[str] = (part.name.removeprefix("part-") for part in folder.glob("part-*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)
