"""What features are called: by words or classes, with what each of their words adds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy import sparse

from nonneg.estimators.naming import distinct_names
from nonneg.estimators.tokens import words_of
from nonneg.estimators.words import telling_words
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.report.page import packed_array
from nonneg.rows import unit_rows

# Classes are added to a name until they cover this share of the strongest samples.
_COVERED = 0.6
_MOST_CLASSES = 3
_N_STRONGEST = 20
_N_NAMED = 3  # words of a name
N_WORDS = 10


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
    """A name for each feature: the words that set its 20 strongest texts apart.

    Equal names get one more word each, or a number.

    Args:
        top: Numbers of each feature's strongest texts, then -1 ``(d, n_top)``.
        texts: Where they hold no words at all, names are empty.
        beside: The strongest samples of another kind, as in :func:`telling_words`.
        text_of: For each text the number of its sample of that kind, or -1.

    Example:
        >>> texts = ["a red car", "a fast car", "a red apple", "an apple pie"]
        >>> names_by_words(np.array([[0, 1], [2, 3], [-1, -1]]), texts)
        ['car', 'apple', '']
    """
    if beside is not None:
        beside = beside[:, :_N_STRONGEST]
    found = telling_words(
        top[:, :_N_STRONGEST], texts, n_words=N_WORDS, beside=beside, text_of=text_of
    )
    words = [[word for word, _ in some] for some in found]
    return distinct_names(
        [", ".join(some[:_N_NAMED]) for some in words], [some[_N_NAMED:] for some in words]
    )


@dataclass(frozen=True)
class WordFact:
    """What is known of a word of a feature.

    Args:
        word: One word, or two.
        n_top: How many of the feature's strongest texts hold it.
        n_all: How many of all texts do.
        added: The mean strength of the feature in texts with the word, less that in texts without;
            NaN where all texts hold it.
    """

    word: str
    n_top: int
    n_all: int
    added: float


def word_facts(
    Z: FeatureLike,
    texts: Sequence[str],
    *,
    top: IntArray,
    shown: IntArray | None = None,
    n_words: int = N_WORDS,
) -> list[list[WordFact]]:
    """The telling words of each feature, best first, with counts and what each adds.

    Args:
        Z: Features ``(n, d)``; strength is the absolute value after scaling rows to length 1.
        texts: One per sample.
        top: For each feature its strongest texts, as places in ``shown``, then -1 ``(d, n_top)``.
        shown: Numbers of some samples, among which words are looked for; all if left out.
        n_words: At most so many per feature.

    Example:
        >>> texts = ["a red car", "a fast car", "a red apple", "an apple pie"]
        >>> Z = [[1, 0], [1, 0], [0, 1], [0, 1]]
        >>> word_facts(Z, texts, top=np.array([[0, 1], [2, 3]]))[0]
        [WordFact(word='car', n_top=2, n_all=2, added=1.0)]
    """
    shown = np.arange(len(texts)) if shown is None else shown
    top = top[:, :_N_STRONGEST]
    scored = telling_words(top, [texts[i] for i in shown], n_words=n_words)
    found = [[word for word, _ in some] for some in scored]
    words = sorted({word for some in found for word in some})
    if not words:
        return [[] for _ in found]
    holds = _holding(texts, words)
    n_all = np.asarray(holds.sum(axis=0), dtype=np.float64).ravel()
    n, d = len(texts), len(top)
    held, total = sparse.csr_array((d, len(words))), np.zeros(d)
    for rows, tile in checked_features(Z).tiles():
        strength = sparse.csr_array(unit_rows(tile).abs().double().cpu().numpy())
        total += np.asarray(strength.sum(axis=0)).ravel()
        held = sparse.csr_array(held + strength.T @ holds[rows])
    column = {word: at for at, word in enumerate(words)}
    in_shown = holds[shown]
    facts = []
    for feature, some in enumerate(found):
        at = [column[word] for word in some]
        strongest = top[feature][top[feature] >= 0]
        n_top = np.asarray(in_shown[strongest][:, at].sum(axis=0)).ravel()
        added = _added(held[[feature]].toarray()[0, at], n_all[at], total[feature], n)
        facts.append(
            [
                WordFact(*one)
                for one in zip(
                    some, map(int, n_top), map(int, n_all[at]), map(float, added), strict=True
                )
            ]
        )
    return facts


def _holding(texts: Sequence[str], words: Sequence[str]) -> sparse.csr_array:
    """Which texts hold which words or phrases of two words, 0 or 1 ``(n_texts, n_words)``."""
    column = {word: at for at, word in enumerate(words)}
    columns: list[int] = []
    starts = [0]
    for text in texts:
        tokens = words_of(text)
        phrases = (f"{first} {second}" for first, second in pairwise(tokens))
        held = {column[term] for term in chain(tokens, phrases) if term in column}
        columns += sorted(held)
        starts.append(len(columns))
    shape = (len(texts), len(words))
    return sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)


def _added(held: FloatArray, n_with: FloatArray, total: float, n: int) -> FloatArray:
    """Mean with a word less mean without."""
    n_without = np.where(n_with < n, n - n_with, np.nan)
    added: FloatArray = held / np.maximum(n_with, 1) - (total - held) / n_without
    return added


def words_table(facts: Sequence[Sequence[WordFact]]) -> dict[str, Any]:
    """The words of all features, one after the other, as values that JSON can hold."""
    flat = [fact for some in facts for fact in some]
    starts = np.cumsum([0, *(len(some) for some in facts)])
    return {
        "starts": packed_array(starts, "int32"),
        "words": [fact.word for fact in flat],
        "n_top": packed_array(np.array([fact.n_top for fact in flat], dtype=np.int64), "uint8"),
        "n_all": packed_array(np.array([fact.n_all for fact in flat], dtype=np.int64), "int32"),
        "added": packed_array(np.array([fact.added for fact in flat]), "float32"),
    }
