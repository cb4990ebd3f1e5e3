"""Worlds: how often samples form pairs, known exactly; latent classes and random worlds."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from nonneg.factorization.checking import (
    FloatArray,
    IntArray,
    Matrix,
    MatrixLike,
    checked_joint,
    checked_likelihood,
    checked_matrix,
    checked_prior,
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


class LatentWorld(World):
    """A class is drawn, then two samples of it: ``P(x, x') = Σ_c P(c) P(x|c) P(x'|c)``.

    The joint is only computed when it is asked for; drawing pairs does not need it.

    Args:
        prior: P(c) ``(m,)``, each above zero.
        likelihood: P(x|c) ``(n, m)``, dense or sparse, every column a distribution.

    Example:
        Two classes of two samples each:

        >>> halves = LatentWorld([0.5, 0.5], [[0.5, 0], [0.5, 0], [0, 0.5], [0, 0.5]])
        >>> halves.joint[0]
        array([0.125, 0.125, 0.   , 0.   ])
    """

    def __init__(self, prior: ArrayLike, likelihood: MatrixLike) -> None:
        self.prior = checked_prior(prior)
        self.likelihood = checked_likelihood(likelihood, len(self.prior))

    @property
    def n_classes(self) -> int:
        """How many latent classes there are."""
        return len(self.prior)

    @cached_property
    def joint(self) -> Matrix:
        """P(x, x'), ``(n, n)``; sparse if the likelihood is."""
        half = _scaled_columns(self.likelihood, np.sqrt(self.prior))
        return _product(half, half)

    @cached_property
    def marginals(self) -> tuple[FloatArray, FloatArray]:
        """P(x) ``(n,)``, twice: both samples of a pair are alike."""
        marginal = np.asarray(self.likelihood @ self.prior)
        return marginal, marginal

    @cached_property
    def posterior(self) -> Matrix:
        """P(c|x), ``(n, m)``; sparse if the likelihood is."""
        together = _scaled_columns(self.likelihood, self.prior)
        if isinstance(together, np.ndarray):
            shares: FloatArray = together / self.marginal[:, None]
            return shares
        return sparse.csr_array(sparse.diags_array(1 / self.marginal) @ together)

    def among(self, samples: ArrayLike) -> "LatentWorld":
        """The world that is left when only some samples can be drawn.

        Every class keeps its prior; P(x|c) is that of x given that it is one of them.

        Args:
            samples: Their numbers ``(k,)``; each class must make at least one of them.
        """
        kept = np.asarray(samples, dtype=np.int64)
        rows = self.likelihood[kept]
        mass = np.asarray(rows.sum(axis=0))
        if not (mass > 0).all():
            raise ValueError(
                f"class {int(np.argmin(mass))} makes none of the chosen samples; choose others"
            )
        return LatentWorld(self.prior, _scaled_columns(rows, 1 / mass))

    def draw_pairs(self, n_pairs: int, rng: np.random.Generator) -> IntArray:
        """Independent draws of pairs, sample numbers ``(2, n_pairs)``."""
        starts, samples, cumulative = self._columns
        drawn = rng.random(n_pairs) * self.prior.sum()
        classes = np.searchsorted(np.cumsum(self.prior), drawn, side="right")
        classes = np.minimum(classes, self.n_classes - 1)
        # Column c of the likelihood fills the stretch from c to c + 1 of one long cumulative sum.
        places = np.searchsorted(cumulative, classes + rng.random((2, n_pairs)), side="right")
        drawn_samples: IntArray = samples[np.clip(places, starts[classes], starts[classes + 1] - 1)]
        return drawn_samples

    @cached_property
    def _columns(self) -> tuple[IntArray, IntArray, FloatArray]:
        columns = sparse.csc_array(self.likelihood)
        columns.eliminate_zeros()
        return (
            np.asarray(columns.indptr, dtype=np.int64),
            np.asarray(columns.indices, dtype=np.int64),
            np.cumsum(columns.data),
        )


def latent_cross_world(
    prior: ArrayLike, likelihood_a: MatrixLike, likelihood_b: MatrixLike
) -> CrossWorld:
    """A class is drawn, then a sample of each kind: ``P(x, y) = Σ_c P(c) P(x|c) P(y|c)``.

    Args:
        prior: P(c) ``(m,)``.
        likelihood_a: P(x|c) ``(n_a, m)``.
        likelihood_b: P(y|c) ``(n_b, m)``.

    Example:
        >>> latent_cross_world([1.0], [[0.5], [0.5]], [[0.25], [0.75]]).joint
        array([[0.125, 0.375],
               [0.125, 0.375]])
    """
    classes = checked_prior(prior)
    a = checked_likelihood(likelihood_a, len(classes), "likelihood_a")
    b = checked_likelihood(likelihood_b, len(classes), "likelihood_b")
    return CrossWorld(_product(_scaled_columns(a, classes), b))


def _scaled_columns(matrix: Matrix, factors: FloatArray) -> Matrix:
    if isinstance(matrix, np.ndarray):
        scaled: FloatArray = matrix * factors
        return scaled
    return sparse.csr_array(matrix @ sparse.diags_array(factors))


def _product(left: Matrix, right: Matrix) -> Matrix:
    """``left @ right.T``, sparse only if both are."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        dense: FloatArray = np.asarray(left @ right.T)
        return dense
    return sparse.csr_array(left @ right.T)


def random_world(
    n_samples: int,
    n_classes: int,
    rng: np.random.Generator,
    *,
    concentration: float = 0.5,
    blur: float = 0.0,
) -> LatentWorld:
    """A latent-class world with unequal classes and samples, and an anchor for each class.

    The first ``n_classes`` samples are anchors: sample c is made by class c only. The posteriors
    of the others are Dirichlet draws.

    Args:
        n_samples: At least ``n_classes``.
        n_classes: How many latent classes.
        rng: Where the draws come from.
        concentration: Of the Dirichlet distribution: 1 spreads posteriors evenly over the simplex,
            at 0 every sample belongs to one class and classes do not overlap.
        blur: Share of every class that is replaced by an equal mix of all classes. Above 0 no
            sample is an anchor any more; at 1 all classes are the same.

    Example:
        >>> world = random_world(50, 3, np.random.default_rng(0))
        >>> world.posterior[:3].round(12)
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """
    if not 1 <= n_classes <= n_samples:
        raise ValueError(
            f"{n_classes} classes cannot each have an anchor among {n_samples} samples; "
            "give at least one class and as many samples as classes"
        )
    if not 0 <= blur <= 1:
        raise ValueError(f"blur is {blur}; it is a share between 0 and 1")
    if concentration < 0:
        raise ValueError(f"concentration is {concentration}; it must be at least 0")
    n_others = n_samples - n_classes
    if concentration:
        others = rng.dirichlet(np.full(n_classes, concentration), size=n_others)
    else:
        others = np.eye(n_classes)[rng.integers(n_classes, size=n_others)]
    posterior = np.vstack([np.eye(n_classes), others])
    weights = 0.2 + rng.gamma(2.0, 1.0, size=(n_samples, 1))
    together = posterior * weights / weights.sum()  # P(x, c)
    prior = together.sum(axis=0)
    mixing = (1 - blur) * np.eye(n_classes) + blur / n_classes
    return LatentWorld(prior, together / prior @ mixing)


def purity(world: LatentWorld) -> float:
    """How near the world is to having anchors: ``max_x P(c|x)``, mean over classes.

    1 if every class has a sample that only it makes.

    Example:
        >>> purity(LatentWorld([0.5, 0.5], [[0.5, 0.0], [0.5, 1.0]]))  # 1 and 2/3
        0.8333333333333333
    """
    posterior = world.posterior
    strongest = posterior.max(axis=0)
    dense = strongest if isinstance(strongest, np.ndarray) else strongest.toarray()
    return float(dense.mean())
