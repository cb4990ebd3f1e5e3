"""Which samples form pairs, and how often? Worlds in which that is known exactly."""

from functools import cached_property

import numpy as np
from scipy import sparse

from nonneg.factorization.checking import (
    FloatArray,
    IntArray,
    Matrix,
    MatrixLike,
    checked_joint,
    checked_matrix,
)


class CrossWorld:
    """Pairs of two kinds of samples, such as images and captions.

    Args:
        joint: P(x, y) ``(n_a, n_b)``, dense or sparse; sums to one, no empty row or column.

    Example:
        >>> world = CrossWorld([[0.5, 0.0], [0.0, 0.5]])
        >>> world.normalized
        array([[1., 0.],
               [0., 1.]])
    """

    _symmetric = False

    def __init__(self, joint: MatrixLike) -> None:
        self._joint = checked_joint(joint, symmetric=self._symmetric)

    @property
    def joint(self) -> Matrix:
        """P(x, y), ``(n_a, n_b)``."""
        return self._joint

    @cached_property
    def marginals(self) -> tuple[FloatArray, FloatArray]:
        """P(x) ``(n_a,)`` and P(y) ``(n_b,)``."""
        return np.asarray(self.joint.sum(axis=1)), np.asarray(self.joint.sum(axis=0))

    @cached_property
    def normalized(self) -> Matrix:
        """Ā ``(n_a, n_b)``: the joint divided by the root of both marginals."""
        rows, columns = (1 / np.sqrt(marginal) for marginal in self.marginals)
        joint = self.joint
        if isinstance(joint, np.ndarray):
            scaled: FloatArray = joint * rows[:, None] * columns
            return scaled
        return sparse.csr_array(sparse.diags_array(rows) @ joint @ sparse.diags_array(columns))

    def draw_pairs(self, n_pairs: int, rng: np.random.Generator) -> IntArray:
        """Independent draws of pairs, sample numbers ``(2, n_pairs)``."""
        rows, columns, cumulative = self._entries
        # Scaled by the last entry, which rounding leaves a little off one.
        drawn = np.searchsorted(cumulative, rng.random(n_pairs) * cumulative[-1], side="right")
        return np.stack([rows[drawn], columns[drawn]])

    @cached_property
    def _entries(self) -> tuple[IntArray, IntArray, FloatArray]:
        entries = sparse.coo_array(self.joint)
        entries.eliminate_zeros()
        rows, columns = (np.asarray(side, dtype=np.int64) for side in (entries.row, entries.col))
        return rows, columns, np.cumsum(entries.data)


class World(CrossWorld):
    """Pairs of samples of one kind.

    Args:
        joint: P(x, x') ``(n, n)``, dense or sparse; symmetric, sums to one, no empty row.

    Example:
        >>> World([[0.25, 0.25], [0.25, 0.25]]).marginal
        array([0.5, 0.5])
    """

    _symmetric = True

    @property
    def marginal(self) -> FloatArray:
        """P(x), ``(n,)``."""
        return self.marginals[0]

    @property
    def n_samples(self) -> int:
        """Of the world."""
        return len(self.marginal)


def graph_world(adjacency: MatrixLike) -> World:
    """The world whose pairs are the edges of an undirected graph, drawn by weight.

    P(x) is then the degree of a node over the sum of degrees, and Ā the normalised adjacency
    matrix. A loop pairs a node with itself.

    Args:
        adjacency: Weights ``(n, n)``, symmetric, at least one edge at every node.

    Example:
        >>> graph_world([[0, 1, 0], [1, 0, 1], [0, 1, 0]]).marginal
        array([0.25, 0.5 , 0.25])
    """
    weights = checked_matrix(adjacency, "adjacency")
    if weights.shape[0] != weights.shape[1]:
        raise ValueError(f"adjacency has shape {weights.shape}; a graph needs a square table")
    degrees = np.asarray(weights.sum(axis=1))
    if not (degrees > 0).all():
        raise ValueError(f"node {int(np.argmin(degrees))} has no edge; leave it out")
    checked_joint(weights / degrees.sum(), symmetric=True, name="adjacency")
    return World(weights / degrees.sum())
