"""Reading features: why two samples match, what a feature stands for, what if it were off."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from operator import index
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from nonneg.estimators.description import (
    FeatureDescription,
    Namer,
    describe_features,
    first_of_equal_rows,
)
from nonneg.estimators.display import say
from nonneg.estimators.groups import ComparedFeatures
from nonneg.estimators.hierarchy import GroupedFeatures
from nonneg.estimators.inputs import from_torch, one_row
from nonneg.estimators.naming import found_names, near_names
from nonneg.estimators.tokens import Tokenize
from nonneg.head.curation import Curation
from nonneg.metrics.inputs import FeatureLike, Features, checked_features
from nonneg.metrics.results import FloatArray
from nonneg.metrics.retrieval import nearest, nonzero_rows
from nonneg.rows import unit_rows


@dataclass(frozen=True)
class SharedFeature:
    """One feature that two samples share.

    Args:
        feature: Its number.
        name: What ``describe`` called it; empty if it has no name.
        contribution: Its part of the cosine.
        first: Its activation in the first sample, of features scaled to length 1.
        second: The same in the second sample.
    """

    feature: int
    name: str
    contribution: float
    first: float
    second: float


@dataclass(frozen=True)
class Explanation:
    """The features that two samples share, the largest contribution first.

    Args:
        cosine: Of the features of the two samples: the sum of all contributions.
        shared: One entry per feature that is on in both; empty if they share none.
        n: How many of them are shown one by one; None for all.
    """

    cosine: float
    shared: tuple[SharedFeature, ...]
    n: int | None = 10

    @property
    def largest(self) -> tuple[SharedFeature, ...]:
        """The first n of the shared features."""
        return self.shared[: self.n]

    @property
    def rest(self) -> tuple[SharedFeature, ...]:
        """The others, which are shown as one entry; largest and rest add up to the cosine."""
        return self.shared[len(self.largest) :]

    def __str__(self) -> str:
        lines = [f"cosine {self.cosine:.3f}"]
        lines += [
            f"  {s.contribution:+.3f}  feature {s.feature}" + (f": {s.name}" if s.name else "")
            for s in self.largest
        ]
        if self.rest:
            together = sum(s.contribution for s in self.rest)
            features = "features" if len(self.rest) > 1 else "feature"
            lines.append(f"  {together:+.3f}  {len(self.rest)} more {features}")
        return "\n".join(lines)


def explanation(
    first: ArrayLike, second: ArrayLike, names: Sequence[str] = (), *, n: int | None = 10
) -> Explanation:
    """The shared features of two rows of features ``(d,)``, with what each adds to the cosine.

    Args:
        first: Features of one sample; all zero gives a cosine of 0 and no shared feature.
        second: Features of the other; the same sample again shows what it is made of.
        names: Of the features, in their order; may be empty.
        n: How many shared features are shown one by one, the rest as one entry; None for all.

    Example:
        >>> print(explanation([3, 4, 0], [0, 1, 0], names=["red", "round", "old"]))
        cosine 0.800
          +0.800  feature 1: round
        >>> print(explanation([1, 3, 1, 1], [1, 3, 1, 1], n=1))
        cosine 1.000
          +0.750  feature 1
          +0.250  3 more features
    """
    if n is not None and (isinstance(n, bool) or not isinstance(n, Integral) or n < 0):
        raise ValueError(f"n is {n!r}; give a whole number of features to show, or None for all")
    one, two = _unit(first), _unit(second)
    parts = one * two
    order = np.argsort(-parts, kind="stable")
    shared = tuple(
        SharedFeature(
            feature=int(i),
            name=names[i] if len(names) else "",
            contribution=float(parts[i]),
            first=float(one[i]),
            second=float(two[i]),
        )
        for i in order
        if parts[i] != 0
    )
    return Explanation(cosine=float(parts.sum()), shared=shared, n=None if n is None else int(n))


def _unit(row: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(row, dtype=np.float64)
    length = np.linalg.norm(values)
    return values / length if length > 0 else values


_TILE_ROWS = 512
# Features that a line on an edit names.
_N_SAID = 10


class Found(NamedTuple):
    """What a search found for n queries."""

    numbers: NDArray[np.int64]
    """Gallery rows, nearest first ``(n, k)``; -1 where a query of zeros finds nothing."""
    cosine: NDArray[np.float64]
    """Their cosines with the query ``(n, k)``; 0 where there is none."""


def edit_features(
    Z: Any,  # noqa: ANN401
    *,
    remove: Iterable[int] = (),
    boost: Mapping[int, float] | None = None,
) -> Any:  # noqa: ANN401
    """A copy of the features with some switched off and others multiplied.

    Args:
        Z: ``(n, d)``, a NumPy array or SciPy sparse; it is not changed.
        remove: Numbers of features to set to zero.
        boost: A factor from 0 on for each named feature.

    Example:
        >>> edit_features(np.ones((1, 3)), remove=[0], boost={2: 5}).tolist()
        [[0.0, 1.0, 5.0]]
    """
    n_features = Z.shape[1]
    # In the type of whole numbers a factor of 0.5 would be 0.
    factor = np.ones(n_features, dtype=Z.dtype if Z.dtype.kind == "f" else np.float64)
    off, boost = dict.fromkeys(remove, 0.0), boost or {}
    if both := off.keys() & boost.keys():
        raise ValueError(f"feature {min(both)} is to be removed and boosted; leave it in one")
    for feature, by in {**off, **boost}.items():
        if not 0 <= feature < n_features:
            raise ValueError(
                f"there is no feature {feature}; they are numbered 0 to {n_features - 1}"
            )
        if not isinstance(by, Real) or not 0 <= by < np.inf:
            raise ValueError(
                f"feature {feature} cannot be boosted by {by!r}; use a factor from 0 on"
            )
        factor[feature] = by
    is_sparse: bool = sparse.issparse(Z)
    if not is_sparse:
        return np.asarray(Z) * factor
    scaled = sparse.csr_array(Z) @ sparse.diags_array(factor)
    scaled = sparse.csr_array(scaled)
    scaled.eliminate_zeros()
    return scaled


def nearest_samples(Z_query: FeatureLike, Z_gallery: FeatureLike, k: int = 10) -> Found:
    """The k gallery rows of largest cosine with each query, exact; equals in their order.

    Args:
        Z_query: Features of the queries ``(n, d)``, edited or not.
        Z_gallery: Features to search in ``(m, d)``.
        k: At most m.

    Example:
        >>> found = nearest_samples([[3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], k=2)
        >>> found.numbers.tolist(), found.cosine.round(2).tolist()
        ([[1, 0]], [[0.8, 0.6]])
    """
    queries, gallery = (
        checked_features(Z_query, "Z_query"),
        checked_features(Z_gallery, "Z_gallery"),
    )
    if queries.n_features != gallery.n_features:
        raise ValueError(
            f"queries have {queries.n_features} features, the gallery has {gallery.n_features}"
        )
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise TypeError(f"k must be a whole number of rows, got {k!r}")
    if not 1 <= k <= gallery.n_samples:
        raise ValueError(
            f"k must be between 1 and the {gallery.n_samples} rows to search in, got {k}"
        )
    numbers = nearest(queries, gallery, nonzero_rows(gallery), k, leave_one_out=False)
    return Found(numbers.numpy(), _cosines(queries, gallery, numbers).numpy())


def _cosines(queries: Features, gallery: Features, numbers: torch.Tensor) -> torch.Tensor:
    cosine = torch.zeros(numbers.shape, dtype=torch.float64)
    for start in range(0, len(numbers), _TILE_ROWS):
        here = slice(start, start + _TILE_ROWS)
        query = unit_rows(queries.rows(here).double())  # (n, d)
        for column in range(numbers.shape[1]):
            found = unit_rows(gallery.rows(numbers[here, column].clamp(min=0)).double())
            cosine[here, column] = (query * found).sum(dim=1)
    return cosine.masked_fill(numbers < 0, 0.0)


class EditableFeatures(ComparedFeatures):
    """What an estimator whose features have names offers for its features."""

    expected_activation_: FloatArray
    feature_names_: list[str]
    curation_: Curation

    def find(self, name: str) -> list[tuple[int, str]]:
        """The features that a name stands for, as ``(number, name)``; empty if there is none.

        These are the features called exactly so, or so with a count as in ``label 3 (2)``; without
        one, those whose name has the given words as whole words. Large and small letters are alike.

        Args:
            name: ``"credit card"`` finds ``credit card, lost``, but not ``credit cards``.
        """
        check_is_fitted(self)
        away = self.curation_.merged_away  # these are a part of another
        shown = ["" if n in away else known for n, known in enumerate(self.feature_names_)]
        return found_names(name, shown)

    def edit(
        self,
        Z: NDArray[np.floating] | sparse.csr_array,
        *,
        remove: Iterable[int | str] = (),
        boost: Mapping[int | str, float] | None = None,
    ) -> Any:  # noqa: ANN401
        """A copy of the features with some switched off and others multiplied.

        Args:
            Z: From :meth:`transform`, ``(n, n_components)``, dense or sparse.
            remove: Features to switch off, by number or by name; a name stands for all features
                that :meth:`find` finds. In an interactive session, or with ``verbose=1``, a line
                says which these are.
            boost: A factor from 0 on for each feature or name.
        """
        check_is_fitted(self)
        is_sparse: bool = sparse.issparse(Z)
        features: Any = Z if is_sparse else np.asarray(from_torch(Z))
        n_features = len(self.expected_activation_)
        if features.ndim != 2 or features.shape[1] != n_features:
            raise ValueError(
                f"Z has shape {features.shape}; give what transform returns, (n, {n_features})"
            )
        if isinstance(remove, str) or not isinstance(remove, Iterable):
            raise TypeError(
                f"remove takes a list of features by number or name, as [3], got {remove!r}"
            )
        if not isinstance(boost, Mapping | None):
            raise TypeError(f"boost takes a factor for each feature, as {{3: 2.0}}, got {boost!r}")
        off = [number for which in remove for number in self._numbers(which)]
        factors: dict[int, float] = {}
        for which, by in (boost or {}).items():
            if by != by:
                raise ValueError(f"feature {which!r} is boosted by NaN; use a factor from 0 on")
            for number in self._numbers(which):
                if factors.setdefault(number, by) != by:
                    raise ValueError(
                        f"feature {number} is boosted by {factors[number]} and {by}; name it once"
                    )
        return edit_features(features, remove=off, boost=factors)

    def neighbors(self, Z_query: FeatureLike, Z_gallery: FeatureLike, k: int = 10) -> Found:
        """The k gallery rows of largest cosine with each query, edited or not.

        Args:
            Z_query: Features ``(n, n_components)``.
            Z_gallery: Features to search in ``(m, n_components)``.
            k: At most m.
        """
        return nearest_samples(Z_query, Z_gallery, k)

    def _numbers(self, which: int | str) -> list[int]:
        if not isinstance(which, str):
            if isinstance(which, bool) or not hasattr(which, "__index__"):
                raise TypeError(f"a feature is given by its number or its name, got {which!r}")
            return [index(which)]
        if not which:
            raise ValueError(
                "an empty name stands for no feature; give a feature without a name by its number"
            )
        found = self.find(which)
        if not found:
            near = near_names(which, self.feature_names_)
            raise ValueError(
                f"no feature is called {which!r}"
                + (f"; near: {', '.join(map(repr, near))}" if near else "")
                + ("" if any(self.feature_names_) else "; names come from describe(X, texts=…)")
            )
        taken = " · ".join(f"{number} {name}" for number, name in found[:_N_SAID])
        more = f" and {len(found) - _N_SAID} more, see find()" if len(found) > _N_SAID else ""
        say(f"{which!r} stands for {taken}{more}", verbose=getattr(self, "verbose", 0))
        return [number for number, _ in found]


class ReadableFeatures(GroupedFeatures, EditableFeatures):
    """What an estimator with ``transform`` and ``feature_names_`` offers its reader."""

    def explain(
        self, x: ArrayLike, x2: ArrayLike | None = None, *, n: int | None = 10
    ) -> Explanation:
        """The features that two samples share; their contributions add up to the cosine.

        Args:
            x: One vector ``(d,)`` or ``(1, d)``, as :meth:`transform` takes them.
            x2: Another. Left out: the active features of ``x`` alone, each with its share of 1.
            n: How many features are shown one by one, the rest as one entry; None for all.
        """
        first = one_row(self.transform, x)  # type: ignore[attr-defined]
        second = first if x2 is None else one_row(self.transform, x2)  # type: ignore[attr-defined]
        return explanation(first, second, self.feature_names_, n=n)

    def describe(
        self,
        X: ArrayLike,
        *,
        texts: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        n_top: int = 20,
        n_words: int = 3,
        namer: Namer | None = None,
        tokenize: Tokenize | None = None,
    ) -> list[FeatureDescription]:
        """A description of each feature by its strongest samples; also names the features.

        Names go to ``feature_names_``, from where :meth:`explain`, :meth:`edit` and
        :meth:`get_feature_names_out` take them. They are distinct, and that of a feature whose
        strongest samples are two unrelated groups says so.

        Args:
            X: Vectors of the samples ``(n, d)``.
            texts: One per sample: features are named by the words that set their texts apart.
            labels: One per sample: the label mix; the commonest is the name where no word tells.
            n_top: How many of a feature's strongest samples are looked at.
            n_words: Words per feature.
            namer: Called with the words and the texts of each feature that is on, best and
                strongest first; what it returns is the name, unless that is empty. A language
                model can stand behind it.
            tokenize: Gives the words of a text in their order, for languages without spaces.
        """
        Z = self.transform(X)  # type: ignore[attr-defined]
        found = describe_features(
            Z,
            texts=texts,
            labels=labels,
            n_top=n_top,
            n_words=n_words,
            vectors=X,
            namer=namer,
            tokenize=tokenize,
        )
        return self._with_names(found)  # type: ignore[attr-defined, no-any-return]


class ReadableSides(EditableFeatures):
    """The same for an estimator of two kinds of vectors, with ``transform`` and ``transform_y``."""

    def explain(
        self, x: ArrayLike | None = None, y: ArrayLike | None = None, *, n: int | None = 10
    ) -> Explanation:
        """The features that a row of X and a row of y share; contributions add up to the cosine.

        Args:
            x: One vector ``(d,)`` or ``(1, d)``, as :meth:`transform` takes them.
            y: One of the other kind. With one of the two left out: the active features of the
                other alone, each with its share of 1.
            n: How many features are shown one by one, the rest as one entry; None for all.
        """
        rows = [
            one_row(transform, row)
            for transform, row in (
                (self.transform, x),  # type: ignore[attr-defined]
                (self.transform_y, y),  # type: ignore[attr-defined]
            )
            if row is not None
        ]
        if not rows:
            raise ValueError("explain needs a row of X, a row of y, or both")
        return explanation(rows[0], rows[-1], self.feature_names_, n=n)

    def describe(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        texts: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        n_top: int = 20,
        n_words: int = 3,
        namer: Namer | None = None,
        tokenize: Tokenize | None = None,
    ) -> tuple[list[FeatureDescription], list[FeatureDescription]]:
        """A description of each feature by its strongest rows of X, and one by those of y.

        A feature means the same on both sides, so its two descriptions should agree. A row that
        is there several times, as an image with five captions, counts once, with the texts of all.
        The names of the second go to ``feature_names_``, from where :meth:`explain` and
        :meth:`edit` take them.

        Args:
            X: Vectors ``(n, d)``.
            y: Their partners ``(n, d_y)``.
            texts: One per pair: features are named by the words that set their texts apart.
            labels: One per pair: the label mix; the commonest is the name where no word tells.
            n_top: How many of a feature's strongest samples are looked at.
            n_words: Words per feature.
            namer: Called with the words and the texts of each feature that is on in y, as in
                :meth:`nonneg.NCL.describe`.
            tokenize: Gives the words of a text in their order, for languages without spaces.
        """
        Z_x, Z_y = self.transform(X), self.transform_y(y)  # type: ignore[attr-defined]
        how: dict[str, Any] = {"texts": texts, "labels": labels, "n_top": n_top}
        how |= {"n_words": n_words, "tokenize": tokenize}
        of_x = describe_features(Z_x, same_as=first_of_equal_rows(X), vectors=X, **how)
        of_y = describe_features(Z_y, same_as=first_of_equal_rows(y), vectors=y, namer=namer, **how)
        return of_x, self._with_names(of_y)  # type: ignore[attr-defined]
