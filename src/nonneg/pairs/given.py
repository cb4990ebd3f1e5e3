"""Which samples did the user pair? A list of index pairs, read both ways."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from nonneg.pairs.graph import GraphPairs


def given_pairs(index_pairs: ArrayLike, n_samples: int) -> GraphPairs:
    """Pairs that are exactly those of a list: each of its two samples is the other's partner.

    A pair that is listed twice is drawn twice as often. A sample in no pair is paired with itself;
    a pair of a sample with itself counts as any other.

    Args:
        index_pairs: Whole numbers ``(n_pairs, 2)``, each from 0 to ``n_samples - 1``.
        n_samples: How many samples there are.

    Example:
        >>> given_pairs([[0, 1], [1, 2]], n_samples=4).n_alone
        1
    """
    pairs = np.asarray(index_pairs)
    if not pairs.size:
        raise ValueError("index_pairs holds no pairs, so there is nothing to learn from; list some")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"index_pairs must be whole numbers of shape (n_pairs, 2), got {pairs.dtype} of shape "
            f"{pairs.shape}"
        )
    wrong = pairs[(pairs < 0) | (pairs >= n_samples)]
    if wrong.size:
        raise ValueError(
            f"index_pairs names sample {wrong[0]}, but samples are numbered 0 to {n_samples - 1}"
        )
    back = pairs[pairs[:, 0] != pairs[:, 1], ::-1]
    rows, columns = np.concatenate([pairs, back]).T
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n_samples, n_samples))
    return GraphPairs(graph)
