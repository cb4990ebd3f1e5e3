"""How far would class consistency move on another sample? Its bootstrap over samples."""

import numpy as np
import torch
from torch import Tensor

from nonneg.metrics.chance import RandomState
from nonneg.metrics.checks import checked_count
from nonneg.metrics.class_counts import sorted_active_tiles
from nonneg.metrics.inputs import Features
from nonneg.metrics.results import BoolArray, FloatArray

_BLOCK_ENTRIES = 1 << 22


def consistency_interval(
    features: Features,
    classes: Tensor,
    measured: BoolArray,
    *,
    value: float,
    threshold: float,
    n_bootstrap: int,
    confidence: float,
    random_state: RandomState,
) -> tuple[float, float]:
    """The interval that class consistency is expected in, for other samples of the same size.

    Samples are drawn with replacement. The share of the *commonest* class is biased upwards in
    small samples, and more so in a resample, so the quantiles are taken of the deviation from the
    resamples' mean and put around ``value``: the interval tells the spread, not the bias, which
    the permuted-label null shows.
    """
    checked_count(n_bootstrap, name="n_bootstrap")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must lie between 0 and 1")
    rng = np.random.default_rng(random_state)
    block = max(1, _BLOCK_ENTRIES // max(features.n_features, features.n_samples))
    sizes = [min(block, n_bootstrap - start) for start in range(0, n_bootstrap, block)]
    resampled = np.concatenate(
        [_resampled(features, classes, measured, threshold, size, rng) for size in sizes]
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled - resampled.mean(), [tail, 1 - tail])
    return value + float(low), value + float(high)


def _resampled(
    features: Features,
    classes: Tensor,
    measured: BoolArray,
    threshold: float,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Class consistency of ``size`` resamples: a matrix product a class for all of them."""
    n = features.n_samples
    drawn = np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(size)])
    weights = torch.from_numpy(drawn).to(features.device, features.dtype)  # (size, n), class order
    here, largest, total = (weights.new_zeros(size, features.n_features) for _ in range(3))
    current, start = 0, 0
    for tile_classes, on in sorted_active_tiles(features, classes, threshold):
        present, lengths = torch.unique_consecutive(tile_classes, return_counts=True)
        for number, rows in zip(present.tolist(), on.split(lengths.tolist()), strict=True):
            if number != current:
                torch.maximum(largest, here, out=largest)
                here.zero_()
                current = number
            counts = weights[:, start : start + len(rows)] @ rows
            here += counts
            total += counts
            start += len(rows)
    torch.maximum(largest, here, out=largest)
    keep = torch.from_numpy(measured).to(features.device) & (total > 0)
    share = (largest / total.clamp(min=1)).where(keep, 0).double()
    return (share.sum(dim=1) / keep.sum(dim=1).clamp(min=1)).cpu().numpy()
