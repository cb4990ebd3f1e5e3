"""Which samples are nearest? Exact cosine neighbours by tiles, with a fixed order among equals."""

import torch
from torch import Tensor

from nonneg.metrics.features import Features
from nonneg.metrics.rows import row_lengths, unit_rows

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
