"""Groups: features that fire together, as a tree, and samples with like features, as clusters."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from sklearn.utils.validation import check_is_fitted

from nonneg.estimators.words import telling_words
from nonneg.head.curation import Curation
from nonneg.metrics.activity import ACTIVE_THRESHOLD, active_counts
from nonneg.metrics.correlation import cosine_block, unit_column_blocks
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.rows import unit_rows

# A tree of more features takes more memory and time than a reader of it has patience.
MOST_IN_TREE = 8192
# Where k is not given, it is chosen on so many samples, of numbers that grow by this factor.
_MOST_TRIED = 4000
_GROWTH = 1.3
_MOST_CLUSTERS = 200
# How many of a cluster's strongest features name it.
_N_NAMED = 3


def column_cosines(Z: FeatureLike, which: IntArray) -> NDArray[np.float32]:
    """Absolute cosines between the columns of some features, ``(k, k)``.

    Args:
        Z: Features ``(n, d)``.
        which: Numbers of features ``(k,)``; a dead one has cosine 0 with all, itself too.

    Example:
        >>> column_cosines([[3, 1], [4, 0]], np.array([0, 1])).round(3).tolist()
        [[1.0, 0.6000000238418579], [0.6000000238418579, 1.0]]
    """
    features = checked_features(Z)
    chosen = torch.from_numpy(which)
    cosines = np.zeros((len(which), len(which)), dtype=np.float32)
    for here, first in unit_column_blocks(features, chosen):
        for there, second in unit_column_blocks(features, chosen):
            cosines[here, there] = cosine_block(first, second).abs_().cpu().numpy()
    return cosines


def coactivation_tree(cosines: NDArray[np.floating]) -> FloatArray:
    """SciPy's linkage of features ``(m - 1, 4)``: two groups join at one minus their mean cosine.

    Args:
        cosines: Between the columns of m features ``(m, m)``; one feature gives no rows.

    Example:
        >>> coactivation_tree(np.array([[1, 0.75, 0], [0.75, 1, 0], [0, 0, 1]])).tolist()
        [[0.0, 1.0, 0.25, 2.0], [2.0, 3.0, 1.0, 3.0]]
    """
    if len(cosines) < 2:
        return np.zeros((0, 4))
    distance = np.clip(1 - np.asarray(cosines, dtype=np.float64), 0, 1)
    np.fill_diagonal(distance, 0)
    tree: FloatArray = linkage(squareform((distance + distance.T) / 2, checks=False), "average")
    return tree


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree of the features that are on for some sample.

    Args:
        features: Their numbers ``(m,)``, the one that is on most often first.
        linkage: As SciPy has it ``(m - 1, 4)``; leaf i is ``features[i]``, and the third column is
            one minus the mean cosine of the two groups that join.
        names: Of the features, in the order of ``features``; empty ones where there are none.
    """

    features: IntArray
    linkage: FloatArray
    names: tuple[str, ...]

    def cut(self, k: int | None = None, *, cosine: float | None = None) -> list[list[int]]:
        """Groups of feature numbers, the group of the first feature first.

        Args:
            k: How many groups.
            cosine: Instead of k: groups join down to this mean cosine.

        Example:
            >>> tree = coactivation_tree(np.array([[1, 0.75, 0], [0.75, 1, 0], [0, 0, 1]]))
            >>> Hierarchy(np.array([4, 7, 2]), tree, ("", "", "")).cut(2)
            [[4, 7], [2]]
        """
        if (k is None) == (cosine is None):
            raise ValueError("give the number of groups k, or the cosine down to which they join")
        m = len(self.features)
        if k is None:
            k = m - int((self.linkage[:, 2] <= 1 - float(cosine or 0)).sum())
        elif isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k <= m:
            raise ValueError(f"k must be a whole number from 1 to the {m} features, got {k!r}")
        if m < 2:
            return [[int(number)] for number in self.features]
        groups: dict[int, list[int]] = {}
        for number, group in zip(self.features, cut_tree(self.linkage, [k])[:, 0], strict=True):
            groups.setdefault(int(group), []).append(int(number))
        return list(groups.values())

    def __str__(self) -> str:
        """The tree as an outline, the most alike innermost; long ones end with a count."""
        names = [name or f"feature {n}" for n, name in zip(self.features, self.names, strict=True)]
        lines = _outline(self.linkage, names) if len(names) > 1 else names
        left = len(lines) - _MOST_LINES
        return "\n".join(lines if left <= 0 else [*lines[:_MOST_LINES], f"… {left} more lines"])


_MOST_LINES = 60


