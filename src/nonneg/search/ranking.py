"""Rankings made better: weights for rare features, and the fusion of two rankings."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray

# Of reciprocal ranks: the larger, the less the first places count (Cormack et al. 2009).
_CONSTANT = 60


def idf_weights(Z: FeatureLike, *, power: float = 0.5) -> FloatArray:
    """A factor per feature that is larger the fewer samples have it ``(d,)``.

    The inverse document frequency, log(n / number of samples with the feature), to some power. A
    feature that all samples have says nothing and has 0; one that none has counts as if one had.

    Args:
        Z: Non-negative features ``(n, d)``, dense or sparse.
        power: 0 for equal weights, 1 for the inverse document frequency itself.

    Example:
        >>> idf_weights([[1, 0], [1, 0], [1, 0], [1, 2]], power=1).round(3).tolist()
        [0.0, 1.386]
    """
    if not 0 <= power <= 4:
        raise ValueError(f"power is {power!r}; give a number from 0 to 4")
    features = checked_features(Z)
    counts = np.zeros(features.n_features)
    for _, tile in features.tiles():
        counts += (tile > 0).sum(dim=0).cpu().numpy()
    frequency: FloatArray = np.log(features.n_samples / np.maximum(counts, 1))
    return np.asarray(frequency**power, dtype=np.float64)


def checked_weights(weights: ArrayLike, n_features: int) -> NDArray[np.float32]:
    """One factor from 0 on per feature ``(d,)``; raises ``ValueError`` for anything else."""
    given = np.asarray(weights, dtype=np.float32)
    if given.shape != (n_features,) or not np.isfinite(given).all() or (given < 0).any():
        raise ValueError(
            f"weights has shape {given.shape} for {n_features} features; give each a factor from 0"
            " on"
        )
    return given


class Fused(NamedTuple):
    """One ranking of two, for n queries."""

    ids: NDArray[np.generic]
    """``(n, k)``, the best first; behind the last one -1 or an empty text."""
    scores: FloatArray
    """``(n, k)``: weighted sums of reciprocal ranks; 0 where there is none."""


def fused(first: ArrayLike, second: ArrayLike, k: int = 10, *, weight: float = 0.5) -> Fused:
    """The ranking of what two searches found, by reciprocal ranks.

    A sample in place r of a ranking (from 1) gets 1 / (60 + r) from it, and nothing if it is not
    in it; scores of searches need not be comparable. Give each search more places than k, such as
    100. Of equals the one that the first search ranks higher comes first.

    Args:
        first: The ids that one search found ``(n, m)``, the nearest first; -1 or an empty text
            stands for none.
        second: The same of another search, such as one by dense vectors.
        k: At most so many per query.
        weight: Of the first search, in [0, 1]; the second has the rest.

    Example:
        >>> fused([["a", "b", "c"]], [["c", "a", "d"]], k=3).ids.tolist()
        [['a', 'c', 'b']]
    """
    one, other = np.asarray(first), np.asarray(second)
    if one.ndim != 2 or other.ndim != 2 or len(one) != len(other):
        raise ValueError(
            f"the rankings have shapes {one.shape} and {other.shape}; give ids of the same queries"
        )
    if (one.dtype.kind == "U") != (other.dtype.kind == "U"):
        raise ValueError("one ranking has numbers as ids, the other texts; give ids of one kind")
    if not 0 <= weight <= 1:
        raise ValueError(f"weight is {weight!r}; give a number from 0 to 1")
    is_text = one.dtype.kind == "U"
    none: str | int = "" if is_text else -1
    ids = np.full((len(one), k), none, dtype=np.result_type(one, other))
    scores = np.zeros((len(one), k))
    for query in range(len(one)):
        sums: dict[str | int, float] = {}
        for ranking, share in ((one[query], weight), (other[query], 1 - weight)):
            for place, name in enumerate(ranking.tolist(), start=1):
                if name != none and share:
                    sums[name] = sums.get(name, 0.0) + share / (_CONSTANT + place)
        best = sorted(sums, key=lambda name: -sums[name])[:k]
        ids[query, : len(best)] = best
        scores[query, : len(best)] = [sums[name] for name in best]
    return Fused(ids, scores)
