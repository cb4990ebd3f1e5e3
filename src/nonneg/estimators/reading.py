"""What can one do with readable features? Explain a match, name a feature, switch one off."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from nonneg.estimators.description import FeatureDescription, described, first_of_equal_rows
from nonneg.estimators.editing import Found, edited, nearest_samples
from nonneg.estimators.explanation import Explanation, explanation
from nonneg.estimators.vectors import from_torch
from nonneg.metrics.inputs import FeatureLike
from nonneg.metrics.results import FloatArray


class EditableFeatures:
    """What an estimator whose features have names offers for its features."""

    expected_activation_: FloatArray
    feature_names_: list[str]

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
                that :meth:`describe` called so.
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
        factors = {n: by for which, by in (boost or {}).items() for n in self._numbers(which)}
        return edited(features, remove=off, boost=factors)

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
        numbers = [i for i, name in enumerate(self.feature_names_) if name == which]
        if not numbers:
            raise ValueError(
                f"no feature is called {which!r}; names come from describe(X, texts=…) or labels=…"
            )
        return numbers


class ReadableFeatures(EditableFeatures):
    """What an estimator with ``transform`` and ``feature_names_`` offers its reader."""

    def explain(self, x: ArrayLike, x2: ArrayLike | None = None) -> Explanation:
        """The features that two samples share; their contributions add up to the cosine.

        Args:
            x: One vector ``(d,)`` or ``(1, d)``, as :meth:`transform` takes them.
            x2: Another. Left out: the active features of ``x`` alone, each with its share of 1.
        """
        first = one_row(self.transform, x)  # type: ignore[attr-defined]
        second = first if x2 is None else one_row(self.transform, x2)  # type: ignore[attr-defined]
        return explanation(first, second, self.feature_names_)

    def describe(
        self,
        X: ArrayLike,
        *,
        texts: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        n_top: int = 20,
        n_words: int = 3,
    ) -> list[FeatureDescription]:
        """A description of each feature by its strongest samples; also names the features.

        Names go to ``feature_names_``, from where :meth:`explain` and :meth:`edit` take them.

        Args:
            X: Vectors of the samples ``(n, d)``.
            texts: One a sample: features are named by the words that set their texts apart.
            labels: One a sample: the label mix; the commonest is the name where no word tells.
            n_top: How many of a feature's strongest samples are looked at.
            n_words: Words a feature.
        """
        Z = self.transform(X)  # type: ignore[attr-defined]
        found = described(Z, texts=texts, labels=labels, n_top=n_top, n_words=n_words)
        self.feature_names_ = [description.name for description in found]
        return found


class ReadableSides(EditableFeatures):
    """The same for an estimator of two kinds of vectors, with ``transform`` and ``transform_y``."""

    def explain(self, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Explanation:
        """The features that a row of X and a row of y share; contributions add up to the cosine.

        Args:
            x: One vector ``(d,)`` or ``(1, d)``, as :meth:`transform` takes them.
            y: One of the other kind. With one of the two left out: the active features of the
                other alone, each with its share of 1.
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
        return explanation(rows[0], rows[-1], self.feature_names_)

    def describe(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        texts: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        n_top: int = 20,
        n_words: int = 3,
    ) -> tuple[list[FeatureDescription], list[FeatureDescription]]:
        """A description of each feature by its strongest rows of X, and one by those of y.

        A feature means the same on both sides, so its two descriptions should agree. A row that
        is there several times, as an image with five captions, counts once, with the texts of all.
        The names of the second go to ``feature_names_``, from where :meth:`explain` and
        :meth:`edit` take them.

        Args:
            X: Vectors ``(n, d)``.
            y: Their partners ``(n, d_y)``.
            texts: One a pair: features are named by the words that set their texts apart.
            labels: One a pair: the label mix; the commonest is the name where no word tells.
            n_top: How many of a feature's strongest samples are looked at.
            n_words: Words a feature.
        """
        Z_x, Z_y = self.transform(X), self.transform_y(y)  # type: ignore[attr-defined]
        how: dict[str, Any] = {"texts": texts, "labels": labels, "n_top": n_top, "n_words": n_words}
        of_x = described(Z_x, same_as=first_of_equal_rows(X), **how)
        of_y = described(Z_y, same_as=first_of_equal_rows(y), **how)
        self.feature_names_ = [description.name for description in of_y]
        return of_x, of_y


def one_row(transform: Callable[[Any], Any], x: ArrayLike) -> NDArray[np.float64]:
    """The features ``(n_components,)`` that a transform gives for one vector.

    Args:
        transform: Of an estimator, from ``(1, d)`` to dense or sparse features.
        x: ``(d,)`` or ``(1, d)``; names of columns are kept.
    """
    row: Any = x.to_frame().T if hasattr(x, "to_frame") else x  # a row of a data frame
    if len(getattr(row, "shape", ())) != 2:
        row = np.atleast_2d(np.asarray(from_torch(row)))
    if row.shape[0] != 1:
        raise ValueError(f"explain takes one vector at a time, got {row.shape[0]} rows")
    features = transform(row)
    is_sparse: bool = sparse.issparse(features)
    return np.asarray(features.toarray() if is_sparse else features, np.float64).ravel()
