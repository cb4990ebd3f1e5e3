"""What does a feature stand for? The words, labels and samples that set its strongest apart."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from nonneg.metrics import ACTIVE_THRESHOLD
from nonneg.metrics.features import Features
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.rows import unit_rows

# A run of two or more letters or digits, in any alphabet.
_WORD = r"(?u)\b\w\w+\b"


@dataclass(frozen=True)
class FeatureDescription:
    """What is known of one feature.

    Args:
        feature: Its number.
        name: Its first words, or its commonest label; empty for a feature that is off.
        top: Numbers of its strongest samples, strongest first: look at their images.
        words: The words that set the texts of these samples apart, best first.
        label_mix: The share of each label among them, largest first.
    """

    feature: int
    name: str
    top: tuple[int, ...]
    words: tuple[str, ...] = ()
    label_mix: tuple[tuple[Any, float], ...] = ()


def described(
    Z: FeatureLike,
    *,
    texts: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    n_top: int = 20,
    n_words: int = 3,
) -> list[FeatureDescription]:
    """A description of each feature by its strongest samples, in the order of the features.

    Args:
        Z: Features ``(n, d)``; strength is the value after scaling rows to length 1.
        texts: One a sample. Words are ranked by class-based TF-IDF (Grootendorst 2022): the
            share of the feature's texts that hold the word, times ``log(1 + mean / frequency)``
            over all features.
        labels: One a sample, of any type that can be compared.
        n_top: How many of the strongest samples count; those that are off never do.
        n_words: Words a feature.

    Example:
        >>> Z = [[1, 0], [1, 0], [0, 1], [0, 1]]
        >>> texts = ["a red car", "a fast car", "a red apple", "an apple pie"]
        >>> [d.name for d in described(Z, texts=texts, n_words=1)]
        ['car', 'apple']
    """
    features = checked_features(Z)
    for name, given in (("texts", texts), ("labels", labels)):
        if given is not None and len(given) != features.n_samples:
            raise ValueError(
                f"{name} has {len(given)} entries for {features.n_samples} samples; give one each"
            )
    top = _strongest(features, n_top)
    words = _telling_words(top, texts, n_words) if texts is not None else [()] * len(top)
    mixes = [_mix(labels, numbers) if labels is not None else () for numbers in top]
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


def _strongest(features: Features, n_top: int) -> list[list[int]]:
    """For each feature the numbers of its strongest samples that are on, strongest first."""
    values = torch.full((n_top, features.n_features), 0.0, dtype=features.dtype)
    numbers = torch.full((n_top, features.n_features), -1)
    for rows, tile in features.tiles():
        strength = torch.cat([values, unit_rows(tile).cpu()])  # (n_top + tile, d)
        known = torch.arange(rows.start, rows.stop)[:, None].expand(-1, features.n_features)
        numbers = torch.cat([numbers, known])
        # A stable sort: of equally strong samples the earlier comes first.
        order = strength.sort(dim=0, descending=True, stable=True).indices[:n_top]
        values, numbers = strength.gather(0, order), numbers.gather(0, order)
    numbers = numbers.where(values > ACTIVE_THRESHOLD, -1)
    return [[i for i in column if i >= 0] for column in numbers.T.tolist()]


def _telling_words(
    top: list[list[int]], texts: Sequence[str], n_words: int
) -> list[tuple[str, ...]]:
    """The words of each feature, by class-based TF-IDF; none for a feature without samples."""
    used = sorted({number for numbers in top for number in numbers})
    if not used:
        return [()] * len(top)
    # No list of stop words: words that all features share weigh little, in any language.
    counter = CountVectorizer(binary=True, token_pattern=_WORD)
    try:
        holds = counter.fit_transform([texts[number] for number in used])  # (texts, words)
    except ValueError as error:
        raise ValueError("the texts of the strongest samples hold no word to name by") from error
    place = {number: i for i, number in enumerate(used)}
    columns = [place[number] for numbers in top for number in numbers]
    rows = np.repeat(np.arange(len(top)), [len(numbers) for numbers in top])
    shape = (len(top), len(used))
    frequency = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape) @ holds
    overall = np.asarray(frequency.sum(axis=0)).ravel()
    weight = np.log1p(frequency.sum() / len(top) / overall)
    words = counter.get_feature_names_out()
    found = []
    for i, numbers in enumerate(top):
        row = frequency[[i]].toarray()[0] * weight
        best = np.argsort(-row, kind="stable")[:n_words]
        found.append(tuple(str(words[w]) for w in best if row[w] > 0) if numbers else ())
    return found


def _mix(labels: Sequence[Any], numbers: list[int]) -> tuple[tuple[Any, float], ...]:
    counts = Counter(labels[number] for number in numbers).most_common()
    return tuple((label, count / len(numbers)) for label, count in counts)


def _label_name(mix: tuple[tuple[Any, float], ...]) -> str:
    return str(mix[0][0]) if mix else ""