def _outline(tree: FloatArray, names: Sequence[str]) -> list[str]:
    """Leaves and joins, depth first; a join says its cosine."""
    lines, waiting = [], [(2 * len(names) - 2, 0)]
    while waiting:
        node, depth = waiting.pop()
        if node < len(names):
            lines.append("  " * depth + names[node])
            continue
        left, right, distance, size = tree[node - len(names)]
        lines.append("  " * depth + f"{int(size)} features, cosine {1 - distance:.2f}")
        waiting += [(int(right), depth + 1), (int(left), depth + 1)]
    return lines


@dataclass(frozen=True, eq=False)
class Clusters:
    """One label per sample.

    Args:
        labels: From 0, the largest cluster first, of equals that of the earlier sample; -1 for a
            sample without any feature ``(n,)``.
        names: Of each cluster: its strongest features' ``(k,)``.
        directions: Of each feature, among the vectors ``(n_components, n_axes)``.
        centres: Of each cluster, likewise, of length 1 ``(k, n_axes)``.
        closeness: The cosine of each sample with the centre of its cluster; 0 without one ``(n,)``.
    """

    labels: IntArray
    names: tuple[str, ...]
    directions: FloatArray
    centres: FloatArray
    closeness: FloatArray

    def closest(self, n_top: int) -> IntArray:
        """Numbers of the samples closest to each centre, closest first, then -1 ``(k, n_top)``."""
        closest = np.full((len(self.centres), n_top), -1)
        order = np.argsort(-self.closeness, kind="stable")
        for number, row in enumerate(closest):
            own = order[self.labels[order] == number][:n_top]
            row[: len(own)] = own
        return closest

    def words(
        self, texts: Sequence[str], *, n_words: int = 10, n_top: int = 200, phrases: bool = False
    ) -> list[tuple[str, ...]]:
        """For each cluster the words that tell its texts from others, best first.

        Args:
            texts: One per sample that the clusters were made of.
            n_words: At most so many per cluster; see :func:`nonneg.estimators.words.telling_words`.
            n_top: How many texts closest to the centre are read.
            phrases: Whether phrases of two words count too.
        """
        if len(texts) != len(self.labels):
            raise ValueError(
                f"texts has {len(texts)} entries for {len(self.labels)} samples; give one each"
            )
        top = self.closest(n_top)
        found = telling_words(top, texts, n_words=n_words, phrases=phrases)
        return [tuple(word for word, _ in words) for words in found]

    def assign(self, Z: FeatureLike) -> IntArray:
        """The clusters of other samples, from their features ``(n, n_components)``."""
        features = _sparse_unit_rows(Z)
        if features.shape[1] != len(self.directions):
            raise ValueError(
                f"Z has {features.shape[1]} features, the clusters were made of "
                f"{len(self.directions)}; give what transform returns"
            )
        nearest: IntArray = (_placed(features, self.directions) @ self.centres.T).argmax(axis=1)
        return np.where(np.diff(features.indptr) > 0, nearest, -1)


def cluster_samples(
    Z: FeatureLike,
    directions: ArrayLike,
    k: int | None = None,
    *,
    names: Sequence[str] = (),
    random_state: Any = 0,  # noqa: ANN401
) -> Clusters:
    """Clusters of samples by k-means, each sample at the mean direction of its features.

    Two samples of one kind may share no feature and have related ones, so features count by where
    they point: sample i lies at ``Σ_j Z_ij directions_j``, scaled to length 1.

    Args:
        Z: Features ``(n, d)``.
        directions: Of each feature ``(d, n_axes)``.
        k: How many clusters; None takes the one of some twenty numbers up to 200 with the largest
            mean silhouette, over at most 4,000 samples.
        names: Of the features, for the names of the clusters.
        random_state: Of the beginnings of k-means.

    Example:
        >>> Z = [[1, 0, 0], [2, 0, 0], [5, 0, 0], [0, 3, 0], [0, 0, 1], [0, 0, 0]]
        >>> directions = [[1, 0], [0, 1], [0, 1]]  # the last two features say the same
        >>> cluster_samples(Z, directions, 2).labels.tolist()
        [0, 0, 0, 1, 1, -1]
    """
    features, pointing = _sparse_unit_rows(Z), np.asarray(directions, dtype=np.float64)
    is_on = np.diff(features.indptr) > 0
    n_on = int(is_on.sum())
    if n_on < 2:
        raise ValueError(f"clusters need at least two samples that have a feature, got {n_on}")
    if k is not None and (isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k <= n_on):
        raise ValueError(
            f"k must be a whole number from 1 to the {n_on} samples that have a feature, got {k!r}"
        )
    features = sparse.csr_array(features[np.flatnonzero(is_on)])
    places = _placed(features, pointing)
    k = _best_number(places, random_state) if k is None else int(k)
    found = _k_means(places, k, random_state, n_init=10)
    first_members = np.array([np.append(np.flatnonzero(found == i), n_on)[0] for i in range(k)])
    order = np.lexsort((first_members, -np.bincount(found, minlength=k)))
    place = np.argsort(order)
    labels = np.full(len(is_on), -1)
    labels[is_on] = place[found]
    members = sparse.csr_array((np.ones(n_on), (labels[is_on], np.arange(n_on))), shape=(k, n_on))
    strength = (members @ features).toarray()  # (k, d)
    centres = _of_length_1(np.asarray(members @ places))
    closeness = np.zeros(len(is_on))
    closeness[is_on] = (places * centres[labels[is_on]]).sum(axis=1)
    return Clusters(
        labels=labels,
        names=tuple(_cluster_name(row, names) for row in strength),
        directions=pointing,
        centres=centres,
        closeness=closeness,
    )


