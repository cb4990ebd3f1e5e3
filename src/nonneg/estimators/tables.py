"""Tables of features and of samples, to print, to save as csv or to go on with in pandas."""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from nonneg.estimators.description import FeatureDescription, describe_features
from nonneg.estimators.inputs import from_torch
from nonneg.estimators.naming import distinct_names
from nonneg.estimators.records import Table, table
from nonneg.estimators.tokens import checked_text
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.inputs import FeatureLike, checked_count, checked_features
from nonneg.metrics.results import FloatArray, IntArray

# Purity is measured on so many samples of a feature, as by nonneg.metrics.top_purity.
_TOP = 20
# Words in the name of a feature that has none yet, as describe gives.
_NAME_WORDS = 3
_N_NEAREST = 3
_N_OTHERS = 5
# Longer texts are cut in tables.
_TEXT_LENGTH = 80
_BLOCK_FEATURES = 256


def unit_features(Z: FeatureLike) -> sparse.csr_array:
    """Features with rows of length 1, float64 ``(n, d)``, holding what is on and nothing else.

    Example:
        >>> unit_features([[3, 4], [0, 0], [1, 1e-9]]).toarray().tolist()
        [[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]]
    """
    features = checked_features(Z)
    source: Any = features.source
    is_sparse: bool = sparse.issparse(source)
    rows = sparse.csr_array(source if is_sparse else features.dense().cpu().numpy(), copy=True)
    rows.data = rows.data.astype(np.float64)
    rows.eliminate_zeros()
    n_on = np.diff(rows.indptr)
    row_of = np.repeat(np.arange(len(n_on)), n_on)
    largest = np.zeros(len(n_on))
    np.maximum.at(largest, row_of, np.abs(rows.data))
    rows.data /= largest[row_of]  # or squares of large numbers would overflow
    rows.data /= np.sqrt(np.bincount(row_of, rows.data**2, minlength=len(n_on)))[row_of]
    rows.data[np.abs(rows.data) <= ACTIVE_THRESHOLD] = 0
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


def check_lengths(n_samples: int, **given: Sequence[Any] | None) -> None:
    """Raise a sentence for the first of the arguments that has not one entry per sample."""
    for name, entries in given.items():
        if entries is not None and len(entries) != n_samples:
            raise ValueError(
                f"{name} has {len(entries)} entries for {n_samples} samples; give one each"
            )


def table_of_features(
    Z: FeatureLike,
    *,
    texts: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    names: Sequence[str] = (),
    n_words: int = 10,
    n_examples: int = 3,
) -> Table:
    """One row per feature that is on for some sample, the largest expected activation first.

    Args:
        Z: Features ``(n, d)``, SciPy CSR where they are many.
        texts: One per sample: for words, with their scores where known, and examples.
        labels: One per sample: for ``purity``, the share of the commonest ``label`` among the 20
            strongest samples (missing where fewer are on), as in ``nonneg.metrics.top_purity``.
        names: Of the features; without them they are named by words or labels.
        n_words: Words per feature.
        n_examples: Its strongest samples, as texts or by number; at most 20.

    Returns:
        The columns ``feature``, ``name``, ``words`` (with texts), ``share`` of samples it is on
        for, ``expected_activation`` (mean, rows having length 1), ``purity`` and ``label`` (with
        labels), ``nearest`` (the three features that are on together with it most, by the cosine
        of their columns) and ``examples``.

    Example:
        >>> Z = [[1, 0, 0], [0, 1, 0], [1, 1, 0]]
        >>> found = table_of_features(Z, names=["red", "round", "old"], n_examples=2)
        >>> print(found.to_markdown())
        | feature | name  |  share | expected_activation | nearest        | examples |
        |--------:|-------|-------:|--------------------:|----------------|----------|
        |       0 | red   | 0.6667 |               0.569 | 1 round (0.33) | 0, 2     |
        |       1 | round | 0.6667 |               0.569 | 0 red (0.33)   | 1, 2     |
    """
    if not 0 <= n_examples <= _TOP:
        raise ValueError(f"n_examples is {n_examples}; it must be from 0 to {_TOP}")
    rows = unit_features(Z)
    check_lengths(rows.shape[0], texts=texts, labels=labels)
    found = describe_features(rows, texts=texts, labels=labels, n_top=_TOP, n_words=n_words)
    n_on = np.bincount(rows.indices, minlength=rows.shape[1])
    mean = np.asarray(rows.sum(axis=0)).ravel() / rows.shape[0]
    alive = np.flatnonzero(n_on)
    order = alive[np.argsort(-mean[alive], kind="stable")]
    called = _called(found, names)
    columns: dict[str, Any] = {"feature": order, "name": [called[i] for i in order]}
    if texts is not None:
        columns["words"] = [_words(found[i]) for i in order]
    columns |= {"share": n_on[order] / rows.shape[0], "expected_activation": mean[order]}
    if labels is not None:
        columns["purity"] = [
            found[i].label_mix[0][1] if len(found[i].top) == _TOP else math.nan for i in order
        ]
        columns["label"] = [found[i].label_mix[0][0] for i in order]
    near, cosine = _nearest_features(rows, order)
    columns["nearest"] = [
        _listed(near[i], cosine[i], called, at_most=_N_NEAREST) for i in range(len(order))
    ]
    tops = [found[i].top[:n_examples] for i in order]
    if texts is None:
        columns["examples"] = [", ".join(map(str, top)) for top in tops]
    else:
        columns["examples"] = [" · ".join(_lines(texts, top)) for top in tops]
    return table(columns)


