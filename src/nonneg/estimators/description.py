"""What a feature stands for: the words, labels and samples that set it apart, and a name."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

from nonneg.estimators.inputs import check_none_missing, from_torch
from nonneg.estimators.naming import distinct_names
from nonneg.estimators.tokens import Tokenize, checked_text
from nonneg.estimators.words import Words, telling_words
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.inputs import FeatureLike, Features, checked_count, checked_features
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.rows import unit_rows

Namer = Callable[[Sequence[str], Sequence[str]], str]

_WORD = re.compile(r"\w\w")
# Words beyond those of a name, which tell equal names apart.
_N_FURTHER = 10
# Words of each group of a mixed feature that the other group must not have.
_N_COMMON = 5
# Two groups: at least so many samples, so large a share of them in the smaller group, so alike
# inside, and so much less alike across, on average and for the sample nearest to both.
_FEWEST_MIXED = 8
_SMALLER_GROUP = 0.25
_ALIKE = 0.15
_ACROSS = 0.3
_BETWEEN = 0.4
_N_ROUNDS = 10


@dataclass(frozen=True)
class FeatureDescription:
    """What is known of one feature.

    Args:
        feature: Its number.
        name: Its first words, or without any its commonest label, as ``label 3`` where labels are
            whole numbers; empty without either, as for a feature that is off. Equal names have
            further words, or a count as in ``label 3 (2)``, so that no two are the same. That of a
            mixed feature names both groups, as in ``cricket + mortgage rates (mixed)``.
        top: Numbers of its strongest samples, strongest first: look at their images.
        words: The words that set the texts of these samples apart, best first; of a mixed feature
            those of the larger group and then those of the other.
        label_mix: The share of each label among them, largest first.
        scores: Of the words, as :func:`telling_words` defines them.
        is_mixed: Whether its strongest samples are two unrelated groups.
    """

    feature: int
    name: str
    top: tuple[int, ...]
    words: tuple[str, ...] = ()
    label_mix: tuple[tuple[Any, float], ...] = ()
    scores: tuple[float, ...] = ()
    is_mixed: bool = False


def describe_features(
    Z: FeatureLike,
    *,
    texts: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    n_top: int = 20,
    n_words: int = 3,
    same_as: IntArray | None = None,
    vectors: ArrayLike | None = None,
    namer: Namer | None = None,
    tokenize: Tokenize | None = None,
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
        vectors: Of the samples ``(n, m)``, dense or sparse: a feature is mixed where these fall
            into :func:`two_groups` whose best words differ. Without them none is.
        namer: Gets the words and the texts of a feature, best and strongest first, and gives its
            name; where that is empty, the feature has the name that it would have without.
        tokenize: As in :func:`telling_words`.

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
    if namer is not None and texts is None:
        raise ValueError("namer names features by their texts; give texts=… too")
    if texts is not None and hasattr(texts, "tolist"):  # its rows may have names of their own
        texts = texts.tolist()
    top = _strongest(features, n_top, same_as)
    groups = [None] * len(top) if vectors is None else _groups(vectors, top)
    n_asked = n_words + _N_FURTHER if n_words else 0
    words, of_groups = _words(top, groups, texts, same_as, n_asked, tokenize)
    groups = [
        None if both and _words_in_common(both) else pair
        for pair, both in zip(groups, of_groups, strict=True)
    ]
    plain = [] if labels is None else _plain_labels(labels)
    described, further = [], []
    for i, (numbers, pair) in enumerate(zip(top, groups, strict=True)):
        parts = _parts(words[i], of_groups[i] if pair else None, n_words)
        said = [", ".join(word for word, _ in part) for part in parts if part]
        if not said and plain:
            said = [_label_name(_mix(plain, group)) for group in pair or [numbers]]
        name = " + ".join(dict.fromkeys(said))
        described.append(
            FeatureDescription(
                feature=i,
                name=f"{name} (mixed)" if pair and name else name,
                top=tuple(numbers),
                words=tuple(word for part in parts for word, _ in part),
                label_mix=_mix(plain, numbers) if plain else (),
                scores=tuple(score for part in parts for _, score in part),
                is_mixed=pair is not None,
            )
        )
        further.append([] if pair else [word for word, _ in words[i][n_words:]])
    names = [feature.name for feature in described]
    if namer is not None:
        given = [_given_name(namer, feature, texts) for feature in described]
        names = [new or old for new, old in zip(given, names, strict=True)]
        further = [[] if new else rest for new, rest in zip(given, further, strict=True)]
    names = distinct_names(names, further)
    return [replace(feature, name=name) for feature, name in zip(described, names, strict=True)]


def two_groups(vectors: FloatArray) -> tuple[IntArray, IntArray] | None:
    """The two unrelated groups that samples fall into, the larger first; None where they do not.

    Samples are divided so that each is more alike to its own group on average. They are two groups
    where each has a quarter of at least eight samples, the mean cosine inside each is 0.15 at
    least, that across is at most 0.3 of the smaller one inside, and no sample is as near to the
    other group as 0.4 of it. Samples about one thing are nearly as alike across as inside.

    Args:
        vectors: Of the samples, less the mean of all samples ``(n, d)``.

    Example:
        >>> one, other = np.array([1.0, 0.1, 0]), np.array([0, 0.1, 1.0])
        >>> larger, smaller = two_groups(np.stack([one] * 3 + [other] * 5))
        >>> larger.tolist(), smaller.tolist()
        ([3, 4, 5, 6, 7], [0, 1, 2])
    """
    n = len(vectors)
    if n < _FEWEST_MIXED:
        return None
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, 0)
    centred = cosine - cosine.mean(axis=0) - cosine.mean(axis=1, keepdims=True) + cosine.mean()
    first = np.linalg.eigh(centred)[1][:, -1] > 0
    for _ in range(_N_ROUNDS):
        means = [
            cosine @ group / np.maximum(group.sum() - group, 1)
            for group in (first.astype(float), (~first).astype(float))
        ]
        before, first = first, means[0] > means[1]
        if (first == before).all():
            break
    a, b = np.flatnonzero(first), np.flatnonzero(~first)
    if min(len(a), len(b)) < max(2, _SMALLER_GROUP * n):
        return None
    inside = min(float(cosine[np.ix_(g, g)].sum()) / (len(g) * (len(g) - 1)) for g in (a, b))
    across = cosine[np.ix_(a, b)]
    nearest = max(across.mean(axis=0).max(), across.mean(axis=1).max())  # of a sample between both
    if inside < _ALIKE or across.mean() > _ACROSS * inside or nearest > _BETWEEN * inside:
        return None
    return (a, b) if len(a) >= len(b) else (b, a)


def _groups(vectors: ArrayLike, top: list[list[int]]) -> list[list[list[int]] | None]:
    """For each feature its strongest samples in two groups, where they are unrelated."""
    rows: Any = vectors.tocsr() if sparse.issparse(vectors) else np.asarray(from_torch(vectors))
    centre = np.asarray(rows.mean(axis=0), np.float64).ravel()
    found: list[list[list[int]] | None] = []
    for numbers in top:
        some = rows[numbers]
        is_sparse: bool = sparse.issparse(some)
        dense = np.asarray(some.toarray() if is_sparse else some, np.float64)
        pair = two_groups(dense - centre)
        found.append(pair and [[numbers[i] for i in group] for group in pair])
    return found


def _parts(words: Words, groups: tuple[Words, Words] | None, n_words: int) -> list[Words]:
    """The words of a name; for a mixed feature those of each group."""
    if groups is None or not n_words or not all(groups):
        return [words[:n_words]]
    n_second = max(1, n_words // 2)
    return [groups[0][: max(1, n_words - n_second)], groups[1][:n_second]]


def _words_in_common(groups: tuple[Words, Words]) -> set[str]:
    """What both groups are about, by their best words; then they are not unrelated."""
    first, second = (
        {word for term, _ in group[:_N_COMMON] for word in term.split(" ")} for group in groups
    )
    return first & second


def _given_name(namer: Namer, feature: FeatureDescription, texts: Sequence[str] | None) -> str:
    if texts is None or not feature.top:
        return ""
    try:
        name = namer(feature.words, [texts[i] for i in feature.top])
    except Exception as error:
        error.add_note(f"namer was called for feature {feature.feature}")
        raise
    if not isinstance(name, str):
        raise TypeError(
            f"namer returned {name!r:.60} for feature {feature.feature}; it must return a text, "
            "empty to keep the automatic name"
        )
    return " ".join(name.split())


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
    top: list[list[int]],
    groups: Sequence[list[list[int]] | None],
    texts: Sequence[str] | None,
    same_as: IntArray | None,
    n_words: int,
    tokenize: Tokenize | None,
) -> tuple[list[Words], list[tuple[Words, Words] | None]]:
    """The telling words of each feature, and those of the two groups of mixed ones."""
    of_groups: list[tuple[Words, Words] | None] = [None] * len(top)
    if texts is None:
        return [()] * len(top), of_groups
    if tokenize is None and not any(_WORD.search(checked_text(t, i)) for i, t in enumerate(texts)):
        raise ValueError("the texts hold no word to name features by; use labels=…")
    mixed = [i for i, pair in enumerate(groups) if pair]
    rows = _as_rows([*top, *(group for pair in groups if pair for group in pair)])
    how: dict[str, Any] = {"n_words": n_words, "tokenize": tokenize}
    if same_as is not None:
        how |= {"beside": rows, "text_of": same_as}
        rows = np.empty((len(rows), 0), np.int64)
    found = telling_words(rows, texts, **how)
    for place, i in enumerate(mixed):
        of_groups[i] = (found[len(top) + 2 * place], found[len(top) + 2 * place + 1])
    return found[: len(top)], of_groups


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