def _sparse_unit_rows(Z: FeatureLike) -> sparse.csr_array:
    """Rows of length 1 without what is not active, ``(n, d)``; zeros stay zeros."""
    features = checked_features(Z)
    parts = []
    for _, tile in features.tiles():
        unit = unit_rows(tile)
        on = unit.where(unit.abs() > ACTIVE_THRESHOLD, 0)
        parts.append(sparse.csr_array(on.cpu().numpy()))
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def _placed(features: sparse.csr_array, directions: FloatArray) -> FloatArray:
    return _of_length_1(np.asarray(features @ directions))


def _of_length_1(rows: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: FloatArray = rows / np.where(lengths > 0, lengths, 1)
    return unit


def _cluster_name(strength: FloatArray, names: Sequence[str]) -> str:
    strongest = [i for i in np.argsort(-strength, kind="stable")[:_N_NAMED] if strength[i] > 0]
    called = [names[i] if len(names) and names[i] else f"feature {i}" for i in strongest]
    return " · ".join(called)


def _k_means(rows: FloatArray, k: int, random_state: Any, n_init: int) -> IntArray:  # noqa: ANN401
    from sklearn.cluster import KMeans

    found: IntArray = KMeans(k, n_init=n_init, random_state=random_state).fit_predict(rows)
    return found


def _best_number(rows: FloatArray, random_state: Any) -> int:  # noqa: ANN401
    """The number of clusters with the largest mean silhouette; 1 for fewer than four samples."""
    from sklearn.metrics import silhouette_score

    drawn = np.random.default_rng(0).permutation(len(rows))[:_MOST_TRIED]
    some = rows[np.sort(drawn)]
    n_different = len(np.unique(some.round(6), axis=0))
    most = min(_MOST_CLUSTERS, len(some) // 4, n_different)
    tried = sorted({min(most, round(2 * _GROWTH**i)) for i in range(19)})
    scores = {
        k: silhouette_score(some, _k_means(some, k, random_state, n_init=2)) for k in tried if k > 1
    }
    return max(scores, key=scores.__getitem__, default=1)


class GroupedFeatures:
    """What an estimator with ``transform`` offers of groups of features and of samples."""

    curation_: Curation
    expected_activation_: FloatArray
    feature_names_: list[str]

    def hierarchy(self, X: ArrayLike) -> Hierarchy:
        """The tree of the features that fire together; ``print`` shows it, ``cut(k)`` cuts it.

        Average linkage over one minus the cosine of the features' columns.

        Args:
            X: Vectors of the samples ``(n, d)``; features that are on for none of them have no
                place. Of more than 8,192 those are taken that are on most often.
        """
        check_is_fitted(self)
        Z = self.transform(X)  # type: ignore[attr-defined]
        n_active, _ = active_counts(checked_features(Z), ACTIVE_THRESHOLD)
        order = np.argsort(-n_active, kind="stable")
        features = order[n_active[order] > 0][:MOST_IN_TREE]
        names = self.feature_names_ or [""] * len(n_active)
        return Hierarchy(
            features=features,
            linkage=coactivation_tree(column_cosines(Z, features)),
            names=tuple(names[i] for i in features),
        )

    def clusters(self, X: ArrayLike, k: int | None = None, *, random_state: Any = 0) -> Clusters:  # noqa: ANN401
        """One label per sample, for those who want only one: k-means on the features.

        A sample lies at the mean direction of its features, see :func:`cluster_samples`.

        Args:
            X: Vectors ``(n, d)``.
            k: How many clusters; None chooses it, by the mean silhouette.
            random_state: Of the beginnings of k-means.
        """
        coverage = self._known_coverage("clusters")  # type: ignore[attr-defined]
        directions: FloatArray = coverage.directions.double().numpy()
        Z = self.transform(X)  # type: ignore[attr-defined]
        for group in self.curation_.merged:
            along = self.expected_activation_[list(group)] @ directions[list(group)]
            directions[group[0]] = _of_length_1(along[None])[0]
        names = self.feature_names_
        return cluster_samples(Z, directions, k, names=names, random_state=random_state)
