"""What the data says: its principal axes, how clustered it is, and whether it has stable groups."""

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor

from nonneg.backbones.simple import Projection
from nonneg.estimators.inputs import TILE_ENTRIES, dense_rows, tiles
from nonneg.metrics.results import FloatArray
from nonneg.pairs.neighbours import exact_neighbors
from nonneg.rows import unit_rows

__all__ = ["Axes", "Projection", "principal_axes"]

# Up to this many columns the covariance matrix is held whole; beyond, some axes are searched for.
_MAX_COVARIANCE = 4096
_MAX_AXES = 256
# An axis with less than this share of the largest variance is rounding error.
_RELATIVE_FLOOR = 1e-6


def principal_axes(
    X: Any,  # noqa: ANN401
    seed: int,
    name: str = "X",
) -> tuple[Tensor, Tensor, Tensor]:
    """The centre ``(d,)`` of the vectors, their principal axes ``(d, r)`` and variances ``(r,)``.

    Reads X twice, tile by tile. Axes without variance are left out; of more than 4,096 columns
    the 256 strongest axes are found. Variances are float64: squares of large or small numbers are
    beyond float32.

    Args:
        X: ``(n, d)``.
        seed: Of the search for the strongest axes.
        name: What errors call the vectors.

    Raises:
        ValueError: All rows are equal, or would be in float32.
    """
    total = torch.zeros(X.shape[1], dtype=torch.float64)
    low = torch.full((X.shape[1],), torch.inf)
    high = -low
    for _, part in tiles(X):
        total += part.double().sum(dim=0)
        low, high = low.minimum(part.amin(dim=0)), high.maximum(part.amax(dim=0))
    if torch.equal(low, high):
        numbers: Any = X
        if not high.any() and (numbers.data if sparse.issparse(X) else numbers).any():
            raise ValueError(
                f"{name} holds numbers too small for float32 (below 1e-45), in which features are "
                "computed; multiply all of it, for example by 1 / its largest entry"
            )
        raise ValueError(
            f"{name} is constant: all {X.shape[0]} rows are equal, so there is nothing to learn"
        )
    center = total / X.shape[0]
    if X.shape[1] <= _MAX_COVARIANCE:
        variances, axes = torch.linalg.eigh(_covariance(X, center))
        variances, axes = variances.flip(0), axes.flip(1)
    else:
        variances, axes = _strongest_axes(X, center, seed)
    kept = variances > _RELATIVE_FLOOR * variances[0]
    return center.float(), _signed_axes(axes[:, kept]).float(), variances[kept]


def _covariance(X: Any, center: Tensor) -> Tensor:  # noqa: ANN401
    products = torch.zeros(len(center), len(center), dtype=torch.float64)
    for _, part in tiles(X):
        centred = part.double() - center
        products += centred.T @ centred
    products /= X.shape[0]
    return products


def _strongest_axes(X: Any, center: Tensor, seed: int) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """Variances and axes of the centred X, without holding it: only products with vectors."""
    mean = center.numpy()

    # A sparse X is multiplied as it is; a map would be copied whole, to float64, at every product.
    is_sparse: bool = sparse.issparse(X)

    def times(vectors: FloatArray) -> FloatArray:
        if is_sparse:
            product: FloatArray = np.asarray(X @ vectors)
        else:
            product = np.concatenate([part.double().numpy() @ vectors for _, part in tiles(X)])
        return product - mean @ vectors

    def transposed_times(vectors: FloatArray) -> FloatArray:
        product: FloatArray = -np.multiply.outer(mean, vectors.sum(axis=0))
        if is_sparse:
            product += np.asarray(X.T @ vectors)
            return product
        for rows, part in tiles(X):
            product += part.double().numpy().T @ vectors[rows]
        return product

    operator = LinearOperator(
        X.shape, matvec=times, rmatvec=transposed_times, matmat=times, rmatmat=transposed_times,
        dtype=np.float64,
    )  # fmt: skip
    n_axes = min(_MAX_AXES, min(X.shape) - 1)
    start = np.random.default_rng(seed).standard_normal(min(X.shape))
    _, singular, axes = svds(operator, k=n_axes, v0=start, solver="arpack")
    order = np.argsort(-singular)
    variances = singular[order] ** 2 / X.shape[0]
    return torch.from_numpy(variances), torch.from_numpy(axes[order].T.copy())


def _signed_axes(axes: Tensor) -> Tensor:
    """Each axis with its largest entry positive, so that equal data give equal axes."""
    largest = axes.gather(0, axes.abs().argmax(dim=0, keepdim=True))
    return axes * torch.where(largest < 0, -1.0, 1.0)


# How many samples are compared with how many others, and with how many of the nearest.
_N_QUERIES = 2000
_N_GALLERY = 20_000
_N_NEIGHBORS = 10
# Samples that neighbours agree on less than this are no groups with noise around them …
_LOOSE = 0.6
# … and of tighter ones this much of the variance is noise, for each point of agreement above it.
_NOISE_RATE = 3.7
# An axis on which neighbours agree nearly as well as on the average is no noise.
_NEARLY = 0.9
# In the length of a vector an axis counts by its standard deviation to this power.
_LENGTH_POWER = 0.5


