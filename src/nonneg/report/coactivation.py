"""Which features fire together? Cosines of their columns, partners, an order and a map."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg.metrics.correlation import cosine_block, unit_column_blocks
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Partners:
    """The features that fire most with each feature.

    Args:
        numbers: Strongest partner first, then -1 ``(d, k)``.
        cosines: Of the columns ``(d, k)``.
    """

    numbers: IntArray
    cosines: FloatArray


def column_cosines(Z: FeatureLike, which: IntArray) -> NDArray[np.float32]:
    """Absolute cosines between the columns of some features, ``(k, k)``.

    Args:
        Z: Features ``(n, d)``.
        which: Numbers of features ``(k,)``; a dead one has cosine 0 with all, itself too.

    Example:
        >>> column_cosines([[3, 1], [4, 0]], np.array([0, 1])).round(3).tolist()
        [[1.0, 0.6000000238418579], [0.6000000238418579, 1.0]]
    """
    features = checked_features(Z)
    chosen = torch.from_numpy(which)
    cosines = np.zeros((len(which), len(which)), dtype=np.float32)
    for here, first in unit_column_blocks(features, chosen):
        for there, second in unit_column_blocks(features, chosen):
            cosines[here, there] = cosine_block(first, second).abs_().cpu().numpy()
    return cosines


def partners(cosines: NDArray[np.float32], which: IntArray, n_features: int, k: int) -> Partners:
    """The k features with the largest cosine to each, those with cosine 0 left out.

    Args:
        cosines: Between the features ``which``, ``(m, m)``.
        which: Their numbers ``(m,)``.
        n_features: Of all features, also those that are not in ``which``.
        k: Partners a feature.
    """
    numbers, found = np.full((n_features, k), -1), np.zeros((n_features, k))
    for row, feature in enumerate(which):
        others = cosines[row].copy()
        others[row] = 0
        order = np.argsort(-others, kind="stable")[:k]
        order = order[others[order] > 0]
        numbers[feature, : len(order)] = which[order]
        found[feature, : len(order)] = others[order]
    return Partners(numbers, found)


def telling_order(cosines: NDArray[np.float32]) -> IntArray:
    """An order that puts features that fire together side by side, ``(m,)``."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(cosines) < 3:
        return np.arange(len(cosines))
    distance = np.clip(1 - cosines.astype(np.float64), 0, 1)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform((distance + distance.T) / 2, checks=False), method="average")
    return leaves_list(tree).astype(np.int64)


def layout(cosines: NDArray[np.float32], *, seed: int = 0) -> FloatArray:
    """A place in the unit square for each feature, near those that it fires with, ``(m, 2)``.

    t-SNE of one minus the cosine. Fewer than five features are put on a line.
    """
    m = len(cosines)
    if m < 5:
        return np.stack([(np.arange(m) + 0.5) / max(m, 1), np.full(m, 0.5)], axis=1)
    from sklearn.manifold import TSNE

    distance = np.clip(1 - cosines, 0, 1)
    np.fill_diagonal(distance, 0)
    places = TSNE(
        metric="precomputed",
        init=_first_places(cosines, seed),
        perplexity=min(15.0, (m - 1) / 3),
        learning_rate="auto",
        max_iter=500,
        random_state=seed,
    ).fit_transform(distance)
    low, high = places.min(axis=0), places.max(axis=0)
    scaled: FloatArray = (places - low) / np.where(high > low, high - low, 1)
    return scaled


def _first_places(cosines: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """The two main directions of the cosines, small and slightly shaken, ``(m, 2)``."""
    from scipy.sparse.linalg import eigsh

    rng = np.random.default_rng(seed)
    centred = _centred(cosines)
    if np.abs(centred).max() < 1e-6:  # all fire alike, as after a collapse: no direction is main
        return (1e-4 * rng.normal(size=(len(cosines), 2))).astype(np.float32)
    _, vectors = eigsh(centred, k=2, v0=rng.normal(size=len(cosines)))
    start = vectors / np.maximum(vectors.std(axis=0), 1e-12)
    shaken: NDArray[np.float32] = (1e-4 * (start + 0.1 * rng.normal(size=start.shape))).astype(
        np.float32
    )
    return shaken


def _centred(cosines: NDArray[np.float32]) -> FloatArray:
    """Rows and columns with mean 0, symmetric."""
    symmetric = (cosines + cosines.T).astype(np.float64) / 2
    mean = symmetric.mean(axis=0)
    centred: FloatArray = symmetric - mean - mean[:, None] + mean.mean()
    return centred
