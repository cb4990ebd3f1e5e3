"""What a feature stands for: the words, labels and samples that set it apart."""

import hashlib
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nonneg.estimators.inputs import check_none_missing, from_torch
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.inputs import FeatureLike, Features, checked_count, checked_features
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.rows import unit_rows

# As if so many texts of the usual words were there too: few texts prove little.
_PRIOR = 5
# Above 1, rare words weigh more against words that stand in many texts anyway.
_RARENESS = 1.5
# Words of one or two letters tell little in most languages, so they count half.
_SHORT_WORD = 2
# Shares of one size may differ by rounding, which tells nothing.
_ROUNDING = 1e-9
# An ending makes no new word: sits and sitting, woman and women.
_STEM = 3
_ENDING = 4


def check_texts(texts: Sequence[str]) -> None:
    """Raise a sentence for the first entry that is no text, such as None for a missing one."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"texts holds {type(text).__name__} in place {number}; give a text each, empty "
                "where there is none"
            )


def telling_words(
    top: IntArray,
    texts: Sequence[str],
    *,
    n_words: int = 3,
    beside: IntArray | None = None,
    text_of: IntArray | None = None,
) -> list[tuple[str, ...]]:
    """For each feature the words that its strongest texts hold more often than others, best first.

    Class-based TF-IDF (Grootendorst 2022), made for features with few texts: a word is judged by
    ``p log(p / q)^1.5``, p being the share of the feature's texts that hold it, drawn towards q,
    its share of all texts; one no more frequent there than anywhere tells nothing. It must be in
    two texts at least, and in a tenth of them, where there is such a word. Of skier and skiers the
    better one stands.

    Args:
        top: Numbers of each feature's strongest texts, then -1 ``(d, n_top)``.
        texts: Where they hold no words at all, none are found.
        n_words: At most so many per feature.
        beside: Numbers of each feature's strongest samples of another kind, such as images, then
            -1 ``(d, n_beside)``; their texts count as much.
        text_of: For each text the number of its sample of that kind, or -1.

    Example:
        >>> texts = ["a red car", "a fast car", "a red apple", "an apple pie"]
        >>> telling_words(np.array([[0, 1], [2, 3], [-1, -1]]), texts)
        [('car',), ('apple',), ()]
    """
    # scikit-learn takes long to import, and pages without texts do not need it.
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(binary=True, token_pattern=r"(?u)\b\w\w+\b", dtype=np.float64)
    try:
        holds = sparse.csr_array(counter.fit_transform(texts))  # (texts, words)
    except ValueError:
        return [()] * len(top)
    words = counter.get_feature_names_out().tolist()
    is_short = np.array([len(word) <= _SHORT_WORD for word in words])
    found, n_found = _counted_words(top, holds)
    if beside is not None and text_of is not None:
        n_samples = int(beside.max(initial=0)) + 1
        more, n_more = _counted_words(beside, _of_samples(text_of, n_samples) @ holds)
        found, n_found = sparse.csr_array(found + more), n_found + n_more
    found.sort_indices()
    usual = np.asarray(holds.sum(axis=0)).ravel() / len(texts)
    telling = []
    for i, n in enumerate(n_found):
        part = slice(found.indptr[i], found.indptr[i + 1])
        which = found.indices[part]
        order = _telling(found.data[part], usual[which], n, is_short[which])
        telling.append(_different((words[which[at]] for at in order), n_words))
    return telling


def _counted_words(top: IntArray, holds: sparse.csr_array) -> tuple[sparse.csr_array, IntArray]:
    """How many of each feature's strongest samples hold a word, and how many there are."""
    on = top >= 0
    n_on = on.sum(axis=1)
    shape = (len(top), holds.shape[0])
    starts = np.concatenate([[0], np.cumsum(n_on)])
    chosen = sparse.csr_array((np.ones(on.sum()), top[on], starts), shape=shape)
    return sparse.csr_array(chosen @ holds), n_on


def _of_samples(text_of: IntArray, n_samples: int) -> sparse.csr_array:
    """A matrix that takes the mean over the texts of each sample ``(n_samples, n_texts)``."""
    texts = np.flatnonzero((text_of >= 0) & (text_of < n_samples))
    of = text_of[texts]
    weights = 1 / np.bincount(of, minlength=n_samples)[of]
    return sparse.csr_array((weights, (of, texts)), shape=(n_samples, len(text_of)))


def _telling(
    counts: FloatArray, usual: FloatArray, n: int, is_short: NDArray[np.bool_]
) -> IntArray:
    """Positions of words that are more frequent than usual, the most telling first."""
    share = (counts + _PRIOR * usual) / (n + _PRIOR)
    score = share * np.log(np.maximum(share / usual, 1)) ** _RARENESS
    score[is_short] /= 2
    score[counts <= n * usual * (1 + _ROUNDING)] = 0
    frequent = counts >= max(2, n / 10)
    if (score[frequent] > 0).any():
        score[~frequent] = 0
    order = np.argsort(-score, kind="stable")
    return order[score[order] > 0]


def _different(words: Iterator[str], n_words: int) -> tuple[str, ...]:
    """The first words, without those that only differ in their ending from one before."""
    kept: list[str] = []
    for word in words:
        if len(kept) == n_words:
            break
        if not any(_is_same(word, other) for other in kept):
            kept.append(word)
    return tuple(kept)


def _is_same(word: str, other: str) -> bool:
    alike = (a == b for a, b in zip(word, other, strict=False))
    stem = sum(takewhile(bool, alike))
    short, long = sorted((len(word) - stem, len(other) - stem))
    return stem >= _STEM and (short <= 1 or long <= 2) and long <= _ENDING


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
    words: list[tuple[str, ...]] = [()] * len(top)
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
            name=", ".join(words[i]) or _label_name(mixes[i]),
            top=tuple(numbers),
            words=words[i],
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
) -> list[tuple[str, ...]]:
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
