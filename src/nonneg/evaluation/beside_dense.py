"""Features beside the vectors they were made of, and beside a PCA of as many numbers.

The question of everyone who has vectors already: what is gained and what is lost by reading a few
features instead. All three are measured alike, on the same test samples.
"""

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from nonneg import metrics
from nonneg.evaluation.readability import why_too_few
from nonneg.metrics.figures import BECAUSE, MIN_ACTIVE, Figure, Figures, number_text, shown_kind
from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_count,
    checked_features,
    checked_labels,
)
from nonneg.metrics.retrieval import nearest, nonzero_rows

# Per stored number: a float32, and in sparse rows an index of four bytes beside it.
_DENSE_BYTES = 4
_SPARSE_BYTES = 8
# Half the width of a 95 % interval in standard errors.
_INTERVAL = 1.96
_COMPARED_ROWS = 4096


class Found(NamedTuple):
    """What test samples find among other samples by cosine; means over the test samples.

    Args:
        precision: Share of the k nearest that have the class of the sample; NaN without labels.
        nearest: Share of samples whose nearest one has their class (1-NN); NaN without labels.
        kept: Share of the k nearest by the vectors that are among the k nearest here too; test
            samples whose vector is all zero are left out, and NaN if all are.
    """

    precision: float
    nearest: float
    kept: float


# The purity of fewer features than this, of many, is a matter of chance.
_LEAST_MEASURED = 10


@dataclass(frozen=True)
class Represented:
    """The figures of one way to write samples as numbers.

    Args:
        n_numbers: Columns.
        active_per_sample: Mean number of active ones per test sample.
        bytes_per_sample: 4 per column, or 8 per active number (value and index) if that is less.
        in_train: Found among the training samples.
        in_test: Found among the other test samples.
        top_purity: Of the test samples; NaN without labels, or where fewer than ten columns,
            and fewer than a quarter of those alive, are active for m.
        n_zero_rows: Test samples without any number other than 0; they find nothing.
    """

    n_numbers: int
    active_per_sample: float
    bytes_per_sample: float
    in_train: Found
    in_test: Found
    top_purity: float
    n_zero_rows: int


@dataclass(frozen=True)
class BesideDense:
    """Features, the vectors they were made of, and a PCA, measured alike.

    Args:
        features: Figures of the features.
        vectors: Figures of the vectors.
        pca: Figures of the first principal components of the training vectors, as many as
            features are active per test sample.
        k: Neighbours of precision and kept.
        m: Strongest samples of purity.
        n_train: Training samples.
        n_test: Test samples.
        margins: Of ``precision`` and ``nearest`` in train: half the width of the 95 % interval
            (normal approximation, paired over test samples) of features minus vectors. NaN without
            labels.
        because: Why figures of classes have no value; empty where they have.
    """

    features: Represented
    vectors: Represented
    pca: Represented
    k: int
    m: int
    n_train: int
    n_test: int
    margins: dict[str, float]
    because: str = ""

    @property
    def sentence(self) -> str:
        """What was gained and lost, see :func:`gain_and_loss`."""
        return gain_and_loss(self.figures())

    def figures(self) -> Figures:
        """Figures of the features, each with those of the vectors and of the PCA beside it."""
        searched = {"k": self.k, "n_train": self.n_train}
        within = {"k": self.k, "n_samples": self.n_test}
        read: dict[str, tuple[str, dict[str, Any]]] = {
            "beside_active": ("active_per_sample", {"n_zero_rows": self.features.n_zero_rows}),
            "beside_bytes": ("bytes_per_sample", {}),
        }
        for name in Found._fields:
            margin = {"margin": self.margins[name]} if name in self.margins else {}
            read[f"beside_train_{name}"] = (f"in_train.{name}", searched | margin)
        read |= {f"beside_test_{name}": (f"in_test.{name}", within) for name in Found._fields}
        read[f"beside_top{self.m}_purity"] = ("top_purity", {})
        return {key: self._figure(key, *entry) for key, entry in read.items()}

    def _figure(self, key: str, path: str, counts: dict[str, Any]) -> Figure:
        value, vectors, pca = (
            _whole(attrgetter(path)(each)) for each in (self.features, self.vectors, self.pca)
        )
        others = {"vectors": vectors, "pca": pca, "pca_numbers": self.pca.n_numbers}
        if not math.isnan(value):
            return Figure.of(key, value, **others, **counts)
        why = self.because or why_too_few(self.n_test, self.m)
        if path == "top_purity" and not self.because and self.n_test > self.m:
            why = f"too few features are on for {self.m} of the {self.n_test:,} samples"
        if path.endswith("kept"):
            why = "all vectors of the test samples are zero"
        return Figure.of(key, None, **{BECAUSE: why}, **others, **counts)


