"""Which samples are nearest? Exact cosine neighbours by tiles, with a fixed order among equals."""

import torch
from torch import Tensor

from nonneg.metrics.inputs import Features
from nonneg.metrics.rows import row_lengths, unit_rows

_QUERY_ROWS = 512
_GALLERY_ROWS = 1 << 14
# Closer than this, float32 cannot tell two cosines apart, and float64 decides.
_FLOAT32_GAP = 1e-6
# Closer than this, two cosines are equal, and the lower number decides.
_EQUAL_BITS = 40


def nearest(queries: Features, gallery: Features, k: int, *, leave_one_out: bool) -> Tensor:
    """The k gallery rows of largest cosine with each query, int64 ``(n_queries, k)`` on the CPU.

    Nearest first; cosines that agree to about 1e-12 are equal, and the lower number comes first.
    Memory holds one unit copy of the gallery and one tile of cosines.

    Args:
        queries: ``(n_queries, n_features)``.
        gallery: ``(n_gallery, n_features)``.
        k: At most the number of gallery rows, less one if a query is itself among them.
        leave_one_out: Queries are the gallery, and no row finds itself.

    Returns:
        -1 where there is nothing to find: a row of zeros neither finds nor is found.
    """
    numbers = _nonzero_rows(gallery)  # (n_nonzero,) numbers in the gallery
    everything = len(numbers) == gallery.n_samples
    rows = gallery.dense() if everything else gallery.rows(numbers.to(gallery.device))
    found = torch.full((queries.n_samples, k), -1, dtype=torch.int64)
    if not len(numbers):
        return found
    unit = unit_rows(rows).float()
    for start in range(0, queries.n_samples, _QUERY_ROWS):
        here = slice(start, min(start + _QUERY_ROWS, queries.n_samples))
        query_rows = queries.rows(here).to(gallery.device)
        itself = torch.arange(here.start, here.stop) if leave_one_out else None
        columns = None if itself is None else _column_of(itself, numbers)
        best = _nearest_of_tile(query_rows, rows, unit, k, columns).cpu()
        nothing = best < 0
        best = numbers[best.clamp(min=0)].masked_fill(nothing, -1)
        is_zero = row_lengths(query_rows)[:, 0].cpu() == 0
        found[here, : best.shape[1]] = best.masked_fill(is_zero[:, None], -1)
    return found


def _nonzero_rows(features: Features) -> Tensor:
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
    # One more than asked for shows a tie at the border; itself takes one more place.
    width = min(k + 1 + (itself is not None), len(unit))
    values, columns = _largest(unit_rows(query).float(), unit, width)
    if itself is not None:
        own = columns == itself.to(columns.device)[:, None]
        values = values.masked_fill(own, -torch.inf)
        values, order = values.sort(dim=1, descending=True, stable=True)
        columns = columns.gather(1, order).masked_fill(values == -torch.inf, -1)
    kept = columns[:, :k].clone()
    gaps = values[:, :-1] - values[:, 1:]
    unclear = (gaps[:, :k] <= _FLOAT32_GAP).any(dim=1)
    for some in unclear.nonzero()[:, 0].split(_QUERY_ROWS // 4):
        own_columns = None if itself is None else itself[some.cpu()]
        kept[some] = _nearest_exactly(query[some], rows, kept.shape[1], own_columns)
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


def _nearest_exactly(query: Tensor, rows: Tensor, k: int, itself: Tensor | None) -> Tensor:
    """As above, in float64, with cosine and number in one integer key, so that no two are equal."""
    n = len(rows)
    scale = 2.0 ** min(_EQUAL_BITS, 61 - n.bit_length())
    query = unit_rows(query.double())
    parts = (unit_rows(part.double()).T for part in rows.split(_GALLERY_ROWS))
    keys = torch.cat([(query @ part).mul_(scale).round_().long() for part in parts], dim=1)
    keys = keys * n + torch.arange(n - 1, -1, -1, device=keys.device)
    lowest = torch.iinfo(torch.int64).min
    if itself is not None:
        mine = itself.to(keys.device)
        has_one = (mine >= 0).nonzero()[:, 0]
        keys[has_one, mine[has_one]] = lowest
    best, columns = keys.topk(k, dim=1)
    return columns.masked_fill(best == lowest, -1)
