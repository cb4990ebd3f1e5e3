"""Retrieval by cosine: nearest samples, precision@k and mean average precision@k."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_count,
    checked_features,
    checked_labels,
)
from nonneg.metrics.results import FloatArray, Measurement
from nonneg.rows import row_lengths, unit_rows

_QUERY_ROWS = 512
_GALLERY_ROWS = 1 << 14
_EXACT_ROWS = 1 << 11
_EXACT_ENTRIES = 1 << 22
# More candidates than asked for, so that nearly equal ones can be told apart among themselves.
_SPARE = 8
# Closer than this, float32 cannot tell two cosines apart, and float64 decides.
_FLOAT32_GAP = 1e-6
# Closer than 2^-40, two cosines are equal, and the lower number decides.
_EQUAL_BITS = 40
_NOTHING = torch.iinfo(torch.int64).min


def nearest(
    queries: Features, gallery: Features, numbers: Tensor, k: int, *, leave_one_out: bool
) -> Tensor:
    """The k gallery rows of largest cosine with each query, int64 ``(n_queries, k)`` on the CPU.

    Nearest first; cosines that agree to about 1e-12 are equal, and the lower number comes first.
    Memory holds one unit copy of the gallery and one tile of cosines.

    Args:
        queries: ``(n_queries, n_features)``.
        gallery: ``(n_gallery, n_features)``.
        numbers: The gallery rows that may be found, see :func:`nonzero_rows`.
        k: Neighbours a query.
        leave_one_out: Queries are the gallery, and no row finds itself.

    Returns:
        -1 where there is nothing to find: a row of zeros neither finds nor is found.
    """
    found = torch.full((queries.n_samples, k), -1, dtype=torch.int64)
    if not len(numbers):
        return found
    everything = len(numbers) == gallery.n_samples
    rows = gallery.dense() if everything else gallery.rows(numbers.to(gallery.device))
    unit = unit_rows(rows).float()
    for start in range(0, queries.n_samples, _QUERY_ROWS):
        here = slice(start, min(start + _QUERY_ROWS, queries.n_samples))
        query = queries.rows(here).to(gallery.device)
        itself = None
        if leave_one_out:
            itself = _column_of(torch.arange(here.start, here.stop), numbers).to(query.device)
        best = _nearest_of_tile(query, rows, unit, k, itself).cpu()
        best = numbers[best.clamp(min=0)].masked_fill(best < 0, -1)
        is_zero = row_lengths(query).cpu() == 0  # (n, 1)
        found[here, : best.shape[1]] = best.masked_fill(is_zero, -1)
    return found


def nonzero_rows(features: Features) -> Tensor:
    """The numbers of the rows that are not all zero, int64 on the CPU."""
    nonzero = torch.cat([(tile != 0).any(dim=1) for _, tile in features.tiles()])
    return nonzero.nonzero()[:, 0].cpu()


def _column_of(itself: Tensor, numbers: Tensor) -> Tensor:
    """Where each row stands among the non-zero rows; -1 if it is not one of them."""
    position = torch.searchsorted(numbers, itself).clamp(max=len(numbers) - 1)
    return position.where(numbers[position] == itself, -1)


def _nearest_of_tile(
    query: Tensor, rows: Tensor, unit: Tensor, k: int, itself: Tensor | None
) -> Tensor:
    """The best columns of each query, ``(n, min(k, n_gallery))``; -1 beyond the last one."""
    values, columns = _largest(unit_rows(query).float(), unit, min(k + _SPARE, len(unit)))
    least = values[:, -1]  # no cosine outside the list is larger
    if itself is not None:
        values = values.masked_fill(columns == itself[:, None], -torch.inf)
        values, order = values.sort(dim=1, descending=True, stable=True)
        columns = columns.gather(1, order).masked_fill(values == -torch.inf, -1)
    kept = columns[:, :k].clone()
    unclear = (values[:, :-1] - values[:, 1:] <= _FLOAT32_GAP)[:, :k].any(dim=1)
    listed = values[:, kept.shape[1] - 1] - least > _FLOAT32_GAP
    listed |= values.shape[1] == len(unit)
    step = max(1, _EXACT_ENTRIES // (columns.shape[1] * rows.shape[1]))
    for some in (unclear & listed).nonzero()[:, 0].split(step):
        kept[some] = _ordered_exactly(query[some], rows, columns[some])[:, :k]
    beyond = (unclear & ~listed).nonzero()[:, 0]
    if len(beyond):
        own = None if itself is None else itself[beyond]
        kept[beyond] = _nearest_exactly(query[beyond], rows, kept.shape[1], own)
    return kept


def _largest(query: Tensor, unit: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The largest cosines of each query and their columns, ``(n, width)``, tile by tile."""
    values = query.new_zeros(len(query), 0)
    columns = torch.zeros(len(query), 0, dtype=torch.int64, device=query.device)
    for start in range(0, len(unit), _GALLERY_ROWS):
        tile = query @ unit[start : start + _GALLERY_ROWS].T
        best, where = tile.topk(min(width, tile.shape[1]), dim=1)
        values = torch.cat([values, best], dim=1)
        columns = torch.cat([columns, where + start], dim=1)
        values, order = values.topk(min(width, values.shape[1]), dim=1)
        columns = columns.gather(1, order)
    return values, columns


def _ordered_exactly(query: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The listed columns of each query in their true order, ``(n, width)``; -1 come last."""
    listed = rows[columns.clamp(min=0).flatten()].double()
    candidates = unit_rows(listed).view(*columns.shape, rows.shape[1])
    cosine = (candidates @ unit_rows(query.double())[:, :, None])[:, :, 0]
    keys = _keys(cosine, columns, len(rows)).masked_fill(columns < 0, _NOTHING)
    return columns.gather(1, keys.argsort(dim=1, descending=True))


def _nearest_exactly(query: Tensor, rows: Tensor, k: int, itself: Tensor | None) -> Tensor:
    """The best columns of each query, ``(n, k)``, from all cosines in float64."""
    query = unit_rows(query.double())
    best = torch.zeros(len(query), 0, dtype=torch.int64, device=query.device)
    found = best
    for start in range(0, len(rows), _EXACT_ROWS):
        part = unit_rows(rows[start : start + _EXACT_ROWS].double())
        columns = torch.arange(start, start + len(part), device=query.device)
        keys = _keys(query @ part.T, columns, len(rows))
        if itself is not None:
            keys = keys.masked_fill(columns == itself[:, None], _NOTHING)
        best = torch.cat([best, keys], dim=1)
        found = torch.cat([found, columns.expand(len(query), -1)], dim=1)
        best, order = best.topk(min(k, best.shape[1]), dim=1)
        found = found.gather(1, order)
    return found.masked_fill(best == _NOTHING, -1)


def _keys(cosine: Tensor, columns: Tensor, n: int) -> Tensor:
    """Cosine and column in one integer, so that no two are equal: of equals the lower column."""
    scale = 2.0 ** min(_EQUAL_BITS, 61 - n.bit_length())
    return (cosine * scale).round_().long() * n + (n - 1 - columns)


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
    """What goes with a score: matches in the gallery per query, and rows of zeros."""

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