def beside_dense(
    X_train: FeatureLike,
    Z_train: FeatureLike,
    X_test: FeatureLike,
    Z_test: FeatureLike,
    y_train: LabelLike | None = None,
    y_test: LabelLike | None = None,
    *,
    k: int = 10,
    m: int = MIN_ACTIVE,
    random_state: int = 0,
) -> BesideDense:
    """What features find, beside the vectors they were made of and a PCA of as many numbers.

    Test samples search by cosine among the training samples, and among each other. The PCA has as
    many components as features are active per test sample (rounded; at least 1, at most
    ``min(n_train - 1, n_columns)``), and is fitted to the training vectors, which it centres; the
    vectors are taken as they are.

    Args:
        X_train: Vectors ``(n_train, n_columns)``; held densely in memory.
        Z_train: Their features ``(n_train, n_features)``, such as ``NCL.transform`` gives.
        X_test: Vectors of other samples ``(n_test, n_columns)``; one that is among the training
            samples finds itself.
        Z_test: Their features ``(n_test, n_features)``.
        y_train: Class numbers ``(n_train,)``.
        y_test: Class numbers ``(n_test,)``; without labels only sizes and the share of neighbours
            that are kept have a value, the others are NaN.
        k: Neighbours, at most ``n_train`` and ``n_test - 1``.
        m: Strongest samples of purity, which is NaN unless there are more test samples.
        random_state: Of the PCA, where scikit-learn draws random directions (wide vectors).

    Returns:
        Of equally near samples those of lower number are found first. Rows of zeros never find and
        are never found. With one class only, every share of classes is 1 and says nothing.

    Raises:
        ValueError: Arrays that do not fit each other, or labels of one side only.

    Example:
        Two kinds of samples; four numbers each, of which one feature tells as much.

        >>> kinds = np.arange(8) % 2
        >>> Z, X = np.eye(2)[kinds], np.array([[1, 1, 1, 1], [1, -1, 1, -1]])[kinds]
        >>> found = beside_dense(X, Z, X, Z, kinds, kinds, k=3)
        >>> found.features.bytes_per_sample, found.vectors.bytes_per_sample
        (8.0, 16.0)
        >>> found.sentence
        '1 active number per sample instead of 4 (8 bytes instead of 16): precision@3 100.0 %, the \
same (vectors 100.0 %, PCA of 1 number 100.0 %); 1-NN 100.0 %, the same (100.0 %, 100.0 %).'
    """
    vectors = _both(X_train, X_test, "X")
    features = _both(Z_train, Z_test, "Z")
    for part, X, Z in zip(("train", "test"), vectors, features, strict=True):
        if X.n_samples != Z.n_samples:
            raise ValueError(
                f"X_{part} has {X.n_samples} samples, Z_{part} has {Z.n_samples}; pass the "
                "features of the same samples"
            )
        if X.n_samples < 2:
            raise ValueError(f"X_{part} has 1 sample; it takes at least 2")
    n_train, n_test = (X.n_samples for X in vectors)
    checked_count(k, name="k", limit=n_train, limited_by="the number of training samples")
    checked_count(k, name="k", limit=n_test - 1, limited_by="the number of other test samples")
    checked_count(m, name="m")
    labels = _both_labels(y_train, y_test, n_train, n_test)
    n_active = metrics.active_per_sample(Z_test).value
    n_axes = int(np.clip(np.rint(n_active), 1, min(n_train - 1, vectors[0].n_features)))
    sides = {
        "features": features,
        "vectors": vectors,
        "pca": _principal(*vectors, n_axes, random_state),
    }
    found = {name: _Search.of(train, test, k) for name, (train, test) in sides.items()}
    measured = {
        name: _represented(test, found[name], found["vectors"], labels, m)
        for name, (_, test) in sides.items()
    }
    margins = dict.fromkeys(("precision", "nearest"), math.nan)
    if labels is not None:
        own, dense = (_of_class(found[name].in_train, *labels) for name in ("features", "vectors"))
        margins = {
            "precision": _margin(own.mean(dim=1) - dense.mean(dim=1)),
            "nearest": _margin(own[:, 0] - dense[:, 0]),
        }
    because = "there are no labels" if labels is None else ""
    return BesideDense(
        **measured, k=k, m=m, n_train=n_train, n_test=n_test, margins=margins, because=because
    )


