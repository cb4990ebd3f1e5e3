"""Known factors of variation: MIG, SAP, factor-VAE and beta-VAE scores.

MIG and SAP penalise overcomplete codes: two features that say the same about a factor leave no gap,
however clean they are. For wide non-negative features read DCI's disentanglement beside them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from nonneg.metrics.inputs import (
    FeatureLike,
    Features,
    LabelLike,
    checked_count,
    checked_factors,
    checked_features,
    checked_quantities,
)
from nonneg.metrics.results import FloatArray, IntArray, Measurement, RandomState

_BLOCK_ENTRIES = 1 << 22


@dataclass(frozen=True, kw_only=True, eq=False)
class FactorGap(Measurement):
    """A gap for each factor, and the matrix it is read from.

    Args:
        per_factor: ``(n_factors,)``.
        scores: What each feature tells about each factor, ``(n_features, n_factors)``.
    """

    per_factor: FloatArray = field(repr=False)
    scores: FloatArray = field(repr=False)


def mig(Z: FeatureLike, factors: LabelLike, *, n_bins: int = 20) -> FactorGap:
    """The gap in mutual information between the two best features of a factor (MIG), mean of all.

    ``(I(z_1st; v) - I(z_2nd; v)) / H(v)`` (Chen et al. 2018), with features cut into equally wide
    bins. In [0, 1], higher is better. Penalises overcomplete codes.

    Args:
        Z: Features ``(n_samples, n_features)``, taken as they are.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.
        n_bins: Bins between a feature's smallest and largest value; a constant feature has one.

    Returns:
        ``scores`` holds the mutual information in nats. With one feature the second best has 0.

    Example:
        >>> factors = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> mig(factors, factors).value
        1.0
    """
    checked_count(n_bins, name="n_bins")
    features = checked_features(Z)
    table = checked_factors(factors, features.n_samples)
    sizes = table.max(axis=0) + 1
    information = np.zeros((features.n_features, table.shape[1]))
    for here, columns in _column_blocks(features):
        bins = _bins(columns, n_bins)
        for factor, size in enumerate(sizes):
            information[here, factor] = _mutual_information(bins, table[:, factor], n_bins, size)
    entropy = np.array(
        [_entropy(np.bincount(table[:, factor])) for factor in range(table.shape[1])]
    )
    return _gap(information, _largest_gap(information) / entropy)


def sap(Z: FeatureLike, factors: LabelLike) -> FactorGap:
    """The gap in R² between the two best features of a factor (SAP), mean over factors.

    R² is the squared correlation of a feature with the factor's value (Kumar et al. 2018, for
    ordered factors): the numbers in the table are read as quantities. In [0, 1], higher is better.
    Penalises overcomplete codes.

    Args:
        Z: Features ``(n_samples, n_features)``, taken as they are.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.

    Returns:
        ``scores`` holds R², 0 for a constant feature. With one feature the second best has 0.

    Example:
        >>> factors = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> sap(factors, factors).value
        1.0
    """
    features = checked_features(Z)
    table = checked_quantities(factors, features.n_samples)
    table -= table.mean(axis=0)
    table /= np.sqrt((table**2).sum(axis=0))
    fit = np.zeros((features.n_features, table.shape[1]))
    for here, columns in _column_blocks(features):
        centred = _scaled(columns)
        centred -= centred.mean(axis=0)
        squares = (centred**2).sum(axis=0)
        # What is left of a constant column after centring is rounding, not signal.
        varies = squares > 1e-24 * len(centred)
        explained = (centred.T @ table) ** 2
        fit[here] = np.where(varies[:, None], explained / np.where(varies, squares, 1)[:, None], 0)
    return _gap(fit, _largest_gap(fit))


def _gap(scores: FloatArray, per_factor: FloatArray) -> FactorGap:
    return FactorGap(
        value=float(per_factor.mean()),
        per_factor=per_factor,
        scores=scores,
        averaged_over=len(per_factor),
        averaged_unit="factors",
        higher_is_better=True,
        signed=False,
    )


def _largest_gap(scores: FloatArray) -> FloatArray:
    """For each column, by how much the largest entry exceeds the second."""
    padded = np.concatenate([scores, np.zeros((1, scores.shape[1]))])
    ordered = np.sort(padded, axis=0)
    gap: FloatArray = ordered[-1] - ordered[-2]
    return gap


def _column_blocks(features: Features) -> Iterator[tuple[slice, FloatArray]]:
    """Float64 columns, some at a time."""
    step = max(1, _BLOCK_ENTRIES // features.n_samples)
    for start in range(0, features.n_features, step):
        here = slice(start, min(start + step, features.n_features))
        yield here, features.columns(here).double().cpu().numpy()


def _scaled(columns: FloatArray) -> FloatArray:
    """Each column divided by its largest size, so that squares cannot overflow."""
    largest = np.abs(columns).max(axis=0)
    return columns / np.where(largest > 0, largest, 1)


def _bins(columns: FloatArray, n_bins: int) -> IntArray:
    """The number of the equally wide bin of each entry."""
    columns = columns / 2  # the width of the largest numbers would overflow
    low = columns.min(axis=0)
    width = columns.max(axis=0) - low
    place = (columns - low) / np.where(width > 0, width, 1) * n_bins
    bins: IntArray = np.minimum(place.astype(np.int64), n_bins - 1)
    return bins


def _mutual_information(bins: IntArray, values: IntArray, n_bins: int, size: int) -> FloatArray:
    """I(column; values) in nats for each column of bins ``(n_samples, n_columns)``."""
    n, n_columns = bins.shape
    place = (np.arange(n_columns) * n_bins + bins) * size + values[:, None]
    counts = np.bincount(place.reshape(-1), minlength=n_columns * n_bins * size)
    joint = counts.reshape(n_columns, n_bins, size) / n
    apart = joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
    ratio = np.where(joint > 0, joint, 1) / np.where(joint > 0, apart, 1)
    information: FloatArray = (joint * np.log(ratio)).sum(axis=(1, 2))
    return information


def _entropy(counts: IntArray) -> float:
    share = counts[counts > 0] / counts.sum()
    return float((share * np.log(1 / share)).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class FactorVote(Measurement):
    """An accuracy at naming the fixed factor; ``null`` is one over the number of factors."""

    null: float


def factor_vae_score(
    Z: FeatureLike,
    factors: LabelLike,
    *,
    group_size: int = 64,
    n_votes: int = 1000,
    random_state: RandomState = None,
) -> FactorVote:
    """How well the feature of least variance tells which factor was fixed.

    A vote takes a group of samples that share the value of one factor, drawn with replacement, and
    finds the feature whose variance in the group, relative to its variance at large, is least. A
    feature is read as the factor that it got most votes from; the score is the accuracy on as many
    new votes (Kim and Mnih 2018). In [0, 1], higher is better.

    Args:
        Z: Features ``(n_samples, n_features)``, taken as they are; constant ones are left out.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.
        group_size: Samples per vote.
        n_votes: Votes to learn from, and votes to score on.
        random_state: Seed or generator.

    Returns:
        NaN if every feature is constant.

    Example:
        >>> factors = [[i, j] for i in range(4) for j in range(4)]
        >>> factor_vae_score(factors, factors, n_votes=50, random_state=0).value
        1.0
    """
    checked_count(group_size, name="group_size")
    checked_count(n_votes, name="n_votes")
    scaled, table = _scaled_features(Z, factors)
    n_factors = table.shape[1]
    if not scaled.shape[1]:
        return _vote(float("nan"), 0, n_factors)
    rng = np.random.default_rng(random_state)
    quietest = np.empty(2 * n_votes, dtype=np.int64)
    held = rng.integers(n_factors, size=2 * n_votes)
    peers = [_Peers(column) for column in table.T]
    for vote, factor in enumerate(held):
        shared = np.full(group_size, rng.integers(len(table)))
        quietest[vote] = scaled[peers[factor].drawn(shared, rng)].var(axis=0).argmin()
    tally = np.zeros((scaled.shape[1], n_factors))
    np.add.at(tally, (quietest[:n_votes], held[:n_votes]), 1)
    guess = tally.argmax(axis=1)[quietest[n_votes:]]
    return _vote(float((guess == held[n_votes:]).mean()), n_votes, n_factors)


def beta_vae_score(
    Z: FeatureLike,
    factors: LabelLike,
    *,
    group_size: int = 64,
    n_votes: int = 500,
    random_state: RandomState = None,
) -> FactorVote:
    """How well a linear classifier tells, from mean differences, which factor was fixed.

    A vote takes pairs of samples that share the value of one factor and averages ``|z - z'|`` over
    them; a logistic regression learns to name the factor from such averages, and the score is its
    accuracy on as many new ones (Higgins et al. 2017). In [0, 1], higher is better; it saturates,
    so read it beside DCI.

    Args:
        Z: Features ``(n_samples, n_features)``; each is divided by its standard deviation.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.
        group_size: Pairs per vote.
        n_votes: Votes to learn from, and votes to score on.
        random_state: Seed or generator.

    Returns:
        NaN if every feature is constant.

    Example:
        >>> factors = [[i, j] for i in range(4) for j in range(4)]
        >>> beta_vae_score(factors, factors, n_votes=50, random_state=0).value
        1.0
    """
    from sklearn.linear_model import LogisticRegression  # slow to import, and needed here only

    checked_count(group_size, name="group_size")
    checked_count(n_votes, name="n_votes")
    scaled, table = _scaled_features(Z, factors)
    n_factors = table.shape[1]
    if not scaled.shape[1]:
        return _vote(float("nan"), 0, n_factors)
    rng = np.random.default_rng(random_state)
    # Every factor once, so that the classifier has seen all of them.
    held = np.concatenate([np.arange(n_factors), rng.integers(n_factors, size=2 * n_votes)])
    differences = np.empty((len(held), scaled.shape[1]))
    peers = [_Peers(column) for column in table.T]
    for vote, factor in enumerate(held):
        first = rng.integers(len(table), size=group_size)
        second = peers[factor].drawn(first, rng)
        differences[vote] = np.abs(scaled[first] - scaled[second]).mean(axis=0)
    split = n_factors + n_votes
    classifier = LogisticRegression(max_iter=2000).fit(differences[:split], held[:split])
    return _vote(float(classifier.score(differences[split:], held[split:])), n_votes, n_factors)


class _Peers:
    """The samples that share a factor's value, to draw from."""

    def __init__(self, values: IntArray) -> None:
        self.values = values
        self.order = np.argsort(values, kind="stable")
        self.sizes = np.bincount(values)
        self.starts = np.cumsum(self.sizes) - self.sizes

    def drawn(self, samples: IntArray, rng: np.random.Generator) -> IntArray:
        """For each sample one with the same value, perhaps itself."""
        value = self.values[samples]
        drawn: IntArray = self.order[self.starts[value] + rng.integers(self.sizes[value])]
        return drawn


def _scaled_features(Z: FeatureLike, factors: LabelLike) -> tuple[FloatArray, IntArray]:
    """Features that vary, each divided by its standard deviation, and the checked factors."""
    features = checked_features(Z)
    table = checked_factors(factors, features.n_samples)
    if table.shape[1] < 2:
        raise ValueError("factors has one column; naming the one held still needs at least two")
    X = features.dense().double().cpu().numpy()
    largest = np.abs(X).max(axis=0)
    X = X / np.where(largest > 0, largest, 1)
    spread = X.std(axis=0)
    # What is left of a constant column is rounding, not variance.
    varies = spread > 1e-12
    return X[:, varies] / spread[varies], table


def _vote(value: float, n_votes: int, n_factors: int) -> FactorVote:
    return FactorVote(
        value=value,
        null=1 / n_factors,
        averaged_over=n_votes,
        averaged_unit="votes",
        higher_is_better=True,
        signed=False,
    )