def _called(found: Sequence[FeatureDescription], names: Sequence[str]) -> list[str]:
    """The names that features have; for those without, what :func:`describe_features` would say."""
    first = [", ".join(d.words[:_NAME_WORDS]) or d.name for d in found]
    first = [known or new for known, new in zip(names or first, first, strict=True)]
    return distinct_names(first, [d.words[_NAME_WORDS:] for d in found])


def _words(description: FeatureDescription) -> str:
    pairs = zip(description.words, description.scores, strict=True)
    return ", ".join(f"{word} ({score:.2f})" for word, score in pairs)


def _nearest_features(rows: sparse.csr_array, which: IntArray) -> tuple[IntArray, FloatArray]:
    """For each of some features the others by cosine of columns, nearest first, and the cosines."""
    columns = sparse.csc_array(rows)
    lengths = np.sqrt(np.bincount(rows.indices, rows.data**2, minlength=rows.shape[1]))
    lengths[lengths == 0] = 1
    n_kept = min(_N_NEAREST, rows.shape[1])
    near, cosines = np.empty((len(which), n_kept), np.int64), np.empty((len(which), n_kept))
    for start in range(0, len(which), _BLOCK_FEATURES):
        block = which[start : start + _BLOCK_FEATURES]
        together: Any = columns[:, block].T @ columns
        cosine = together.toarray() / lengths[block, None] / lengths
        cosine[np.arange(len(block)), block] = 0
        order = np.argsort(-cosine, axis=1, kind="stable")[:, :n_kept]
        near[start : start + len(block)] = order
        cosines[start : start + len(block)] = np.take_along_axis(cosine, order, axis=1)
    return near, cosines


def _listed(
    numbers: NDArray[np.integer], values: FloatArray, names: Sequence[str], *, at_most: int
) -> str:
    """Features with a value above zero, as ``17 refunds (0.42)``."""
    pairs = [(i, v) for i, v in zip(numbers.tolist(), values.tolist(), strict=True) if v > 0]
    return " · ".join(
        f"{i} {names[i]} ({v:.2f})" if len(names) and names[i] else f"{i} ({v:.2f})"
        for i, v in pairs[:at_most]
    )


def _lines(texts: Sequence[str], numbers: Iterable[int]) -> list[str]:
    plain = texts.tolist() if hasattr(texts, "tolist") else texts  # a series has names for rows
    return [shortened(checked_text(plain[i], int(i))) for i in numbers]


def shortened(text: str) -> str:
    r"""A text in one line, cut where it is long.

    Example:
        >>> shortened("two\n  lines"), len(shortened("word " * 100))
        ('two lines', 80)
    """
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_LENGTH else line[: _TEXT_LENGTH - 1] + "…"


def table_of_samples(
    Z: FeatureLike, *, texts: Sequence[str] | None = None, names: Sequence[str] = ()
) -> Table:
    """The active features of samples, the strongest of each first; samples with none have no row.

    Args:
        Z: Features ``(n, d)``.
        texts: One per sample, shown beside its number.
        names: Of the features.

    Returns:
        The columns ``sample``, ``text`` (with texts), ``feature``, ``name``, ``activation`` (rows
        having length 1) and ``share``, its square: the shares of a sample add up to 1.

    Example:
        >>> table_of_samples([[3, 4]], names=["red", "round"]).to_csv().splitlines()[1]
        '0,1,round,0.8,0.6400000000000001'
    """
    rows = unit_features(Z)
    check_lengths(rows.shape[0], texts=texts)
    sample = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((-rows.data, sample))
    columns: dict[str, Any] = {"sample": sample[order]}
    if texts is not None:
        columns["text"] = _lines(texts, sample[order])
    features = rows.indices[order]
    columns["feature"] = features
    columns["name"] = [names[i] if len(names) else "" for i in features]
    columns |= {"activation": rows.data[order], "share": rows.data[order] ** 2}
    return table(columns)


