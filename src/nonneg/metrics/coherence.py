"""Coherence: do the words of a feature belong together, and do features have words of their own?

What topic models are compared by. The words are given, best first, so that any method's can be
measured: those of ``describe``, or those of another library.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

from nonneg.metrics.inputs import checked_count
from nonneg.metrics.results import FloatArray, IntArray, Measurement, mean_of_measured
from nonneg.rows import unit_rows

Words = Sequence[Sequence[str]]
Tokenize = Callable[[str], Sequence[str]]
# Windows are counted in parts of about so many entries, 16 bytes each.
_PART_ENTRIES = 1 << 22
_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True, kw_only=True, eq=False)
class WordCoherence(Measurement):
    """How well the words of the features go together.

    Args:
        per_feature: ``(n_features,)``, NaN for a feature with fewer than two words.
        n_unseen: Different words that no text holds, or that have no vector.
    """

    per_feature: FloatArray = field(repr=False)
    n_unseen: int


def text_words(text: str) -> list[str]:
    """The words of a text: runs of at least two letters, digits or underscores, in lower case.

    Example:
        >>> text_words("A tide, the Moon")
        ['tide', 'the', 'moon']
    """
    return _WORD.findall(text.lower())


def npmi_coherence(
    words: Words,
    texts: Sequence[str],
    *,
    n_words: int = 10,
    window: int | None = None,
    epsilon: float = 0.0,
    tokenize: Tokenize | None = None,
) -> WordCoherence:
    """The mean normalised pointwise mutual information of two words of a feature; mean of all.

    ``NPMI = ln(p_ab / (p_a p_b)) / -ln p_ab`` (Bouma 2009), p being the share of texts that hold
    a word, or both. In [-1, 1], higher is better: 1 for words that only come together, 0 for
    independent ones, -1 for words that never meet. Measured as ``c_npmi`` of Röder et al. (2015)
    with ``window=10``, where the counted things are runs of words that slide through the texts.

    Args:
        words: For each feature its words, best first. An entry of several words, such as
            ``"prime minister"``, counts as these.
        texts: Where to count, usually those that the features were learnt from.
        n_words: At most so many different words per feature.
        window: None counts whole texts; a number counts every run of so many words, and a text
            that is shorter once.
        epsilon: Added to ``p_ab``. gensim's is 1e-12, which lifts pairs that never meet to about
            -0.5; at 0 they have -1.
        tokenize: What cuts a text, and an entry of ``words``, into words. Left out:
            :func:`text_words`.

    Returns:
        Words that no text holds meet none; ``n_unseen`` counts them.

    Example:
        >>> texts = ["salt sea", "salt sea", "tax law", "tax sea"]
        >>> npmi_coherence([["salt", "sea"], ["salt", "tax"]], texts).per_feature.round(3)
        array([ 0.415, -1.   ])
    """
    checked_count(n_words, name="n_words")
    if window is not None:
        checked_count(window, name="window")
    if epsilon < 0:
        raise ValueError(f"epsilon is {epsilon}; it must be at least 0")
    if isinstance(texts, str) or len(texts) == 0:
        raise ValueError("texts must be a list with at least one text")
    cut = tokenize or text_words
    entries = checked_words(words)
    chosen = [
        _first_different((w for entry in own for w in cut(entry)), n_words) for own in entries
    ]
    numbers = {word: i for i, word in enumerate(dict.fromkeys(w for own in chosen for w in own))}
    topics = [np.array([numbers[word] for word in own], dtype=np.int64) for own in chosen]
    together = [np.zeros((len(topic), len(topic))) for topic in topics]
    n_seen = np.zeros(len(numbers))
    n_counted = 0
    for part in _occurrences(map(cut, texts), numbers, window) if numbers else ():
        n_counted += part.shape[0]
        n_seen += np.asarray(part.sum(axis=0)).ravel()
        for topic, counts in zip(topics, together, strict=True):
            own = part[:, topic]
            counts += (own.T @ own).toarray()
    per_feature = np.array([_mean_npmi(counts / max(n_counted, 1), epsilon) for counts in together])
    return _coherence(per_feature, int((n_seen == 0).sum()))


def word_embedding_coherence(
    words: Words,
    vectors: Mapping[str, ArrayLike] | Callable[[list[str]], ArrayLike],
    *,
    n_words: int = 10,
) -> WordCoherence:
    """The mean cosine of the vectors of two words of a feature; mean of all.

    In [-1, 1], higher is better.

    Args:
        words: For each feature its words, best first.
        vectors: The vector of each word, all of one length; or what makes them of a list of words,
            ``(n, d)``, as the ``encode`` of a sentence encoder does.
        n_words: At most so many different words per feature.

    Returns:
        Words that ``vectors`` lacks are left out; ``n_unseen`` counts them.

    Example:
        >>> vectors = {"sea": [1, 0], "salt": [1, 0], "tax": [0, 1]}
        >>> word_embedding_coherence([["sea", "salt"], ["sea", "tax"]], vectors).per_feature
        array([1., 0.])
    """
    checked_count(n_words, name="n_words")
    chosen = [_first_different(own, n_words) for own in checked_words(words)]
    different = list(dict.fromkeys(word for own in chosen for word in own))
    known = different
    if isinstance(vectors, Mapping):
        known = [word for word in different if word in vectors]
        found = [np.asarray(vectors[word], dtype=np.float64) for word in known]
        if len({vector.shape for vector in found}) > 1:
            raise ValueError("vectors holds vectors of different lengths; give all of one model")
        rows = np.array(found)
    else:
        rows = np.asarray(vectors(different) if different else [], dtype=np.float64)
    if known and (rows.ndim != 2 or len(rows) != len(known)):
        raise ValueError(
            f"vectors gives an array of shape {rows.shape} for {len(known)} words; "
            "it must give one vector per word"
        )
    if not np.isfinite(rows).all():
        raise ValueError("vectors holds NaN or infinity; give finite numbers")
    unit = unit_rows(torch.from_numpy(rows)).numpy() if known else rows
    numbers = {word: i for i, word in enumerate(known)}
    per_feature = np.array(
        [_mean_cosine(unit[[numbers[w] for w in own if w in numbers]]) for own in chosen]
    )
    return _coherence(per_feature, len(different) - len(known))


def topic_diversity(words: Words, *, n_words: int = 25) -> Measurement:
    """The share of different words among the words of all features (Dieng et al. 2020).

    In (0, 1], higher is better: 1 where no two features share a word; NaN without any word.

    Args:
        words: For each feature its words, best first.
        n_words: At most so many per feature.

    Example:
        >>> topic_diversity([["sea", "salt"], ["sea", "tax"]]).value
        0.75
    """
    checked_count(n_words, name="n_words")
    listed = [word for own in checked_words(words) for word in own[:n_words]]
    return Measurement(
        value=len(set(listed)) / len(listed) if listed else float("nan"),
        averaged_over=len(listed),
        averaged_unit="words",
        higher_is_better=True,
        signed=False,
    )


def checked_words(words: Words) -> list[list[str]]:
    """The words of each feature as lists of texts; else an error that names the entry."""
    lists = []
    for number, own in enumerate(words):
        if isinstance(own, str) or not all(isinstance(word, str) for word in own):
            raise TypeError(
                f"words holds {own!r} in place {number}; give a list of words for each feature"
            )
        lists.append(list(own))
    if not lists:
        raise ValueError("words is empty; give a list of words for each feature")
    return lists


def _first_different(words: Iterable[str], n_words: int) -> list[str]:
    return list(dict.fromkeys(words))[:n_words]


def _occurrences(
    texts: Iterable[Sequence[str]], numbers: Mapping[str, int], window: int | None
) -> Iterator[sparse.csc_array]:
    """Which word is in which text or window, 1 or 0, in parts ``(n_counted, n_words)``."""
    rows: list[IntArray] = []
    columns: list[IntArray] = []
    n_rows = n_entries = 0
    for text in texts:
        found = np.array([numbers.get(word, -1) for word in text], dtype=np.int64)
        place, which, n_windows = _places(found, window)
        rows.append(n_rows + place)
        columns.append(which)
        n_rows += n_windows
        n_entries += len(place)
        if n_entries > _PART_ENTRIES:
            yield _as_matrix(rows, columns, (n_rows, len(numbers)))
            rows, columns, n_rows, n_entries = [], [], 0, 0
    if n_rows:
        yield _as_matrix(rows, columns, (n_rows, len(numbers)))


def _places(found: IntArray, window: int | None) -> tuple[IntArray, IntArray, int]:
    """In which windows of a text the words are, which words, and how many windows there are."""
    at = np.flatnonzero(found >= 0)
    if window is None or len(found) <= window:
        return np.zeros(len(at), dtype=np.int64), found[at], 1
    n_windows = len(found) - window + 1
    starts = at[:, None] - np.arange(window)  # of the windows that a word is in
    is_window = (starts >= 0) & (starts < n_windows)
    return starts[is_window], np.repeat(found[at], is_window.sum(axis=1)), n_windows


def _as_matrix(
    rows: list[IntArray], columns: list[IntArray], shape: tuple[int, int]
) -> sparse.csc_array:
    places = (np.concatenate(rows), np.concatenate(columns))
    holds = sparse.csc_array((np.ones(len(places[0])), places), shape=shape)
    holds.sum_duplicates()
    holds.data[:] = 1  # a word counts once in a window
    return holds


def _mean_npmi(share: FloatArray, epsilon: float) -> float:
    """The mean over pairs, from the shares of texts that hold two words ``(n, n)``."""
    if len(share) < 2:
        return float("nan")
    first, second = np.triu_indices(len(share), 1)
    both = share[first, second] + epsilon
    alone = share.diagonal()[first] * share.diagonal()[second]
    score = np.full(len(both), -1.0)
    meets = (both > 0) & (alone > 0)
    everywhere = meets & (both >= 1) & (epsilon == 0)
    some = meets & ~everywhere
    score[some] = np.log(both[some] / alone[some]) / -np.log(both[some])
    score[everywhere] = 1  # the limit of two words that only come together
    return float(score.mean())


def _mean_cosine(unit: FloatArray) -> float:
    if len(unit) < 2:
        return float("nan")
    return float((unit @ unit.T)[np.triu_indices(len(unit), 1)].mean())


def _coherence(per_feature: FloatArray, n_unseen: int) -> WordCoherence:
    value, averaged_over = mean_of_measured(per_feature)
    return WordCoherence(
        value=value,
        per_feature=per_feature,
        n_unseen=n_unseen,
        averaged_over=averaged_over,
        averaged_unit="features",
        higher_is_better=True,
        signed=False,
    )