class Axes(NamedTuple):
    """The principal axes of vectors."""

    center: Tensor
    """``(d,)``."""
    directions: Tensor
    """``(d, r)``, strongest first."""
    variances: Tensor
    """``(r,)``, float64."""

    def projection(self, kept: Tensor, *, whitening: float | None = None) -> Projection:
        """Centre and some axes as the backbone of a head.

        Vectors get one length. With a ``whitening``, this is measured along strong axes before the
        axes are stretched: a sample unlike the others, such as a short question among long answers,
        lies mostly along weak ones, and would otherwise seem to have less of every feature.

        Args:
            kept: The numbers of the axes.
            whitening: As for :meth:`scales`; None stretches no axis.
        """
        projection = Projection(len(self.center), len(kept))
        projection.center.copy_(self.center)
        projection.axes.copy_(self.directions[:, kept])
        if whitening is not None:
            strong, wanted = self.scales(kept, -_LENGTH_POWER), self.scales(kept, whitening)
            projection.axes.mul_(strong)
            share = (self.variances[kept] / self.variances[kept].sum()).float()
            # Entries of the hidden vectors are of size 1, as without stretching.
            size = ((share * strong.square()).sum() / (share * wanted.square()).sum()).sqrt()
            projection.stretch.copy_(wanted / strong * size)
        return projection

    def scales(self, kept: Tensor, whitening: float) -> Tensor:
        """What each axis is multiplied by, ``(len(kept),)``.

        Its standard deviation, as a share of that of the strongest, to the power of minus
        ``whitening``: 0 leaves axes as they are, 1 makes all of them alike, below 0 strong axes
        become stronger.
        """
        return (self.variances[kept] / self.variances[0]).pow(-whitening / 2).float()

    def agreement(self, X: Any, seed: int) -> Tensor:  # noqa: ANN401
        """How far neighbours agree along each axis, ``(r,)`` in [0, 1].

        Args:
            X: The vectors ``(n, d)``: an array, a memory map or SciPy CSR.
            seed: Of the samples that are compared, and of the axes to find neighbours by.
        """
        generator = torch.Generator().manual_seed(seed)
        some = torch.randperm(X.shape[0], generator=generator)[:_N_GALLERY].sort().values
        positions = _positions(X, some, self.center, self.directions)  # (n, r)
        # A power of two changes no digit, and keeps squares within float32.
        scale = 2.0 ** round(math.log2(float(self.variances[0])) / 2)
        variances = (self.variances / scale**2).float()
        return neighbor_correlation(positions / scale, variances, generator)

    def stability(self, X: Any, seed: int) -> float:  # noqa: ANN401
        """How far large groups of samples are found again, see :func:`group_stability`.

        Args:
            X: The vectors ``(n, d)``: an array, a memory map or SciPy CSR.
            seed: Of the samples that are compared, and of the groups.
        """
        generator = torch.Generator().manual_seed(seed)
        some = torch.randperm(X.shape[0], generator=generator)[:_MOST_GROUPED]
        positions = _positions(X, some, self.center, self.directions[:, :_GROUPED_AXES])
        return group_stability(unit_rows(positions).numpy(), seed)

    def kept(
        self, denoise: str | int, agreement: Tensor, *, shape: tuple[int, int], name: str = "X"
    ) -> Tensor:
        """The numbers of the axes to keep, int64.

        Args:
            denoise: ``"auto"`` (see :func:`kept_axes`), ``"none"`` for all axes, or their number.
            agreement: Of neighbours along each axis; only ``"auto"`` looks at it.
            shape: Of the vectors.
            name: What errors call them.
        """
        n_found = len(self.variances)
        if denoise == "auto":
            return kept_axes(self.variances, agreement)
        n_kept = n_found if denoise == "none" else int(denoise)
        if n_kept > n_found:
            raise ValueError(
                f"denoise={denoise} asks for more principal axes than the {n_found} found in the "
                f"{shape[0]} rows and {shape[1]} columns of {name}; lower it, or set "
                "denoise='none' to keep all"
            )
        return torch.arange(n_kept)


def clustering(variances: Tensor, agreement: Tensor) -> float:
    """How far neighbours agree: near 1 for tight groups, near 0 where each sample is on its own.

    The mean over axes of their agreement, weighted by variance.

    Example:
        >>> clustering(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 0.0]))
        0.75
    """
    return float((agreement * variances).sum() / variances.sum())


