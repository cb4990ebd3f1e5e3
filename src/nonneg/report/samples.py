"""Which samples does the atlas show? Rows of features, with what can be seen of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from nonneg.estimators.description import check_texts
from nonneg.metrics.inputs import FeatureLike, LabelLike, SparseRows, checked_labels
from nonneg.metrics.results import BoolArray, IntArray

Pixels = NDArray[np.uint8]
# All images, or a function that gives those with some numbers: large sets need not be in memory.
Images = Pixels | Callable[[IntArray], Pixels]


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Samples, their features, and what can be shown of them.

    Args:
        features: ``(n, d)``, dense or SciPy CSR; rows are scaled to length 1 for the page.
        labels: Class numbers ``(n,)``.
        class_names: The name of class 0, 1, …; left out, classes that occur are called by their
            number.
        texts: One a sample.
        images: uint8 ``(n, h, w)``, ``(n, c, h, w)`` or ``(n, h, w, c)``, c being 1 or 3; or a
            function from numbers ``(k,)`` to such an array.
        ids: One a sample, to find it again elsewhere.
        numbers: Whole numbers ``(n,)``, no two alike: what samples without ids are called, such as
            the rows of a file that these are some of; left out, 0, 1, …
        kind: What one of them is called on the page.

    Raises:
        ValueError: If labels, texts, images, ids or numbers are not one a sample.

    Example:
        >>> Samples(features=[[1, 0], [0, 1]], texts=["one"])
        Traceback (most recent call last):
        ...
        ValueError: texts has 1 entries for 2 samples; give one each
    """

    features: FeatureLike
    labels: LabelLike | None = None
    class_names: Sequence[str] = ()
    texts: Sequence[str] | None = None
    images: Images | None = None
    ids: Sequence[Any] | None = None
    numbers: IntArray | None = None
    kind: str = "sample"

    def __post_init__(self) -> None:
        matrix = as_matrix(self.features)
        object.__setattr__(self, "features", matrix)
        if len(matrix.shape) != 2 or 0 in matrix.shape:
            raise ValueError(
                f"the features have shape {tuple(matrix.shape)}; an atlas needs at least one "
                "sample and one feature, (n_samples, n_features)"
            )
        for name in ("texts", "images", "ids", "numbers"):
            given = getattr(self, name)
            if given is not None and not callable(given) and len(given) != len(self):
                raise ValueError(
                    f"{name} has {len(given)} entries for {len(self)} {self.kind}s; give one each"
                )
        if self.numbers is not None and len(np.unique(self.numbers)) < len(self):
            raise ValueError(f"numbers has some twice; give each {self.kind} its own")
        if self.texts is not None:
            check_texts(self.texts)
        if self.labels is not None:
            self._name_classes(checked_labels(self.labels, len(self), "labels"))

    def _name_classes(self, labels: IntArray) -> None:
        """Classes without names get their numbers as names, those that occur only."""
        names = list(self.class_names)
        if not names:
            present, labels = np.unique(labels, return_inverse=True)
            names = [str(number) for number in present]
        elif labels.max() >= len(names):
            raise ValueError(
                f"labels go up to {labels.max()}, but there are only {len(names)} class names"
            )
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "class_names", names)

    def __len__(self) -> int:
        return int(self.features.shape[0])  # type: ignore[union-attr]

    @property
    def n_features(self) -> int:
        """Columns of the features."""
        return int(self.features.shape[1])  # type: ignore[union-attr]

    @property
    def classes(self) -> IntArray | None:
        """The labels as checked numbers, or None."""
        return None if self.labels is None else np.asarray(self.labels)

    @property
    def own_numbers(self) -> IntArray:
        """What samples without ids are called ``(n,)``."""
        return np.arange(len(self)) if self.numbers is None else np.asarray(self.numbers)

    def finite_rows(self) -> BoolArray:
        """Which samples have only finite features, ``(n,)``."""
        return finite_rows(self.features)

    def take(self, numbers: IntArray) -> Self:
        """The samples with these numbers, in this order."""
        images = self.images
        if callable(images):
            fetch = images
            images = lambda some: fetch(numbers[some])  # noqa: E731
        elif images is not None:
            images = images[numbers]
        return replace(
            self,
            features=rows_of(self.features, numbers),
            labels=None if self.classes is None else self.classes[numbers],
            texts=None if self.texts is None else [self.texts[i] for i in numbers],
            images=images,
            ids=None if self.ids is None else [self.ids[i] for i in numbers],
            numbers=self.own_numbers[numbers],
        )


def as_matrix(features: FeatureLike) -> Any:  # noqa: ANN401
    """An array, or SciPy's CSR where the features are sparse, on the CPU."""
    if isinstance(features, Tensor):
        return features.detach().cpu().numpy()
    return sparse.csr_array(features) if sparse.issparse(features) else np.asarray(features)


def finite_rows(features: FeatureLike) -> BoolArray:
    """Which rows of a matrix ``(n, d)`` hold neither NaN nor infinity, ``(n,)``.

    Example:
        >>> finite_rows(np.array([[1.0, np.nan], [0.0, 2.0]]))
        array([False,  True])
    """
    if hasattr(features, "indptr"):
        rows: SparseRows = features  # type: ignore[assignment]
        fine = np.ones(rows.shape[0], dtype=bool)
        bad = ~np.isfinite(rows.data)
        fine[np.searchsorted(rows.indptr, np.flatnonzero(bad), side="right") - 1] = False
        return fine
    result: BoolArray = np.isfinite(np.asarray(features)).all(axis=1)
    return result


def rows_of(features: FeatureLike, numbers: IntArray) -> FeatureLike:
    """Some rows of a dense or sparse matrix."""
    return features[numbers]  # type: ignore[index]


def drawn(n: int, limit: int, seed: int) -> IntArray:
    """At most ``limit`` of the numbers 0 … n - 1, drawn at random once for a seed, in order.

    Example:
        >>> drawn(3, 10, seed=0)
        array([0, 1, 2])
    """
    if n <= limit:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size=limit, replace=False))