def table_of_examples(
    Z: FeatureLike,
    features: Sequence[int],
    n: int = 10,
    *,
    texts: Sequence[str] | None = None,
    names: Sequence[str] = (),
) -> Table:
    """The samples for which a feature is strongest; of equally strong ones the earlier comes first.

    Args:
        Z: Features ``(n_samples, d)``.
        features: Its number; several are taken as one, whose activation is the root of the sum of
            their squares.
        n: How many samples at most; those for which it is off are never shown.
        texts: One per sample.
        names: Of the features.

    Returns:
        The columns ``sample``, ``activation`` (rows having length 1), ``others`` (the strongest
        five of its other features) and ``text`` (with texts).

    Example:
        >>> print(table_of_examples([[0, 1], [3, 4], [1, 0]], [0]).to_markdown())
        | sample | activation | others   |
        |-------:|-----------:|----------|
        |      2 |          1 |          |
        |      1 |        0.6 | 1 (0.80) |
    """
    checked_count(n, name="n")
    rows = unit_features(Z)
    check_lengths(rows.shape[0], texts=texts)
    for feature in features:
        if not 0 <= feature < rows.shape[1]:
            raise ValueError(
                f"there is no feature {feature}; they are numbered 0 to {rows.shape[1] - 1}"
            )
    is_asked = np.isin(rows.indices, features)
    sample = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[is_asked]
    on = rows.data[is_asked]
    strength = np.sqrt(np.bincount(sample, np.maximum(on, 0) ** 2, minlength=rows.shape[0]))
    strongest = np.argsort(-strength, kind="stable")[:n]
    strongest = strongest[strength[strongest] > 0]
    others = []
    for i in strongest:
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        order = np.argsort(-rows.data[part], kind="stable")
        order = order[~is_asked[part][order]]
        others.append(
            _listed(rows.indices[part][order], rows.data[part][order], names, at_most=_N_OTHERS)
        )
    columns: dict[str, Any] = {
        "sample": strongest,
        "activation": strength[strongest],
        "others": others,
    }
    if texts is not None:
        columns["text"] = _lines(texts, strongest)
    return table(columns)


class TabledFeatures:
    """The tables of an estimator with ``transform`` and ``feature_names_``."""

    feature_names_: list[str]

    def features_table(
        self,
        X: ArrayLike,
        texts: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        *,
        n_words: int = 10,
        n_examples: int = 3,
    ) -> Table:
        """One row per feature that is on for some row of X, the largest expected activation first.

        A data frame, or records where pandas is not installed. The columns are ``feature``,
        ``name`` (of :meth:`describe`, otherwise found now), ``words``, ``share`` of the samples it
        is on for, ``expected_activation``, ``purity`` and commonest ``label`` of its 20 strongest
        samples, ``nearest`` features and ``examples``.

        Args:
            X: Vectors ``(n, d)``, read tile by tile; only features that are on are held.
            texts: One per sample, for words and examples.
            labels: One per sample, for purity.
            n_words: Words per feature.
            n_examples: Its strongest samples, as texts or by number; at most 20.
        """
        return table_of_features(
            self._sparse_features(X),
            texts=texts,
            labels=labels,
            names=self.feature_names_,
            n_words=n_words,
            n_examples=n_examples,
        )

    def sample_table(self, x: ArrayLike, *, texts: Sequence[str] | None = None) -> Table:
        """The active features of one or several samples, the strongest of each first.

        The columns are ``feature``, ``name``, ``activation`` (the sample having length 1) and
        ``share``, its square: shares of a sample add up to 1.

        Args:
            x: One vector ``(d,)``, or several ``(n, d)``, which a column ``sample`` numbers.
            texts: One per sample, shown in a column ``text``.
        """
        rows: Any = x.to_frame().T if hasattr(x, "to_frame") else x  # a row of a data frame
        is_one = rows is not x
        if len(getattr(rows, "shape", ())) != 2:
            rows = np.asarray(from_torch(rows))
            is_one, rows = rows.ndim < 2, np.atleast_2d(rows)
        if isinstance(texts, str):
            texts = [texts]
        found = table_of_samples(
            self._sparse_features(rows), texts=texts, names=self.feature_names_
        )
        if not is_one:
            return found
        return table({name: found[name] for name in found.columns if name != "sample"})

    def examples(
        self,
        feature: int | str,
        X: ArrayLike,
        n: int = 10,
        *,
        texts: Sequence[str] | None = None,
    ) -> Table:
        """The samples of X for which a feature is strongest, and what else they have.

        The columns are ``sample``, ``activation`` (the sample having length 1), ``others``, its
        other features, and ``text``.

        Args:
            feature: Its number, its name or words of its name; several features that these stand
                for are taken as one, whose activation is the root of the sum of their squares.
            X: Vectors ``(n_samples, d)``.
            n: At most so many.
            texts: One per sample.
        """
        check_is_fitted(self)
        numbers = self._numbers(feature)  # type: ignore[attr-defined]
        return table_of_examples(
            self._sparse_features(X), numbers, n, texts=texts, names=self.feature_names_
        )

    def _sparse_features(self, X: ArrayLike) -> sparse.csr_array:
        """What ``transform`` gives, as SciPy CSR whatever ``sparse_output`` is."""
        check_is_fitted(self)
        quiet: Any = copy(self)
        quiet.sparse_output = True
        features: sparse.csr_array = quiet.transform(X)
        return features
