"""Where positives come from: one source of pairs for each value of ``pairs``."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse
from torch import Tensor

from nonneg.estimators.parameters import NCLSettings
from nonneg.estimators.vectors import check_none_missing, from_torch
from nonneg.pairs.neighbours import NeighborPairs, nearest_neighbors
from nonneg.pairs.protocol import Pairs
from nonneg.pairs.relations import GraphPairs, LabelPairs, NoisePairs, given_pairs


class Given(NamedTuple):
    """What ``fit`` was given besides the vectors."""

    y: ArrayLike | None
    graph: Any
    index_pairs: ArrayLike | None


def partners(settings: NCLSettings, hidden: Tensor, given: Given) -> Pairs:
    """The pairs to learn from, by the rows of the hidden vectors ``(n, h)``.

    Raises:
        ValueError: What the chosen source needs is missing, or of another size than X.
    """
    unused = {"graph": given.graph, "index_pairs": given.index_pairs}
    unused.pop({"graph": "graph", "index": "index_pairs"}.get(settings.pairs, ""), None)
    for name, value in unused.items():
        if value is not None:
            raise ValueError(
                f"{name} was given, but pairs={settings.pairs!r} does not use it; set "
                f"pairs={'graph' if name == 'graph' else 'index'!r}"
            )
    return _SOURCES[settings.pairs](settings, hidden, given)


def _neighbors(settings: NCLSettings, hidden: Tensor, _given: Given) -> Pairs:
    found = nearest_neighbors(hidden, settings.n_neighbors)
    if settings.n_neighbors > len(hidden) / 2:
        warnings.warn(
            f"n_neighbors={settings.n_neighbors} makes more than half of the {len(hidden)} samples "
            "partners of each; lower it, or only little can be told apart",
            stacklevel=5,
        )
    return NeighborPairs(found)


def _noise(settings: NCLSettings, _hidden: Tensor, _given: Given) -> Pairs:
    return NoisePairs(settings.noise)


def _labels(_settings: NCLSettings, hidden: Tensor, given: Given) -> Pairs:
    if given.y is None:
        raise ValueError(
            'pairs="labels" requires y to be passed, but the target y is None; call fit(X, y)'
        )
    labels = np.asarray(given.y)
    if labels.shape != (len(hidden),):
        raise ValueError(f"y must have shape ({len(hidden)},), got {labels.shape}")
    try:
        # As objects: an array of words would turn a NaN among them into a word.
        check_none_missing(np.asarray(given.y, dtype=object).tolist(), "y")
        _, numbers = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError(
            "y mixes labels that cannot be compared, as words and numbers; give all of one type"
        ) from None
    if not numbers.any():
        raise ValueError("y has one class only, so nothing can be told apart; give two or more")
    return LabelPairs(torch.from_numpy(numbers))


def _graph(_settings: NCLSettings, hidden: Tensor, given: Given) -> Pairs:
    if given.graph is None:
        raise ValueError('pairs="graph" needs a graph: call fit(X, graph=A)')
    pairs = GraphPairs(_as_sparse(given.graph))
    if pairs.n_samples != len(hidden):
        raise ValueError(
            f"graph has {pairs.n_samples} nodes, but X has {len(hidden)} rows; give one node a row"
        )
    return pairs


def _as_sparse(graph: Any) -> Any:  # noqa: ANN401
    """Weights ``(n, n)`` as SciPy sparse, where they are an array or a tensor."""
    is_sparse: bool = sparse.issparse(graph)
    if is_sparse:
        return graph
    weights = np.asarray(from_torch(graph))
    if weights.ndim != 2:
        raise ValueError(f"graph must be square (n, n), got shape {weights.shape}")
    return sparse.csr_array(weights)


def _index(_settings: NCLSettings, hidden: Tensor, given: Given) -> Pairs:
    if given.index_pairs is None:
        raise ValueError('pairs="index" needs pairs: call fit(X, index_pairs=ij)')
    return given_pairs(given.index_pairs, len(hidden))


_SOURCES: dict[str, Callable[[NCLSettings, Tensor, Given], Pairs]] = {
    "neighbors": _neighbors,
    "noise": _noise,
    "labels": _labels,
    "graph": _graph,
    "index": _index,
}