def gain_and_loss(figures: Figures) -> str:
    """One sentence on what was gained and lost, from the figures of :class:`BesideDense`.

    A difference of shares is called better or worse only where its 95 % interval over the test
    samples leaves out zero. Without labels the sentence says how many neighbours are kept.
    """
    active, size = figures["beside_active"], figures["beside_bytes"]
    unit = "active number" if active.value == 1 else "active numbers"
    opening = (
        f"{active.text()} {unit} per sample instead of {number_text(active.beside['vectors'])} "
        f"({size.text()} bytes instead of {number_text(size.beside['vectors'])})"
    )
    axes = active.beside["pca_numbers"]
    pca = f"PCA of {axes} number{'' if axes == 1 else 's'}"
    compared = _compared(figures, pca)
    if not compared:
        kept = figures["beside_train_kept"]
        other = number_text(kept.beside["pca"], is_rate=True)
        compared = [
            f"{kept.text()} of the {kept.beside['k']} nearest training samples by the vectors are "
            f"among the {kept.beside['k']} nearest by the features ({pca}: {other})"
        ]
    if n_off := active.beside.get("n_zero_rows"):
        has = "has" if n_off == 1 else "have"
        compared.append(f"{n_off:,} test sample{'' if n_off == 1 else 's'} {has} no active feature")
    return f"{opening}: {'; '.join(compared)}."


@dataclass(frozen=True)
class _Search:
    """What test samples find, int64 ``(n_test, k)`` each, -1 for nothing."""

    in_train: Tensor
    in_test: Tensor

    @classmethod
    def of(cls, train: Features, test: Features, k: int) -> Self:
        return cls(
            nearest(test, train, nonzero_rows(train), k, leave_one_out=False),
            nearest(test, test, nonzero_rows(test), k, leave_one_out=True),
        )


def _represented(
    test: Features,
    search: _Search,
    of_vectors: _Search,
    labels: tuple[Tensor, Tensor] | None,
    m: int,
) -> Represented:
    y_train, y_test = labels or (None, None)
    active = metrics.active_per_sample(test.source).value
    purity = math.nan
    if y_test is not None and test.n_samples > m:  # the strongest of all samples are all samples
        measured = metrics.top_purity(test.source, y_test, m)
        is_enough = measured.averaged_over >= min(_LEAST_MEASURED, measured.n_alive / 4)
        purity = measured.value if is_enough else math.nan
    return Represented(
        n_numbers=test.n_features,
        active_per_sample=active,
        bytes_per_sample=min(_SPARSE_BYTES * active, float(_DENSE_BYTES * test.n_features)),
        in_train=_found(search.in_train, of_vectors.in_train, y_train, y_test),
        in_test=_found(search.in_test, of_vectors.in_test, y_test, y_test),
        top_purity=purity,
        n_zero_rows=test.n_samples - len(nonzero_rows(test)),
    )


def _found(
    numbers: Tensor, of_vectors: Tensor, y_gallery: Tensor | None, y_query: Tensor | None
) -> Found:
    kept = _kept(numbers, of_vectors)
    if y_gallery is None or y_query is None:
        return Found(math.nan, math.nan, kept)
    relevant = _of_class(numbers, y_gallery, y_query)
    return Found(float(relevant.mean()), float(relevant[:, 0].mean()), kept)


def _of_class(numbers: Tensor, y_gallery: Tensor, y_query: Tensor) -> Tensor:
    """1 where a neighbour has the class of its query, else 0, float64 ``(n_test, k)``."""
    return ((y_gallery[numbers.clamp(min=0)] == y_query[:, None]) & (numbers >= 0)).double()


