"""Which words set some texts apart from the others? Those that features are named after."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nonneg.metrics.results import FloatArray, IntArray

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
        n_words: At most so many a feature.
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
