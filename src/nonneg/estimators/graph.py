"""Which communities does a graph have? ``GraphNCL``: features of nodes, from edges alone."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from nonneg.estimators.communities import STARTS, descended
from nonneg.estimators.settings import GraphSettings
from nonneg.factorization import graph_world, spectral_population_loss
from nonneg.factorization.population import features_of

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
            apart. With more than there are, some come out in parts.
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
        n_components: int = 50,
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
            A: Weights from 0 on ``(n, n)``, symmetric; SciPy sparse or an array. A weight on the
                diagonal pairs a node with itself.
            y: Not used.
        """
        settings = GraphSettings.of(self.get_params(deep=False))
        weights = checked_graph(A)
        joined = np.flatnonzero(np.asarray(weights.sum(axis=1)) > 0)
        n_nodes = weights.shape[0]
        if settings.n_components >= len(joined):
            raise ValueError(
                f"n_components={settings.n_components} must be below the {len(joined)} nodes that "
                "have edges"
            )
        world = graph_world(weights[joined][:, joined])
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        start = STARTS[settings.start](world, settings.n_components, rng)
        found = descended(
            world.normalized, start, max_steps=settings.max_steps, tolerance=settings.tolerance
        )
        features = features_of(found.factor, world)
        self.embedding_ = np.zeros((n_nodes, settings.n_components), dtype=np.float32)
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


def checked_graph(A: Any) -> sparse.csr_array:  # noqa: ANN401
    """The graph as a CSR array of float64 without zeros, or a sentence on what is wrong.

    Example:
        >>> checked_graph([[0, 2], [2, 0]]).nnz
        2
    """
    is_sparse: bool = sparse.issparse(A)
    given = A if is_sparse else np.asarray(A)
    if len(given.shape) != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"A must be square (n, n), got shape {tuple(given.shape)}")
    weights: sparse.csr_array = sparse.csr_array(given, dtype=np.float64, copy=True)
    weights.sum_duplicates()
    weights.eliminate_zeros()
    fine = np.isfinite(weights.data) & (weights.data >= 0)
    if not fine.all():
        raise ValueError(
            f"A holds the weight {weights.data[~fine][0]}; weights are finite numbers from 0 on"
        )
    if not weights.nnz:
        raise ValueError(f"A has no edge among its {weights.shape[0]} nodes")
    difference = float(abs(weights - weights.T).max())
    if difference > _SYMMETRIC_WITHIN * float(weights.data.max()):
        raise ValueError(
            f"A is not symmetric (largest difference {difference:.3g}); for an undirected graph "
            "give A + A.T"
        )
    return weights
