"""Which feature stays still when a factor is held? The factor-VAE and the beta-VAE score."""

from dataclasses import dataclass

import numpy as np

from nonneg.metrics.chance import RandomState
from nonneg.metrics.checks import LabelLike, checked_count, checked_factors
from nonneg.metrics.inputs import FeatureLike, checked_features
from nonneg.metrics.results import FloatArray, IntArray, Measurement


@dataclass(frozen=True, kw_only=True, eq=False)
class FactorVote(Measurement):
    """An accuracy at naming the factor that was held still; ``null`` is one over their number."""

    null: float


def factor_vae_score(
    Z: FeatureLike,
    factors: LabelLike,
    *,
    group_size: int = 64,
    n_votes: int = 1000,
    random_state: RandomState = None,
) -> FactorVote:
    """How well the feature of least variance tells which factor was held still.

    A vote takes a group of samples that share the value of one factor, drawn with replacement, and
    finds the feature whose variance in the group, relative to its variance at large, is least. A
    feature is read as the factor that it got most votes from; the score is the accuracy on as many
    new votes (Kim and Mnih 2018). In [0, 1], higher is better.

    Args:
        Z: Features ``(n_samples, n_features)``, taken as they are; constant ones are left out.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.
        group_size: Samples a vote.
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
    scaled, table = _scaled(Z, factors)
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
    """How well a linear classifier tells, from mean differences, which factor was held still.

    A vote takes pairs of samples that share the value of one factor and averages ``|z - z'|`` over
    them; a logistic regression learns to name the factor from such averages, and the score is its
    accuracy on as many new ones (Higgins et al. 2017). In [0, 1], higher is better; it saturates,
    so read it beside DCI.

    Args:
        Z: Features ``(n_samples, n_features)``; each is divided by its standard deviation.
        factors: The value of each known factor, integers ``(n_samples, n_factors)``.
        group_size: Pairs a vote.
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
    scaled, table = _scaled(Z, factors)
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


def _scaled(Z: FeatureLike, factors: LabelLike) -> tuple[FloatArray, IntArray]:
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
