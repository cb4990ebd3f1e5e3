"""What is a feature called? After the words, or the classes, of its strongest samples."""

from collections.abc import Sequence

import numpy as np

from nonneg.estimators.description import telling_words
from nonneg.metrics.results import IntArray

# Classes are added to a name until they cover this share of the strongest samples.
_COVERED = 0.6
_MOST_CLASSES = 3
_N_STRONGEST = 20


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
    found = telling_words(top[:, :_N_STRONGEST], texts, beside=beside, text_of=text_of)
    return [", ".join(words) for words in found]
