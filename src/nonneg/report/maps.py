"""Maps of features and of samples: a place on a plane for each, near those that are alike.

Both are t-SNE (van der Maaten and Hinton 2008): of the features by scikit-learn, of the samples, of
which there are many, with the sum over all pairs as a convolution on a grid (Linderman et al.
2019), in a time that hardly grows with their number.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import fft, sparse

from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.pairs.neighbours import nearest_neighbors
from nonneg.rows import unit_rows

_N_NEIGHBORS = 15
_MAX_COLUMNS = 4096
_FEW = 200  # so few are compared pair by pair, which is faster
_N_GRID = 256  # cells a side; the convolution needs twice as many
_MIN_CELLS_PER_UNIT = 2.0  # the repulsion changes over a distance of about 1
_N_PULLED = 80  # steps in which attraction counts more, so that what belongs together meets
_PULL = 8.0
_N_STEPS = 320
_MOMENTUM = (0.5, 0.8)

Plane = NDArray[np.float32]


def feature_places(cosines: NDArray[np.float32], *, seed: int = 0) -> FloatArray:
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


def document_places(
    Z: FeatureLike, *, start: FloatArray | None = None, seed: int = 0
) -> FloatArray:
    """A place in the unit square for each sample, near those whose features are alike, ``(n, 2)``.

    Neighbours are the 15 samples of largest cosine; of more than 4,096 features the strongest on
    average count. Samples without an active feature are put at the lower edge. The same features
    give the same places.

    Args:
        Z: Features ``(n, d)``.
        start: Places of the features ``(d, 2)``, NaN for those without one: a sample starts at
            the mean of its features' places, weighted by squared activation. Left out, samples
            start along the two main directions of the features.
        seed: Of the little shake that keeps equal samples apart.

    Example:
        >>> places = document_places(np.repeat(np.eye(2), 30, axis=0))
        >>> bool(np.ptp(places[:30], axis=0).max() < np.abs(places[0] - places[30]).max())
        True
    """
    features = checked_features(Z)
    strength = torch.zeros(features.n_features)
    for _, tile in features.tiles():
        strength += unit_rows(tile).float().square().sum(dim=0).cpu()
    which = torch.argsort(-strength, stable=True)[:_MAX_COLUMNS].sort().values
    which = which[strength[which] > 0]
    parts = [unit_rows(tile).float().cpu()[:, which] for _, tile in features.tiles()]
    unit = torch.cat(parts)
    on = np.flatnonzero((unit != 0).any(dim=1).numpy())
    places = np.tile([0.5, 1.0], (features.n_samples, 1))
    if len(on) == 0:
        return places
    vectors = unit[torch.from_numpy(on)]
    of_features = None if start is None else start[which.numpy()]
    found = _first_samples(vectors.numpy(), of_features, np.random.default_rng(seed))
    if len(on) > 2:
        k = min(_N_NEIGHBORS, len(on) - 1)
        found = _embedded(_attraction(nearest_neighbors(vectors, k).numpy()), found)
    places[on] = _in_unit_square(found) * (1 if len(on) == features.n_samples else [1, 0.95])
    return places


def _first_samples(
    vectors: NDArray[np.float32], of_features: FloatArray | None, rng: np.random.Generator
) -> Plane:
    """First places, of standard deviation 1 along each axis, slightly shaken ``(n, 2)``."""
    if of_features is not None:
        known = np.isfinite(of_features).all(axis=1)
        weights = vectors[:, known] ** 2
        total = weights.sum(axis=1, keepdims=True)
        middle = np.full(2, 0.5)
        found = np.where(
            total > 0, weights @ of_features[known] / np.where(total > 0, total, 1), middle
        )
    else:
        centred = torch.from_numpy(vectors - vectors.mean(axis=0))
        _, axes = torch.linalg.eigh(centred.T @ centred)
        axes = axes[:, -2:]
        # An axis has no direction of its own.
        axes = axes * torch.where(axes.sum(dim=0) < 0, -1.0, 1.0)
        found = (centred @ axes).numpy()
        found = np.pad(found, ((0, 0), (0, 2 - found.shape[1])))
    spread = found.std(axis=0)
    found = (found - found.mean(axis=0)) / np.where(spread > 1e-9, spread, 1)
    shaken: Plane = (found + 0.05 * rng.normal(size=found.shape)).astype(np.float32)
    return shaken


def _attraction(neighbors: IntArray) -> sparse.csr_array:
    """Weights between neighbours, symmetric, 1 in all ``(n, n)``."""
    n, k = neighbors.shape
    starts = np.arange(0, n * k + 1, k)
    one_way = sparse.csr_array(
        (np.ones(n * k, dtype=np.float32), neighbors.ravel(), starts), shape=(n, n)
    )
    both = sparse.csr_array(one_way + one_way.T)
    both.sort_indices()
    both.data /= both.data.sum()
    return both


def _embedded(attraction: sparse.csr_array, places: Plane) -> Plane:
    """Places after gradient steps with momentum and a gain for each coordinate."""
    n = len(places)
    rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(attraction.indptr))
    rate = max(n / _PULL, 50.0) / 4
    speed, gains = np.zeros_like(places), np.ones_like(places)
    for step in range(_N_STEPS):
        pulled = step < _N_PULLED
        pull = _pulled(attraction, rows, places) * (_PULL if pulled else 1)
        push = _repulsion(places)
        gradient = 4 * (pull - push)
        same_way = np.sign(gradient) == np.sign(speed)
        gains = np.maximum(np.where(same_way, gains * 0.8, gains + 0.2), 0.01)
        speed = _MOMENTUM[0 if pulled else 1] * speed - rate * gains * gradient
        places = places + speed
        places -= places.mean(axis=0)
    return places


def _pulled(attraction: sparse.csr_array, rows: NDArray[np.int32], places: Plane) -> Plane:
    """For each sample the sum of ``p (y_i - y_j) / (1 + |y_i - y_j|²)`` over neighbours."""
    x, y = places[:, 0], places[:, 1]
    dx = x[rows] - x[attraction.indices]
    dy = y[rows] - y[attraction.indices]
    weights = attraction.data / (1 + dx * dx + dy * dy)
    forces = sparse.csr_array(
        (weights, attraction.indices, attraction.indptr), shape=attraction.shape
    )
    total = np.bincount(rows, weights, minlength=len(places)).astype(np.float32)
    pulled: Plane = total[:, None] * places - forces @ places
    return pulled


def _repulsion(places: Plane) -> Plane:
    """For each sample the sum of ``q² (y_i - y_j)`` over all others, over the sum of all q.

    ``q = 1 / (1 + |y_i - y_j|²)``.
    """
    return (_of_pairs if len(places) <= _FEW else _on_grid)(places)


def _of_pairs(places: Plane) -> Plane:
    ways = places[:, None] - places
    q = 1 / (1 + (ways**2).sum(axis=2))
    total = max(float(q.sum()) - len(places), 1e-9)  # each sample repels itself with q = 1
    push: Plane = (q[:, :, None] ** 2 * ways).sum(axis=1) / total
    return push


def _on_grid(places: Plane) -> Plane:
    """Nearly the same: samples are spread over the four corners of their cell of a grid.

    Forces are found at the corners by convolution, and read off in between.
    """
    low = places.min(axis=0)
    span = float((places.max(axis=0) - low).max())
    n_cells = int(np.clip(span * _MIN_CELLS_PER_UNIT, 32, _N_GRID - 2))
    n_cells = fft.next_fast_len(n_cells + 2, real=True) - 2
    cell = max(span, 1e-6) / n_cells
    at = (places - low) / cell
    corner = np.minimum(at.astype(np.int32), n_cells - 1)
    part = at - corner
    width = n_cells + 2
    flat = corner[:, 1] * width + corner[:, 0]
    fx, fy = part[:, 0], part[:, 1]
    corners = [
        (flat, (1 - fx) * (1 - fy)),
        (flat + 1, fx * (1 - fy)),
        (flat + width, (1 - fx) * fy),
        (flat + width + 1, fx * fy),
    ]
    mass = sum(np.bincount(where, share, minlength=width * width) for where, share in corners)
    spectrum = fft.rfft2(
        np.asarray(mass, dtype=np.float32).reshape(width, width), s=(2 * width, 2 * width)
    )
    fields = fft.irfft2(spectrum * _kernels(width, cell), s=(2 * width, 2 * width))
    read = np.zeros((3, len(places)))
    for field, into in zip(fields[:, :width, :width].reshape(3, -1), read, strict=True):
        for where, share in corners:
            into += field[where] * share
    total = max(float(read[0].sum()) - len(places), 1e-9)
    push: Plane = (read[1:].T / total).astype(np.float32)
    return push


def _kernels(width: int, cell: float) -> NDArray[np.complex64]:
    """Spectra of q, and of q² times the way along each axis, over twice the grid."""
    steps = (fft.fftfreq(2 * width, d=1 / (2 * width)) * cell).astype(np.float32)
    squares = 1 + steps**2 + steps[:, None] ** 2
    strong = squares**-2
    kernels = np.stack([1 / squares, steps * strong, steps[:, None] * strong])
    spectra: NDArray[np.complex64] = fft.rfft2(kernels)
    return spectra


def _in_unit_square(places: Plane) -> FloatArray:
    """Places moved and scaled into the unit square, both axes alike."""
    low, high = places.min(axis=0).astype(np.float64), places.max(axis=0).astype(np.float64)
    span = float((high - low).max())
    scaled: FloatArray = 0.5 + (places - (low + high) / 2) / (span if span > 0 else 1)
    return np.clip(scaled, 0, 1)
