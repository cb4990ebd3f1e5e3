"""On which scale does a probe see its columns? Mean 0, variance 1, and none blown up."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from nonneg.evaluation.solver_rows import DenseRows, Rows, SparseRows
from nonneg.metrics.inputs import Features

# No training entry is further than this many units from its column's mean.
_FURTHEST = 50.0
# From this share of zeros on, sparse products are faster than dense ones.
_SPARSE_ZERO_RATE = 0.9
# One row in so many is looked at to see how many entries are zero.
_ZERO_STEP = 16


@dataclass(frozen=True, eq=False)
class Columns:
    """What was learnt about the columns of the training features.

    Args:
        mean: ``(n_kept,)``, float64.
        scale: What one unit is, ``(n_kept,)``, float64.
        kept: The numbers of the columns that vary, ``(n_kept,)``.
        zero_rate: About the share of entries that are zero.
    """

    mean: Tensor
    scale: Tensor
    kept: Tensor
    zero_rate: float


def column_scales(features: Features) -> Columns:
    """Mean and scale of each column that varies, from one pass over the samples.

    The scale is the standard deviation, but at least a fiftieth of the largest distance from the
    mean. A feature that is on for 1 of 50,000 samples has a standard deviation of 1/224 of its
    value; without the floor it would enter the probe as 224 units, and a stronger test sample as
    thousands. Columns whose range is within rounding of zero are not kept.

    Example:
        >>> from nonneg.metrics.inputs import checked_features
        >>> columns = column_scales(checked_features([[0.0, 5.0], [2.0, 5.0]]))
        >>> columns.mean.tolist(), columns.scale.tolist(), columns.kept.tolist()
        ([1.0], [1.0], [0])
    """
    n = features.n_samples
    # Sums are taken around one sample's values: far from zero, squares would drown the variance.
    centre = features.rows(slice(0, 1))[0]
    total = torch.zeros_like(centre, dtype=torch.float64)
    squares = torch.zeros_like(total)
    lowest, highest = centre.clone(), centre.clone()
    n_zero, n_looked_at = 0, 0
    for _, tile in features.tiles():
        lowest = torch.minimum(lowest, tile.amin(dim=0))
        highest = torch.maximum(highest, tile.amax(dim=0))
        some = tile[::_ZERO_STEP]
        n_zero, n_looked_at = n_zero + int((some == 0).sum()), n_looked_at + some.numel()
        distance = tile - centre
        total += distance.sum(dim=0, dtype=torch.float64)
        squares += distance.square_().sum(dim=0, dtype=torch.float64)
    offset = total / n
    mean = (centre + offset).to(features.dtype).double()
    lowest, highest = lowest.double(), highest.double()
    furthest = torch.maximum(highest - mean, mean - lowest)
    scale = torch.maximum((squares / n - offset.square()).clamp(min=0).sqrt(), furthest / _FURTHEST)
    rounding = 8 * torch.finfo(features.dtype).eps
    kept = (highest - lowest > rounding * torch.maximum(highest.abs(), lowest.abs())).nonzero()[
        :, 0
    ]
    # Rounded, so that the matrix that is fitted to and the map that is kept agree exactly.
    scale = scale.to(features.dtype).double()
    if not bool(torch.isfinite(scale).all()):
        raise ValueError(
            f"train has entries up to {max(-features.lowest, features.highest):.3g}, whose squares "
            "overflow; divide the features by a constant"
        )
    return Columns(mean[kept], scale[kept], kept, zero_rate=n_zero / n_looked_at)


def standard_rows(features: Features, columns: Columns, order: Tensor) -> Rows:
    """The samples in the given order, standardised; sparse if most entries are zero.

    The only copy of the samples that a probe makes. Dense on other devices than the CPU, and for
    fewer samples than columns.

    Args:
        features: ``(n, n_features)``.
        columns: Of the same features.
        order: Numbers of samples, on the CPU.
    """
    tiles = order.split(features.tile_rows)
    on_cpu, enough = features.device.type == "cpu", len(order) >= len(columns.kept)
    if on_cpu and enough and columns.zero_rate >= _SPARSE_ZERO_RATE:
        scale = columns.scale.to(features.dtype)
        parts = [_csr(_kept(features, tile, columns) / scale) for tile in tiles]
        shift = (columns.mean / columns.scale).to(features.dtype)
        return SparseRows(sparse.csr_array(sparse.vstack(parts, format="csr")), shift)
    values = torch.empty(
        len(order), len(columns.kept), dtype=features.dtype, device=features.device
    )
    mean, scale = columns.mean.to(features.dtype), columns.scale.to(features.dtype)
    for part, tile in zip(values.split(features.tile_rows), tiles, strict=True):
        part.copy_(_kept(features, tile, columns)).sub_(mean).div_(scale)
    return DenseRows(values)


def _kept(features: Features, which: Tensor, columns: Columns) -> Tensor:
    rows = features.rows(which.to(features.device))
    return rows if len(columns.kept) == rows.shape[1] else rows[:, columns.kept]


def _csr(tile: Tensor) -> sparse.csr_array:
    dense = tile.numpy()
    where = np.flatnonzero(dense)
    starts = np.concatenate([[0], np.count_nonzero(dense, axis=1).cumsum()])
    entries = (dense.ravel()[where], (where % dense.shape[1]).astype(np.int32), starts)
    return sparse.csr_array(entries, shape=dense.shape)