def _kept(numbers: Tensor, of_vectors: Tensor) -> float:
    """The share of the vectors' neighbours that are among these, mean over the test samples."""
    shares = []
    parts = zip(numbers.split(_COMPARED_ROWS), of_vectors.split(_COMPARED_ROWS), strict=True)
    for here, there in parts:
        exists = there >= 0  # (n, k)
        kept = (there[:, :, None] == here[:, None, :]).any(dim=2) & exists
        shares.append(kept.sum(dim=1) / exists.sum(dim=1))  # NaN for a vector of zeros
    return float(torch.cat(shares).double().nanmean())


def _margin(difference: Tensor) -> float:
    """Half the width of the 95 % interval of a mean over samples ``(n,)``."""
    return float(_INTERVAL * difference.std() / len(difference) ** 0.5)


def _principal(
    train: Features, test: Features, n_axes: int, random_state: int
) -> tuple[Features, Features]:
    """Both sets on the first principal axes of the training set, ``(n, n_axes)`` each."""
    from sklearn.decomposition import PCA  # slow to import, and needed here only

    rows = train.dense().cpu()
    centre = rows.mean(dim=0, dtype=torch.float64).to(rows.dtype)
    # Directions do not depend on the scale, but squares of very large or small entries do.
    scale = float((rows - centre).abs().max()) or 1.0
    parts = [((side.dense().cpu() - centre) / scale).numpy() for side in (train, test)]
    with np.errstate(invalid="ignore"):  # the share of variance that nothing has of nothing
        pca = PCA(n_axes, random_state=random_state).fit(parts[0])
    first, second = (checked_features(pca.transform(part)) for part in parts)
    return first, second


def _both(train: FeatureLike, test: FeatureLike, name: str) -> tuple[Features, Features]:
    first, second = checked_features(train, f"{name}_train"), checked_features(test, f"{name}_test")
    if first.n_features != second.n_features:
        raise ValueError(
            f"{name}_train has {first.n_features} columns, {name}_test has {second.n_features}; "
            "both come from the same model"
        )
    return first, second


def _both_labels(
    y_train: LabelLike | None, y_test: LabelLike | None, n_train: int, n_test: int
) -> tuple[Tensor, Tensor] | None:
    if y_train is None and y_test is None:
        return None
    if y_train is None or y_test is None:
        given, lacking = ("y_test", "y_train") if y_train is None else ("y_train", "y_test")
        raise ValueError(f"{given} was given without {lacking}; pass both or neither")
    return (
        torch.from_numpy(checked_labels(y_train, n_train, "y_train")),
        torch.from_numpy(checked_labels(y_test, n_test, "y_test")),
    )


def _whole(number: float) -> float | int:
    """A whole number as an int, which is shown without decimals."""
    return int(number) if number.is_integer() and number > 1 else number


def _compared(figures: Figures, pca: str) -> list[str]:
    """What the sentence says of each figure of classes that has a value."""
    keys = ["beside_train_precision", "beside_train_nearest"]
    keys += [key for key in figures if key.endswith("_purity")]
    said: list[str] = []
    for key in keys:
        figure = figures[key]
        if figure.value is None:
            continue
        others = [number_text(figure.beside[n], is_rate=figure.is_rate) for n in ("vectors", "pca")]
        if not said:
            others = [f"vectors {others[0]}", f"{pca} {others[1]}"]
        title = shown_kind(key, k=figure.beside.get("k")).title.partition(",")[0]
        said.append(f"{title} {figure.text()}, {_difference(figure)} ({', '.join(others)})")
    return said


def _difference(figure: Figure) -> str:
    """Better, worse or neither, and by how much, than the vectors."""
    vectors = figure.beside["vectors"]
    if figure.value is None or not isinstance(vectors, float | int):
        return "not measured of the vectors"
    difference = figure.value - vectors
    if difference == 0:
        return "the same"
    margin = figure.beside.get("margin")
    if isinstance(margin, float) and abs(difference) <= margin:
        return "no significant difference"
    is_better = (difference > 0) == figure.higher_is_better
    size = abs(difference)
    amount = f"{100 * size:.1f} points" if figure.is_rate else number_text(size)
    return f"{'better' if is_better else 'worse'} by {amount}"