def kept_axes(variances: Tensor, agreement: Tensor) -> Tensor:
    """The numbers of the axes that are not noise, int64.

    Where samples come in tight groups, what they differ by inside a group is noise for whoever
    looks for groups. Where they do not, every detail may count, and all axes are kept. In between
    a share ``3.7 (clustering - 0.6)`` of the variance is noise, but no more than neighbours do not
    agree on: the strongest axes with the rest of it are kept, and those on which neighbours agree
    nearly as well as on the average.

    Args:
        variances: Of the axes, falling ``(r,)``.
        agreement: Of neighbours along each, ``(r,)`` in [0, 1].

    Example:
        >>> variances = torch.tensor([4.0, 4.0, 1.0, 1.0])
        >>> kept_axes(variances, torch.tensor([0.5, 0.5, 0.1, 0.1])).tolist()
        [0, 1, 2, 3]
        >>> kept_axes(variances, torch.tensor([1.0, 1.0, 0.1, 0.1])).tolist()
        [0, 1, 2]
    """
    overall = clustering(variances, agreement)
    share = variances / variances.sum()
    before = share.cumsum(0) - share
    noise = min(_NOISE_RATE * max(0.0, overall - _LOOSE), 1 - overall)
    is_strong = before < 1 - noise
    return (is_strong | (agreement >= _NEARLY * overall)).nonzero()[:, 0]


def fitted_projection(
    X: Any,  # noqa: ANN401
    denoise: str | int,
    seed: int,
    name: str = "X",
) -> Projection:
    """Centre and principal axes of the vectors, without the axes that are noise.

    Args:
        X: ``(n, d)``, an array, a memory map or SciPy CSR.
        denoise: As for :meth:`Axes.kept`.
        seed: Of the samples that are compared.
        name: What errors call the vectors.
    """
    axes = Axes(*principal_axes(X, seed, name))
    agreement = axes.agreement(X, seed) if denoise == "auto" else torch.zeros(len(axes.variances))
    return axes.projection(axes.kept(denoise, agreement, shape=X.shape, name=name))


def _positions(X: Any, rows: Tensor, center: Tensor, axes: Tensor) -> Tensor:  # noqa: ANN401
    """Some rows on the axes, ``(n, r)``, without holding all of their columns at once."""
    step = max(1, TILE_ENTRIES // X.shape[1])
    return torch.cat([(dense_rows(X, part.numpy()) - center) @ axes for part in rows.split(step)])


def neighbor_correlation(
    positions: Tensor, variances: Tensor, generator: torch.Generator
) -> Tensor:
    """How well neighbours agree along each axis, found by other axes only, ``(r,)`` in [0, 1].

    The axes are split by chance into halves; neighbours by cosine in one half are compared in the
    other. With one axis there is no other to find neighbours by, and the answer is 0.
    """
    n_samples, n_axes = positions.shape
    correlation = torch.zeros(n_axes)
    queries = torch.randperm(n_samples, generator=generator)[:_N_QUERIES]
    k = min(_N_NEIGHBORS, n_samples - 1)
    order = torch.randperm(n_axes, generator=generator)
    halves = order[: n_axes // 2], order[n_axes // 2 :]
    for found_by, compared in (halves, halves[::-1]):
        if not len(found_by):
            continue
        nearest = exact_neighbors(positions[:, found_by], queries, k)  # (queries, k)
        there = positions[:, compared]
        around = there[nearest.flatten()].view(len(queries), k, -1).mean(dim=1)
        correlation[compared] = (there[queries] * around).mean(dim=0) / variances[compared]
    return correlation.clamp(0, 1)


# Large groups are looked for in halves of so many samples, on the strongest axes, so many times.
_N_GROUPED, _MOST_GROUPED = 1200, 4000
_GROUPED_AXES = 64
_N_SPLITS = 8
# So many groups: of fewer, every set has some that are found again along its strongest axis.
_N_GROUPS = (5, 6, 8)
_N_STARTS = 4
# After two draws, a stability below this is not going to be a high one.
_HOPELESS = 0.6
# Of fewer samples halves agree or disagree by chance.
_LEAST_GROUPED = 200


def group_stability(rows: FloatArray, seed: int) -> float:
    """How far the large groups of one half of the samples are those of the other half.

    Five, six and eight groups by k-means are found in either half; every sample belongs to a group
    of both. The adjusted Rand index of the two divisions, mean over draws of the halves, is near 1
    for the best of the three numbers where samples fall into a few large groups, and .4 to .7 where
    they do not. It is 0 for fewer than 200 samples.

    Args:
        rows: Unit rows ``(n, r)``.
        seed: Of the draws and of k-means.

    Example:
        >>> rows = np.repeat(np.eye(5), 50, axis=0)
        >>> group_stability(rows, seed=0)
        1.0
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import adjusted_rand_score

    if len(rows) < _LEAST_GROUPED:
        return 0.0
    found: dict[int, list[float]] = {k: [] for k in _N_GROUPS}
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than groups
        for split in range(_N_SPLITS):
            if split == 2 and _best_mean(found) < _HOPELESS:
                break
            some = rows[rng.permutation(len(rows))[:_N_GROUPED]]
            halves = np.array_split(some, 2)
            for k, scores in found.items():
                first, second = (
                    KMeans(k, n_init=_N_STARTS, random_state=seed).fit(half).predict(some)
                    for half in halves
                )
                scores.append(float(adjusted_rand_score(first, second)))
    return _best_mean(found)


def _best_mean(found: dict[int, list[float]]) -> float:
    return max(float(np.mean(scores)) for scores in found.values())
