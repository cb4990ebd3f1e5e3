"""What a feature stands for: the words, labels and samples that set it apart."""

import hashlib
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

from nonneg.estimators.inputs import check_none_missing, from_torch
from nonneg.estimators.words import Words, telling_words
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.inputs import FeatureLike, Features, checked_count, checked_features
from nonneg.metrics.results import IntArray
from nonneg.rows import unit_rows

def check_texts(texts: Sequence[str]) -> None:
    """Raise a sentence for the first entry that is no text, such as None for a missing one."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"texts holds {type(text).__name__} in place {number}; give a text each, empty "
                "where there is none"
            )


_WORD = re.compile(r"\w\w")


@dataclass(frozen=True)
class FeatureDescription:
    """What is known of one feature.

    Args:
        feature: Its number.
        name: Its first words, or without any its commonest label, as ``label 3`` where labels are
            whole numbers; empty without either, as for a feature that is off.
        top: Numbers of its strongest samples, strongest first: look at their images.
        words: The words that set the texts of these samples apart, best first.
        label_mix: The share of each label among them, largest first.
    """

    feature: int
    name: str
    top: tuple[int, ...]
    words: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    label_mix: tuple[tuple[Any, float], ...] = ()


def describe_features(
    Z: FeatureLike,
    *,
    texts: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    n_top: int = 20,
    n_words: int = 3,
    same_as: IntArray | None = None,
) -> list[FeatureDescription]:
    """A description of each feature by its strongest samples, in the order of the features.

    Args:
        Z: Features ``(n, d)``; strength is the value after scaling rows to length 1.
        texts: One per sample; words are those of :func:`telling_words`.
        labels: One per sample, of any type that can be compared; none may be missing.
        n_top: How many of the strongest samples count; those that are off never do.
        n_words: Words per feature.
        same_as: For each sample the number of the first one that equals it: equal ones count once,
            with the texts of all. Left out, all samples differ.

    Example:
        >>> Z = [[1, 0], [1, 0], [0, 1], [0, 1]]
        >>> texts = ["a red car", "a fast car", "a red apple", "an apple pie"]
        >>> [d.name for d in describe_features(Z, texts=texts, n_words=1)]
        ['car', 'apple']
    """
    features = checked_features(Z)
    checked_count(n_top, name="n_top")
    if n_words < 0:
        raise ValueError(f"n_words is {n_words}; it must be at least 0")
    for name, given in (("texts", texts), ("labels", labels)):
        if given is not None and len(given) != features.n_samples:
            raise ValueError(
                f"{name} has {len(given)} entries for {features.n_samples} samples; give one each"
            )
    top = _strongest(features, n_top, same_as)
    words: list[Words] = [()] * len(top)
    if texts is not None:
        check_texts(texts)
        if not any(_WORD.search(text) for text in texts):
            raise ValueError("the texts hold no word to name features by; use labels=…")
        words = _words(_as_rows(top), texts, same_as, n_words)
    plain = [] if labels is None else _plain_labels(labels)
    mixes = [_mix(plain, numbers) if plain else () for numbers in top]
    return [
        FeatureDescription(
            feature=i,
            name=", ".join(word for word, _ in words[i]) or _label_name(mixes[i]),
            top=tuple(numbers),
            words=tuple(word for word, _ in words[i]),
            scores=tuple(score for _, score in words[i]),
            label_mix=mixes[i],
        )
        for i, numbers in enumerate(top)
    ]


def first_of_equal_rows(X: ArrayLike) -> IntArray:
    """For each row the number of the first row that equals it.

    Args:
        X: ``(n, d)``, dense or sparse.

    Example:
        >>> first_of_equal_rows([[1, 2], [0, 0], [1, 2]]).tolist()
        [0, 1, 0]
    """
    first: dict[bytes, int] = {}
    digests = (hashlib.blake2b(row, digest_size=16).digest() for row in _rows_as_bytes(X))
    return np.array([first.setdefault(digest, i) for i, digest in enumerate(digests)], np.int64)


def _rows_as_bytes(X: ArrayLike) -> Iterator[bytes]:
    if not sparse.issparse(X):
        yield from (row.tobytes() for row in np.asarray(from_torch(X)))
        return
    rows = sparse.csr_array(X, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    for start, stop in pairwise(rows.indptr):
        yield rows.indices[start:stop].tobytes() + rows.data[start:stop].tobytes()


def _words(
    top: IntArray, texts: Sequence[str], same_as: IntArray | None, n_words: int
) -> list[Words]:
    if same_as is None:
        return telling_words(top, texts, n_words=n_words)
    nothing = np.empty((len(top), 0), np.int64)
    return telling_words(nothing, texts, n_words=n_words, beside=top, text_of=same_as)


def _strongest(features: Features, n_top: int, same_as: IntArray | None) -> list[list[int]]:
    """For each feature the numbers of its strongest samples that are on, strongest first."""
    counts = torch.ones(features.n_samples, dtype=torch.bool)
    if same_as is not None:
        counts = torch.from_numpy(same_as == np.arange(len(same_as)))
    values = torch.full((n_top, features.n_features), 0.0, dtype=features.dtype)
    numbers = torch.full((n_top, features.n_features), -1)
    for rows, tile in features.tiles():
        strength = torch.cat([values, unit_rows(tile).cpu() * counts[rows, None]])
        known = torch.arange(rows.start, rows.stop)[:, None].expand(-1, features.n_features)
        numbers = torch.cat([numbers, known])
        # (n_top + tile, d). A stable sort: of equally strong samples the earlier comes first.
        order = strength.sort(dim=0, descending=True, stable=True).indices[:n_top]
        values, numbers = strength.gather(0, order), numbers.gather(0, order)
    numbers = numbers.where(values > ACTIVE_THRESHOLD, -1)
    return [[i for i in column if i >= 0] for column in numbers.T.tolist()]


def _as_rows(top: list[list[int]]) -> IntArray:
    """The lists as rows of one array, -1 behind their ends."""
    widest = max((len(numbers) for numbers in top), default=0)
    rows = [[*numbers, *[-1] * (widest - len(numbers))] for numbers in top]
    return np.array(rows, dtype=np.int64).reshape(len(top), widest)


def _plain_labels(labels: Sequence[Any]) -> list[Any]:
    """Labels of an array or a tensor as numbers or texts of Python's own."""
    shape = getattr(labels, "shape", (len(labels),))
    if len(shape) != 1:
        raise ValueError(f"labels has shape {tuple(shape)}; give one per sample, ({len(labels)},)")
    for number, label in enumerate(labels):
        if getattr(label, "ndim", 0) or not isinstance(label, Hashable):
            raise ValueError(
                f"labels holds {type(label).__name__} in place {number}; give one number or text a "
                "sample"
            )
    plain = [label.item() if hasattr(label, "item") else label for label in labels]
    check_none_missing(plain, "labels")
    return plain


def _mix(labels: Sequence[Any], numbers: list[int]) -> tuple[tuple[Any, float], ...]:
    counts = Counter(labels[number] for number in numbers).most_common()
    return tuple((label, count / len(numbers)) for label, count in counts)


def _label_name(mix: tuple[tuple[Any, float], ...]) -> str:
    if not mix:
        return ""
    label = mix[0][0]
    # A number alone would be taken for that of the feature.
    is_number = isinstance(label, int) and not isinstance(label, bool)
    return f"label {label}" if is_number else str(label)
