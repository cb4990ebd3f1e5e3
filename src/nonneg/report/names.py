"""What is a feature called? After the words, or the classes, of its strongest samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from nonneg.metrics.inputs import FeatureLike
from nonneg.metrics.results import IntArray

# Classes are added to a name until they cover this share of the strongest samples.
_COVERED = 0.6
_MOST_CLASSES = 3


def class_mixes(
    top: IntArray, labels: IntArray, *, n_strongest: int = 20
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


def names_by_words(Z: FeatureLike, texts: Sequence[str]) -> list[str]:
    """A name for each feature: the words that set the texts of its strongest samples apart.

    Args:
        Z: Features ``(n, d)``; signed ones count by absolute value.
        texts: One a sample. Where they hold no words at all, names are empty.
    """
    # scikit-learn takes long to import, and pages without texts do not need it.
    from nonneg.estimators.description import described

    strength: Any = abs(Z) if sparse.issparse(Z) else np.abs(np.asarray(Z))
    try:
        return [found.name for found in described(strength, texts=texts)]
    except ValueError:
        return [""] * int(strength.shape[1])
