"""``GraphNCL``: communities of a graph as features of its nodes."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lobpcg
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import validate_data

from nonneg.estimators.inputs import GraphSettings, from_torch
from nonneg.factorization.checking import FloatArray, Matrix
from nonneg.factorization.population import factor_of, features_of, spectral_population_loss
from nonneg.factorization.solvers import eigen_factor, random_factor, train_table
from nonneg.factorization.worlds import World, graph_world

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


def descend(
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
        one = _best_copy(normalized, one, two)
        two = _best_copy(normalized, two, one)
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


def _best_copy(normalized: Matrix, factor: FloatArray, other: FloatArray) -> FloatArray:
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


_AUTO_FEATURES = 50
_ACCEPTED = {
    "accept_sparse": "csr",
    "dtype": "numeric",
    "ensure_2d": False,
    "allow_nd": True,
    "ensure_all_finite": False,
}
# Two directions of an edge may differ by this share of the largest weight: rounding.
_SYMMETRIC_WITHIN = 1e-6


class GraphNCL(BaseEstimator):  # type: ignore[misc]
    """Overlapping communities of a graph: a table of non-negative features, one row a node.

    Two nodes belong together if an edge joins them, as often as its weight says. The table is the
    one with the smallest spectral contrastive loss on these pairs, which is the symmetric
    non-negative factorisation of the normalised adjacency matrix (Wang et al. 2024). It is learnt
    by drawing edges, or started from eigenvectors, and then brought down by exact steps over all
    edges; no table of n × n is made.

    Args:
        n_components: Number of features, below the number of nodes: the communities to tell
            apart. With more than there are, some come out in parts. ``"auto"``: 50, but at most
            half of the nodes that have edges, as a community has two nodes or more.
        start: What the exact steps begin with: ``"sampling"`` (stochastic gradient descent on
            drawn edges), ``"eigenvectors"`` (turned to be sparse) or ``"random"``.
        max_steps: Most exact steps; 0 leaves the start as it is.
        tolerance: Stop when a step changes the features by less than this share.
        random_state: Seed or generator of everything drawn.

    Attributes:
        embedding_: Features of the nodes, float32 ``(n, n_components)``, non-negative: about
            ``P(c|x) / sqrt(P(c))`` for node x and community c. A node without edges has zeros.
        n_isolated_: Nodes without edges.
        loss_: The spectral contrastive loss over all edges; lower is better.
        n_iter_: Exact steps taken.
        n_features_in_: Nodes.

    Example:
        Two triangles that share one node:

        >>> A = np.zeros((5, 5))
        >>> for i, j in [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)]:
        ...     A[i, j] = A[j, i] = 1
        >>> (GraphNCL(n_components=2, random_state=0).fit(A).embedding_ > 0.5).sum(axis=1)
        array([1, 1, 2, 1, 1])
    """

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        start: str = "eigenvectors",
        max_steps: int = 200,
        tolerance: float = 1e-3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.start = start
        self.max_steps = max_steps
        self.tolerance = tolerance
        self.random_state = random_state

    def fit(self, A: Any, y: None = None) -> Self:  # noqa: ANN401
        """Learn the features of the nodes.

        Args:
            A: Weights from 0 on ``(n, n)``, symmetric; SciPy sparse, an array or a data frame. A
                weight on the diagonal pairs a node with itself.
            y: Not used.
        """
        settings = GraphSettings.of(self.get_params(deep=False))
        # What is no square of finite numbers from 0 on is refused below, in words of graphs.
        given = validate_data(self, from_torch(A), ensure_min_samples=2, **_ACCEPTED)
        weights = checked_graph(given)
        joined = np.flatnonzero(np.asarray(weights.sum(axis=1)) > 0)
        n_nodes = weights.shape[0]
        asked, most = settings.n_components, max(1, len(joined) // 2)
        n_features = min(_AUTO_FEATURES, most) if asked == "auto" else asked
        if n_features >= len(joined):
            raise ValueError(
                f"n_components={n_features} must be below the {len(joined)} nodes that have edges"
            )
        world = graph_world(weights[joined][:, joined])
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        start = STARTS[settings.start](world, n_features, rng)
        found = descend(
            world.normalized, start, max_steps=settings.max_steps, tolerance=settings.tolerance
        )
        features = features_of(found.factor, world)
        self.embedding_ = np.zeros((n_nodes, n_features), dtype=np.float32)
        self.embedding_[joined] = features
        self.loss_ = spectral_population_loss(features, world)
        self.n_iter_ = found.n_steps
        self.n_isolated_ = n_nodes - len(joined)
        self.n_features_in_ = n_nodes
        if self.n_isolated_:
            warnings.warn(
                f"{self.n_isolated_} of {n_nodes} nodes have no edge: their features are zero",
                stacklevel=2,
            )
        return self

    def fit_transform(self, A: Any, y: None = None) -> NDArray[np.float32]:  # noqa: ANN401
        """The features of the nodes, ``embedding_``."""
        features: NDArray[np.float32] = self.fit(A).embedding_
        return features

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True  # rows and columns are nodes
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        return tags


def checked_graph(A: Any) -> sparse.csr_array:  # noqa: ANN401
    """The graph as a CSR array of float64 without zeros, or a sentence on what is wrong.

    Example:
        >>> checked_graph([[0, 2], [2, 0]]).nnz
        2
    """
    is_sparse: bool = sparse.issparse(A)
    given: Any = sparse.csr_array(A) if is_sparse else np.asarray(A)
    _check_weights(given.data if is_sparse else given)
    if len(given.shape) != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"A must be square (n, n), got shape {tuple(given.shape)}")
    weights: sparse.csr_array = sparse.csr_array(given, dtype=np.float64, copy=True)
    weights.sum_duplicates()
    weights.eliminate_zeros()
    if not weights.nnz:
        raise ValueError(f"A has no edge among its {weights.shape[0]} nodes")
    difference = float(abs(weights - weights.T).max())
    if difference > _SYMMETRIC_WITHIN * float(weights.data.max()):
        raise ValueError(
            f"A is not symmetric (largest difference {difference:.3g}); for an undirected graph "
            "give A + A.T"
        )
    return weights


def _check_weights(weights: Any) -> None:  # noqa: ANN401
    # Both sentences begin with words that scikit-learn's checks look for.
    if not np.isfinite(weights).all():
        raise ValueError("A holds NaN or infinity; weights are finite numbers from 0 on")
    if (weights < 0).any():
        raise ValueError(
            f"Negative values in data: A holds the weight {weights.min()}; weights are finite "
            "numbers from 0 on"
        )
