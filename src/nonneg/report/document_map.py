"""A map of the samples: a place on a plane for each, near those with the same features.

t-SNE (van der Maaten and Hinton 2008) of nearest neighbours. Its sum over all pairs is a
convolution, which a grid and the fast Fourier transform give in a time that hardly grows with the
number of samples (Linderman et al. 2019); no point is left to chance.
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
_N_GRID = 256  # cells a side; the convolution needs twice as many
_MIN_CELLS_PER_UNIT = 2.0  # the repulsion changes over a distance of about 1
_N_PULLED = 80  # steps in which attraction counts more, so that what belongs together meets
_PULL = 8.0
_N_STEPS = 320
_MOMENTUM = (0.5, 0.8)

Plane = NDArray[np.float32]


def document_places(
    Z: FeatureLike, *, feature_places: FloatArray | None = None, seed: int = 0
) -> FloatArray:
    """A place in the unit square for each sample, near those whose features are alike, ``(n, 2)``.

    Neighbours are the 15 samples of largest cosine. Samples without an active feature are put at
    the lower edge. The same features give the same places.

    Args:
        Z: Features ``(n, d)``.
        feature_places: Where samples start, as the mean of their features' places ``(d, 2)``,
            weighted by squared activation, NaN for features without one; left out, the two main
            directions of the features take their part.
        seed: Of the little shake that keeps equal samples apart.

    Example:
        >>> places = document_places(np.repeat(np.eye(2), 30, axis=0))
        >>> bool(np.ptp(places[:30], axis=0).max() < np.abs(places[0] - places[30]).max())
        True
    """
    features = checked_features(Z)
    unit = unit_rows(features.dense()).float()
    on = np.flatnonzero((unit != 0).any(dim=1).cpu().numpy())
    places = np.tile([0.5, 1.0], (features.n_samples, 1))
    if len(on) == 0:
        return places
    alive = (unit != 0).any(dim=0)
    vectors = unit[on][:, alive]
    rng = np.random.default_rng(seed)
    if feature_places is not None:
        feature_places = feature_places[alive.cpu().numpy()]
    start = _start(vectors.cpu().numpy(), feature_places, rng)
    if len(on) > 2:
        k = min(_N_NEIGHBORS, len(on) - 1)
        start = _embedded(_attraction(nearest_neighbors(vectors, k).numpy()), start)
    places[on] = _squared(start) * (1 if len(on) == features.n_samples else [1, 0.95])
    return places


def _start(
    vectors: NDArray[np.float32], feature_places: FloatArray | None, rng: np.random.Generator
) -> Plane:
    """First places, of standard deviation 1 along each axis, slightly shaken ``(n, 2)``."""
    if feature_places is not None:
        known = np.isfinite(feature_places).all(axis=1)
        weights = vectors[:, known] ** 2
        total = weights.sum(axis=1, keepdims=True)
        middle = np.full(2, 0.5)
        found = np.where(
            total > 0, weights @ feature_places[known] / np.where(total > 0, total, 1), middle
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
    return (found + 0.05 * rng.normal(size=found.shape)).astype(np.float32)


def _attraction(neighbors: IntArray) -> sparse.csr_array:
    """Weights between neighbours, symmetric, 1 in all ``(n, n)``."""
    n, k = neighbors.shape
    starts = np.arange(0, n * k + 1, k)
    one_way = sparse.csr_array(
        (np.ones(n * k, dtype=np.float32), neighbors.ravel(), starts), shape=(n, n)
    )
    both = sparse.csr_array(one_way + one_way.T)
    both.sort_indices()
    return both / both.sum()


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

    ``q = 1 / (1 + |y_i - y_j|²)``. Samples are spread over the four corners of their cell of a grid,
    forces are found at the corners by convolution, and read off in between.
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
    total = max(read[0].sum() - len(places), 1e-9)  # each sample repels itself with q = 1
    return (read[1:].T / total).astype(np.float32)


def _kernels(width: int, cell: float) -> NDArray[np.complex64]:
    """Spectra of q, and of q² times the way along each axis, over twice the grid."""
    steps = (fft.fftfreq(2 * width, d=1 / (2 * width)) * cell).astype(np.float32)
    squares = 1 + steps**2 + steps[:, None] ** 2
    strong = squares**-2
    kernels = np.stack([1 / squares, steps * strong, steps[:, None] * strong])
    spectra: NDArray[np.complex64] = fft.rfft2(kernels)
    return spectra


def _squared(places: Plane) -> FloatArray:
    """Places moved and scaled into the unit square, both axes alike."""
    low, high = places.min(axis=0).astype(np.float64), places.max(axis=0).astype(np.float64)
    span = float((high - low).max())
    scaled: FloatArray = 0.5 + (places - (low + high) / 2) / (span if span > 0 else 1)
    return np.clip(scaled, 0, 1)
