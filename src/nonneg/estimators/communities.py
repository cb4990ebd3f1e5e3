"""Which non-negative F reproduces a graph as F Fᵀ? Turned eigenvectors, then exact descent."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import lobpcg

from nonneg.factorization import World, train_table
from nonneg.factorization.checking import FloatArray, Matrix
from nonneg.factorization.population import factor_of
from nonneg.factorization.symmetric_nmf import eigen_factor, random_factor

# How hard the two copies of F are pulled together, in mean squared lengths of their columns.
_PULL = 0.5
# The search for eigenvectors, and how many times more nodes than features it needs.
_EIGEN_STEPS = 20
_EIGEN_TOLERANCE = 1e-3
_SMALL = 5
_N_TURNS = 100
_MIN_BATCH = 1024
_TINY = 1e-12


class Descent(NamedTuple):
    """Where the descent ended."""

    factor: FloatArray
    """F ``(n, d)``, non-negative."""
    n_steps: int
    """Sweeps over all features that were made."""


def turned_eigenvectors(world: World, n_features: int, rng: np.random.Generator) -> FloatArray:
    """A non-negative start ``(n, d)``: the best factor of any sign, turned to be sparse, cut at 0.

    The best signed factor, eigenvectors times the roots of their eigenvalues, is right up to a
    rotation. Communities are where its rows crowd along few directions, so the rotation that makes
    entries either large or small (varimax, Kaiser 1958) finds them all at once (Rohe and Zeng
    2023), where a random start often leaves two communities in one feature.

    Args:
        world: Of the graph, with n nodes.
        n_features: Below n.
        rng: Draws where eigenvectors are searched from.
    """
    factor = _signed_factor(world.normalized, n_features, rng)
    turned = factor @ varimax(factor, rng)
    # A feature and its opposite are as good to varimax; the long tail is the community.
    turned *= np.where((turned**3).sum(axis=0) < 0, -1, 1)
    start: FloatArray = np.maximum(turned, 0)
    return start


def sampled_table(world: World, n_features: int, rng: np.random.Generator) -> FloatArray:
    """A non-negative start ``(n, d)`` that has learnt from drawn edges, as a network would.

    Batches grow with the graph, so that a node is drawn about twice in each.
    """
    n_pairs = max(_MIN_BATCH, world.n_samples)
    return factor_of(train_table(world, n_features, rng, batch_size=n_pairs), world)


def random_table(world: World, n_features: int, rng: np.random.Generator) -> FloatArray:
    """A non-negative start ``(n, d)`` that knows only how many edges there are."""
    return random_factor(world.normalized, n_features, rng)


STARTS: dict[str, Callable[[World, int, np.random.Generator], FloatArray]] = {
    "eigenvectors": turned_eigenvectors,
    "sampling": sampled_table,
    "random": random_table,
}


def varimax(factor: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The rotation ``(d, d)`` after which the squares of a factor's entries vary most.

    Args:
        factor: ``(n, d)``.
        rng: Draws the rotation to begin with: eigenvectors of communities of one size stand
            halfway between them, where the slope is zero.

    Example:
        Two directions at 45° to the axes are turned onto them:

        >>> rng = np.random.default_rng(0)
        >>> factor = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, -1.0], [3.0, -3.0]])
        >>> (np.abs(factor @ varimax(factor, rng)) > 0.1).sum(axis=1)
        array([1, 1, 1, 1])
    """
    n_features = factor.shape[1]
    rotation: FloatArray = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    before = 0.0
    for _ in range(_N_TURNS):
        turned = factor @ rotation
        slope = factor.T @ (turned**3 - turned * np.square(turned).mean(axis=0))
        left, singular, right = np.linalg.svd(slope)
        rotation = left @ right
        if singular.sum() <= before * (1 + 1e-6):
            break
        before = singular.sum()
    return rotation


def descended(
    normalized: Matrix,
    start: FloatArray,
    *,
    max_steps: int,
    tolerance: float,
) -> Descent:
    """A non-negative F ``(n, d)`` near the start at which ``||Ā - F Fᵀ||²`` is (locally) smallest.

    F is kept as two copies that are solved for in turn, column by column and exactly, and pulled
    together (hierarchical least squares; Zhu et al. 2018). A step costs as many products as the
    graph has edges, times d, and no table of n × n is made. Entries reach zero.

    Args:
        normalized: Ā ``(n, n)``, sparse or dense, symmetric.
        start: ``(n, d)``, non-negative.
        max_steps: Most sweeps.
        tolerance: Stop when a sweep changes F by less than this share of its length.
    """
    one, two = np.asfortranarray(start), np.asfortranarray(start)
    factor, n_steps = start, 0
    while n_steps < max_steps:
        n_steps += 1
        one = _solved(normalized, one, two)
        two = _solved(normalized, two, one)
        before, factor = factor, (one + two) / 2
        if np.linalg.norm(factor - before) <= tolerance * np.linalg.norm(factor):
            break
    return Descent(np.ascontiguousarray(factor), n_steps)


def _signed_factor(normalized: Matrix, n_features: int, rng: np.random.Generator) -> FloatArray:
    """Eigenvectors times the roots of their eigenvalues ``(n, d)``, nearly.

    All are searched for at once (LOBPCG, Knyazev 2001): a search from one vector misses most of
    the equal eigenvalues that a graph of separate parts has.
    """
    n = normalized.shape[0]
    if n < _SMALL * n_features:
        return eigen_factor(normalized, n_features)
    with warnings.catch_warnings():
        # It need not be exact, since descent follows.
        warnings.simplefilter("ignore", UserWarning)
        values, vectors = lobpcg(
            normalized,
            rng.standard_normal((n, n_features)),
            largest=True,
            tol=_EIGEN_TOLERANCE,
            maxiter=_EIGEN_STEPS,
        )
    factor: FloatArray = np.asarray(vectors * np.sqrt(np.maximum(values, 0)), dtype=np.float64)
    return factor


def _solved(normalized: Matrix, factor: FloatArray, other: FloatArray) -> FloatArray:
    """The copy that is best for the other one, each column in turn."""
    factor = factor.copy(order="F")
    target = normalized @ other  # (n, d)
    gram = other.T @ other  # (d, d)
    pull = _PULL * np.trace(gram) / len(gram)
    for j in range(len(gram)):
        column = target[:, j] - factor @ gram[:, j] + factor[:, j] * gram[j, j]
        column += pull * other[:, j]
        factor[:, j] = np.maximum(column / max(gram[j, j] + pull, _TINY), 0)
    return factor
