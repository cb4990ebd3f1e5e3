"""Do neighbours share a class? Precision and mean average precision of the k nearest by cosine."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from nonneg.metrics.checks import LabelLike, checked_count, checked_labels
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.neighbours import nearest, nonzero_rows
from nonneg.metrics.results import FloatArray, Measurement

Gallery = tuple[FeatureLike, LabelLike]


@dataclass(frozen=True, kw_only=True, eq=False)
class Retrieval(Measurement):
    """A retrieval score, with the score of each query.

    Args:
        per_sample: The score of each query, ``(n_queries,)``.
        k: How many neighbours were looked at.
        n_zero_rows: Queries of zeros only; they find nothing and score 0.
        n_zero_gallery: Gallery rows of zeros only; they are never found.
        n_without_match: Queries whose class is nowhere else in the gallery; they score 0.
    """

    per_sample: FloatArray = field(repr=False)
    k: int
    n_zero_rows: int
    n_zero_gallery: int
    n_without_match: int


def precision_at_k(
    Z: FeatureLike, y: LabelLike, k: int = 10, *, gallery: Gallery | None = None
) -> Retrieval:
    """The share of a query's k nearest neighbours by cosine that have its class, mean over queries.

    In [0, 1], higher is better.

    Args:
        Z: Features of the queries ``(n_samples, n_features)``; signed ones are taken as they are.
        y: Class numbers ``(n_samples,)``.
        k: Neighbours a query.
        gallery: Features and class numbers to search in, ``((n, n_features), (n,))``; left out,
            each sample searches among all the others.

    Returns:
        Equally near neighbours are taken in the order of their number. Rows of zeros never find
        and are never found; both are counted, and such a query scores 0.

    Example:
        >>> precision_at_k([[1, 0], [2, 0], [3, 1], [0, 1]], [0, 0, 0, 1], k=1).per_sample
        array([1., 1., 1., 0.])
    """
    return _precision(*_relevance(Z, y, k, gallery))


def mean_average_precision_at_k(
    Z: FeatureLike, y: LabelLike, k: int = 10, *, gallery: Gallery | None = None
) -> Retrieval:
    """The mean over queries of the average precision among the k nearest neighbours (mAP@k).

    For a query with R samples of its class in the gallery it is the sum, over the places j ≤ k
    that hold its class, of the precision at j, divided by min(k, R). In [0, 1], higher is better,
    and 1 only if its class comes first. Many texts report precision@k under this name.

    Args:
        Z: Features of the queries ``(n_samples, n_features)``.
        y: Class numbers ``(n_samples,)``.
        k: Neighbours a query.
        gallery: See :func:`precision_at_k`.

    Example:
        >>> Z, y = [[4, 0], [4, 1], [4, 2], [4, 3]], [0, 1, 0, 0]
        >>> found = mean_average_precision_at_k(Z, y, k=3)
        >>> round(float(found.per_sample[0]), 4)  # (1/2 + 2/3) / 2
        0.5833
    """
    return _mean_average_precision(*_relevance(Z, y, k, gallery))


def precision_and_map_at_k(
    Z: FeatureLike, y: LabelLike, k: int = 10, *, gallery: Gallery | None = None
) -> tuple[Retrieval, Retrieval]:
    """:func:`precision_at_k` and :func:`mean_average_precision_at_k` from one search.

    Example:
        >>> both = precision_and_map_at_k([[4, 0], [4, 1], [4, 2], [4, 3]], [0, 1, 0, 0], k=3)
        >>> [round(float(found), 4) for found in both]
        [0.5, 0.5625]
    """
    relevant, facts = _relevance(Z, y, k, gallery)
    return _precision(relevant, facts), _mean_average_precision(relevant, facts)


@dataclass(frozen=True)
class _Facts:
    """What a score is to be read with: matches in the gallery a query, and rows of zeros."""

    n_relevant: Tensor
    n_zero_rows: int
    n_zero_gallery: int


def _relevance(
    Z: FeatureLike, y: LabelLike, k: int, gallery: Gallery | None
) -> tuple[Tensor, _Facts]:
    """Which of each query's k neighbours have its class, ``(n_queries, k)``."""
    queries = checked_features(Z)
    labels = torch.from_numpy(checked_labels(y, queries.n_samples))
    alone = gallery is None
    pool, pool_labels = queries, labels
    if gallery is not None:
        pool = checked_features(gallery[0], "gallery features")
        checked = checked_labels(gallery[1], pool.n_samples, "gallery labels")
        pool_labels = torch.from_numpy(checked)
    if pool.n_features != queries.n_features:
        raise ValueError(
            f"queries have {queries.n_features} features, the gallery has {pool.n_features}"
        )
    checked_count(
        k, name="k", limit=pool.n_samples - alone, limited_by="the number of samples to search in"
    )
    findable = nonzero_rows(pool)
    found = nearest(queries, pool, findable, k, leave_one_out=alone)
    relevant = (pool_labels[found.clamp(min=0)] == labels[:, None]) & (found >= 0)
    n_relevant = _occurrences(labels, pool_labels) - int(alone)
    n_nonzero = len(findable if alone else nonzero_rows(queries))
    return relevant, _Facts(
        n_relevant, queries.n_samples - n_nonzero, pool.n_samples - len(findable)
    )


def _precision(relevant: Tensor, facts: _Facts) -> Retrieval:
    return _retrieval(relevant.double().mean(dim=1), relevant.shape[1], facts)


def _mean_average_precision(relevant: Tensor, facts: _Facts) -> Retrieval:
    found, k = relevant.double(), relevant.shape[1]
    precision = found.cumsum(dim=1) / torch.arange(1, k + 1)
    reachable = facts.n_relevant.clamp(min=1, max=k)
    return _retrieval((precision * found).sum(dim=1) / reachable, k, facts)


def _occurrences(labels: Tensor, among: Tensor) -> Tensor:
    """How often each label occurs among the others, ``(n,)``."""
    ordered = among.sort().values
    first, last = (torch.searchsorted(ordered, labels, right=right) for right in (False, True))
    return last - first


def _retrieval(per_sample: Tensor, k: int, facts: _Facts) -> Retrieval:
    return Retrieval(
        value=float(per_sample.mean()),
        per_sample=per_sample.numpy(),
        k=k,
        n_zero_rows=facts.n_zero_rows,
        n_zero_gallery=facts.n_zero_gallery,
        n_without_match=int((facts.n_relevant == 0).sum()),
        averaged_over=len(per_sample),
        averaged_unit="samples",
        higher_is_better=True,
        signed=False,
    )
