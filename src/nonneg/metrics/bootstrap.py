"""How far would class consistency move on another sample? Its bootstrap over samples."""

import itertools

import numpy as np
import torch

from nonneg.metrics.activity import active_tiles
from nonneg.metrics.chance import RandomState
from nonneg.metrics.checks import checked_count
from nonneg.metrics.class_counts import run_starts
from nonneg.metrics.features import Features
from nonneg.metrics.results import BoolArray, FloatArray, IntArray

_BLOCK_ENTRIES = 1 << 22


def consistency_interval(
    features: Features,
    classes: IntArray,
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
    classes: IntArray,
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
    current = 0
    order = np.argsort(classes, kind="stable")
    ordered = classes[order]
    for place, on in active_tiles(features, threshold, order):
        bounds = [*(place.start + run_starts(ordered[place])), place.stop]
        active = torch.from_numpy(on[:, : features.n_features]).to(weights)
        for start, stop in itertools.pairwise(bounds):
            if ordered[start] != current:
                torch.maximum(largest, here, out=largest)
                here.zero_()
                current = ordered[start]
            run = slice(start - place.start, stop - place.start)
            counts = weights[:, start:stop] @ active[run]
            here += counts
            total += counts
    torch.maximum(largest, here, out=largest)
    keep = torch.from_numpy(measured).to(features.device) & (total > 0)
    share = (largest / total.clamp(min=1)).where(keep, 0).double()
    return (share.sum(dim=1) / keep.sum(dim=1).clamp(min=1)).cpu().numpy()
