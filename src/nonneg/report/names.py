"""What is a feature called? After the words, or the classes, of its strongest samples."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg.metrics.results import FloatArray, IntArray

# Classes are added to a name until they cover this share of the strongest samples.
_COVERED = 0.6
_MOST_CLASSES = 3
_MOST_WORDS = 3
_N_STRONGEST = 20
# As if so many texts of the usual words were there too: few texts prove little.
_PRIOR = 5
# Above 1, rare words weigh more against words that stand in many texts anyway.
_RARENESS = 1.5
# Words of one or two letters tell little in most languages, so they count half.
_SHORT_WORD = 2
# An ending makes no new word: sits and sitting, woman and women.
_STEM = 3
_ENDING = 4


def class_mixes(
    top: IntArray, labels: IntArray, *, n_strongest: int = _N_STRONGEST
) -> list[list[tuple[int, float]]]:
    """The classes of each feature's strongest samples with their shares, commonest first.

    Args:
        top: Numbers of the strongest samples, then -1 ``(d, n_top)``.
        labels: Of the samples that ``top`` numbers ``(n,)``.
        n_strongest: How many of them count.

    Example:
        >>> class_mixes(np.array([[0, 1, 2, -1]]), np.array([7, 4, 7]))
        [[(7, 0.6666666666666666), (4, 0.3333333333333333)]]
    """
    mixes = []
    for numbers in top[:, :n_strongest]:
        on = numbers[numbers >= 0]
        classes, counts = np.unique(labels[on], return_counts=True)
        order = np.argsort(-counts, kind="stable")
        mixes.append([(int(classes[i]), float(counts[i] / len(on))) for i in order])
    return mixes


def names_by_class(
    mixes: Sequence[Sequence[tuple[int, float]]], class_names: Sequence[str]
) -> list[str]:
    """A name for each feature: its commonest classes, as many as make up most of its samples.

    Example:
        >>> mixes = [[(0, 0.9), (1, 0.1)], [(1, 0.5), (0, 0.3)], []]
        >>> names_by_class(mixes, ["cat", "dog"])
        ['cat', 'dog / cat', '']
    """
    names = []
    for mix in mixes:
        parts: list[str] = []
        covered = 0.0
        for number, share in mix[:_MOST_CLASSES]:
            if covered >= _COVERED:
                break
            parts.append(str(class_names[number]))
            covered += share
        names.append(" / ".join(parts))
    return names


def names_by_words(
    top: IntArray,
    texts: Sequence[str],
    *,
    beside: IntArray | None = None,
    text_of: IntArray | None = None,
) -> list[str]:
    """A name for each feature: the words that its strongest texts hold more often than others.

    A word is judged by ``p log(p / q)^1.5``, p being the share of the feature's texts that hold
    it, drawn towards q, its share of all texts. It must be in two texts at least, and in a tenth
    of them, where there is such a word. Of skier and skiers the better one stands.

    Args:
        top: Numbers of each feature's strongest texts, then -1 ``(d, n_top)``; 20 count.
        texts: Where they hold no words at all, names are empty.
        beside: Numbers of each feature's strongest samples of another kind, such as images, then
            -1 ``(d, n_beside)``; their texts count as much.
        text_of: For each text the number of its sample of that kind, or -1.

    Example:
        >>> texts = ["a red car", "a fast car", "a red apple", "an apple pie"]
        >>> names_by_words(np.array([[0, 1], [2, 3], [-1, -1]]), texts)
        ['car', 'apple', '']
    """
    # scikit-learn takes long to import, and pages without texts do not need it.
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(binary=True, token_pattern=r"(?u)\b\w\w+\b", dtype=np.float64)
    try:
        holds = sparse.csr_array(counter.fit_transform(texts))  # (texts, words)
    except ValueError:
        return [""] * len(top)
    words = counter.get_feature_names_out().tolist()
    is_short = np.array([len(word) <= _SHORT_WORD for word in words])
    found, n_found = _counted_words(top, holds)
    if beside is not None and text_of is not None:
        more, n_more = _counted_words(beside, _of_samples(text_of, int(beside.max()) + 1) @ holds)
        found, n_found = sparse.csr_array(found + more), n_found + n_more
    found.sort_indices()
    usual = np.asarray(holds.mean(axis=0)).ravel()
    names = []
    for i, n in enumerate(n_found):
        part = slice(found.indptr[i], found.indptr[i + 1])
        which = found.indices[part]
        order = _telling(found.data[part], usual[which], n, is_short[which])
        names.append(", ".join(_different(words[which[at]] for at in order)))
    return names


def _counted_words(top: IntArray, holds: sparse.csr_array) -> tuple[sparse.csr_array, IntArray]:
    """How many of each feature's strongest samples hold a word, and how many there are."""
    top = top[:, :_N_STRONGEST]
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
    frequent = counts >= max(2, n / 10)
    if (score[frequent] > 0).any():
        score[~frequent] = 0
    order = np.argsort(-score, kind="stable")
    return order[score[order] > 0]


def _different(words: Iterator[str]) -> list[str]:
    """The first words, without those that only differ in their ending from one before."""
    kept: list[str] = []
    for word in words:
        if not any(_is_same(word, other) for other in kept):
            kept.append(word)
        if len(kept) == _MOST_WORDS:
            break
    return kept


def _is_same(word: str, other: str) -> bool:
    alike = (a == b for a, b in zip(word, other, strict=False))
    stem = sum(takewhile(bool, alike))
    short, long = sorted((len(word) - stem, len(other) - stem))
    return stem >= _STEM and (short <= 1 or long <= 2) and long <= _ENDING
