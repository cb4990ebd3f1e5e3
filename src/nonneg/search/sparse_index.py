"""An index of sparse features: exact search by cosine, through the features that samples share.

A query visits the lists of its own active features only, so that its time follows from how many
samples share a feature with it, not from how many there are.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nonneg.data.arrays import npy_array
from nonneg.estimators.reading import Explanation, explanation
from nonneg.io import read_json, write_json
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import BoolArray, IntArray
from nonneg.rows import unit_rows
from nonneg.search.postings import Postings

INDEX_FILE = "index.json"
_POSTING_FILES = ("starts", "samples", "values")
_DTYPES: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float16": np.float16}
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


class SparseIndex:
    """Samples by the features that they have.

    Made by :meth:`of` or :meth:`load`.

    Args:
        n_features: Columns of the features.
        dtype: ``"float32"``, or ``"float16"`` for values of half the size.

    Example:
        >>> index = SparseIndex.of([[3, 4, 0], [0, 1, 0], [0, 0, 2]], ids=["a", "b", "c"])
        >>> hits = index.search([[0, 5, 0]], k=3)
        >>> hits.ids.tolist(), hits.cosines.round(2).tolist()
        ([['b', 'a', '']], [[1.0, 0.800000011920929, 0.0]])
    """

    def __init__(self, n_features: int, *, dtype: str = "float32") -> None:
        if dtype not in _DTYPES:
            raise ValueError(f"unknown dtype {dtype!r}; known: {', '.join(_DTYPES)}")
        self.n_features, self.dtype = n_features, dtype
        self._parts: list[_Part] = []
        self._places: tuple[Ids, IntArray] | None = None  # sorted ids and where they stand

    @classmethod
    def of(cls, Z: FeatureLike, ids: ArrayLike | None = None, *, dtype: str = "float32") -> Self:
        """The index of some samples.

        Args:
            Z: Non-negative features ``(n, d)``, dense or sparse. All-zero rows are never found.
            ids: One whole number or text per sample, no two alike; their numbers by default.
            dtype: Of the values that are kept.
        """
        features = checked_features(Z)
        index = cls(features.n_features, dtype=dtype)
        index.add(Z, ids)
        return index

    def __len__(self) -> int:
        """How many samples can be found."""
        return sum(int(part.is_there.sum()) for part in self._parts)

    @property
    def n_bytes(self) -> int:
        """Memory of the lists, ids and marks."""
        arrays = [a for p in self._parts for a in (*p.lists[:3], p.ids, p.is_there)]
        return sum(array.nbytes for array in arrays)

    def add(self, Z: FeatureLike, ids: ArrayLike | None = None) -> Self:
        """Put more samples into the index, without building it again.

        Args:
            Z: Their features ``(n, d)``.
            ids: None that is there already; by default the numbers that follow.
        """
        rows = self._unit_rows(Z, "Z")
        given = self._checked_ids(ids, rows.shape[0])
        lists = Postings.of(rows, _DTYPES[self.dtype])
        self._parts.append(_Part(lists, given, np.ones(len(given), dtype=np.bool_)))
        self._places = None
        if len(self._parts) > _MOST_PARTS:
            self._join()
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Take samples out of the index; their ids can be used again.

        Args:
            ids: Each must be there.
        """
        for place in self._found(ids):
            part, row = self._at(int(place))
            part.is_there[row] = False
        self._places = None
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
            among: Search among these samples only: their ids, or a boolean mask over all samples
                in the order in which they were added.
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
            numbers, cosines = part.lists.best(queries, k, None if mask.all() else mask)
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
        other = np.array([part.lists.value(number, j) for j in range(self.n_features)])
        return explanation(query.toarray()[0], other, names)

    def save(self, folder: str | Path) -> None:
        """Write the index into a folder of its own; a half-written one is never read.

        Raises:
            FileExistsError: The folder holds something else.
        """
        folder = Path(folder)
        if folder.exists() and any(folder.iterdir()) and not (folder / INDEX_FILE).is_file():
            raise FileExistsError(f"{folder} holds something else than an index; choose another")
        self._join()
        (part,) = self._parts or [self._empty()]
        generation = _generation(folder) + 1
        place = folder / f"part-{generation}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name in _POSTING_FILES:
            np.save(place / f"{name}.npy", getattr(part.lists, name))
        np.save(place / "ids.npy", part.ids)
        facts = {
            "nonneg": "index",
            "n_features": self.n_features,
            "n_samples": len(part.ids),
            "dtype": self.dtype,
            "part": place.name,
        }
        write_json(folder / INDEX_FILE, facts)
        for old in folder.glob("part-*"):
            if old != place:
                shutil.rmtree(old, ignore_errors=True)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The index of a folder, mapped into memory and read where it is searched."""
        path = Path(folder) / INDEX_FILE
        if not path.is_file():
            raise FileNotFoundError(f"{folder} holds no index: {INDEX_FILE} is missing; {_REMEDY}")
        facts = read_json(path, remedy=_REMEDY)
        try:
            index = cls(int(facts["n_features"]), dtype=facts["dtype"])
            place, n = path.parent / Path(facts["part"]).name, int(facts["n_samples"])
            arrays = {
                name: npy_array(place / f"{name}.npy", mapped=True)
                for name in (*_POSTING_FILES, "ids")
            }
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise ValueError(
                f"{path} does not describe a whole index ({error}); {_REMEDY}"
            ) from error
        ids = arrays.pop("ids")
        _check_arrays(path, index, arrays, ids, n)
        lists = Postings(**arrays, n_samples=n)
        index._parts = [_Part(lists, ids, np.ones(n, dtype=np.bool_))]
        return index

    def _join(self) -> None:
        """Make one part of all, without what was removed."""
        if len(self._parts) < 2 and all(part.is_there.all() for part in self._parts):
            return
        rows, ids = [], []
        for part in self._parts:
            lists = part.lists
            shape = (lists.n_samples, self.n_features)
            values = np.asarray(lists.values, dtype=np.float32)
            columns = sparse.csc_array((values, lists.samples, lists.starts), shape=shape)
            rows.append(sparse.csr_array(columns)[np.flatnonzero(part.is_there)])
            ids.append(part.ids[part.is_there])
        whole: Any = sparse.vstack(rows, format="csr")
        lists = Postings.of(whole, _DTYPES[self.dtype])
        self._parts = [_Part(lists, np.concatenate(ids), np.ones(whole.shape[0], dtype=np.bool_))]
        self._places = None

    def _empty(self) -> _Part:
        rows: Any = sparse.csr_array((0, self.n_features), dtype=np.float32)
        lists = Postings.of(rows)
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
        parts = []
        for _, tile in features.tiles():
            unit = unit_rows(tile)
            on = unit.where(unit > ACTIVE_THRESHOLD, 0).float()
            parts.append(sparse.csr_array(on.cpu().numpy()))
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def _checked_ids(self, ids: ArrayLike | None, n: int) -> Ids:
        there = [part.ids for part in self._parts]
        if ids is None:
            if any(known.dtype.kind == "U" for known in there):
                raise ValueError("the samples of this index have texts as ids; give ids=…")
            start = max((int(known.max()) + 1 for known in there if len(known)), default=0)
            return np.arange(start, start + n)
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
        here, _ = self._sorted_places()
        if len(here) and (known := np.isin(given, here)).any():
            raise ValueError(
                f"id {given[known][0].item()!r} is in the index already; remove it first"
            )
        return given

    def _sorted_places(self) -> tuple[Ids, IntArray]:
        """The ids that are there, sorted, and the place of each among all samples."""
        if self._places is None:
            if not self._parts:
                return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
            ids = np.concatenate([part.ids for part in self._parts])
            there = np.flatnonzero(np.concatenate([part.is_there for part in self._parts]))
            order = there[np.argsort(ids[there], kind="stable")]
            self._places = ids[order], order
        return self._places

    def _found(self, ids: ArrayLike) -> IntArray:
        """The places of ids; an error names one that is not there."""
        given = np.asarray(ids)
        known, places = self._sorted_places()
        if given.ndim != 1:
            raise ValueError(f"ids has shape {given.shape}; give a list of ids")
        if not len(given):
            return np.zeros(0, dtype=np.int64)
        at = np.zeros(len(given), dtype=np.int64)
        is_known = np.zeros(len(given), dtype=np.bool_)
        if len(known) and (given.dtype.kind == "U") == (known.dtype.kind == "U"):
            at = np.minimum(np.searchsorted(known, given), len(known) - 1)
            is_known = known[at] == given
        if not is_known.all():
            raise ValueError(f"there is no sample with id {given[~is_known][0].item()!r}")
        return places[at]

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
        n = sum(len(part.ids) for part in self._parts)
        given = np.asarray(among)
        if given.dtype.kind == "b":
            if given.shape != (n,):
                raise ValueError(
                    f"among has shape {given.shape} for {n} samples, those removed included; give "
                    "one mark each, or ids"
                )
            return given
        allowed = np.zeros(n, dtype=np.bool_)
        allowed[self._found(given)] = True
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


def _check_arrays(
    path: Path, index: SparseIndex, arrays: dict[str, NDArray[Any]], ids: Ids, n: int
) -> None:
    """Raise a sentence where files of one index do not fit together."""
    starts, samples, values = (arrays[name] for name in _POSTING_FILES)
    fits = (
        starts.shape == (index.n_features + 1,)
        and len(ids) == n
        and samples.shape == values.shape == (int(starts[-1]),)
        and values.dtype == _DTYPES[index.dtype]
        and (not len(samples) or 0 <= samples.min() <= samples.max() < n)
        and bool((np.diff(starts) >= 0).all())
        and starts[0] == 0
    )
    if not fits:
        raise ValueError(f"{path}: its files do not fit together; {_REMEDY}")


def _generation(folder: Path) -> int:
    """The largest number of a part in a folder; 0 for none."""
    names: Iterable[str] = (part.name.removeprefix("part-") for part in folder.glob("part-*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)
