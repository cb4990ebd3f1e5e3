"""What do pairs look like when a latent class makes both samples, independently of each other?"""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from nonneg.factorization.checking import (
    FloatArray,
    IntArray,
    Matrix,
    MatrixLike,
    checked_likelihood,
    checked_prior,
)
from nonneg.factorization.worlds import CrossWorld, World


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
