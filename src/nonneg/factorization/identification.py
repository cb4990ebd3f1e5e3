"""Identification: how far learnt features are from the posteriors of latent classes."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from nonneg.factorization.checking import FloatArray, IntArray, checked_matrix
from nonneg.factorization.worlds import LatentWorld
from nonneg.metrics.results import FeatureMeasurement
from nonneg.metrics.stability import match_features


def posterior_features(world: LatentWorld) -> FloatArray:
    """φ ``(n, m)``: ``P(c|x) / sqrt(P(c))``, the features that NCL should find, in class order.

    They reproduce Ā exactly, so no features have a lower spectral loss.

    Example:
        >>> world = LatentWorld([0.25, 0.75], [[1, 0], [0, 0.5], [0, 0.5]])
        >>> posterior_features(world).round(4)
        array([[2.    , 0.    ],
               [0.    , 1.1547],
               [0.    , 1.1547]])
    """
    posterior = world.posterior
    dense = posterior if isinstance(posterior, np.ndarray) else posterior.toarray()
    features: FloatArray = dense / np.sqrt(world.prior)
    return features


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification(FeatureMeasurement):
    """How well features match known ones; ``per_feature`` is the cosine of each known feature.

    Args:
        partner: For each known feature the number of its learnt one, or -1.
        correlation: Mean absolute correlation of the same pairs: as the cosine, without credit for
            the constant part that all non-negative features share. Unmatched pairs count 0.
        distance: ``||Z_partner - φ|| / ||φ||`` with signs matched and lengths left as they are.
    """

    partner: IntArray = field(repr=False)
    correlation: float
    distance: float


def identification_score(Z: ArrayLike, phi: ArrayLike) -> Identification:
    """The cosine of each known feature with its learnt partner, mean over the known ones.

    Features are paired one to one so that the cosines are largest (:func:`match_features`), so
    order, length and sign do not count. In [0, 1], higher is better; a known feature that finds no
    partner (too few alive features) counts 0. Non-negative columns have a large cosine by
    themselves: read the value beside that of random features, or read ``correlation``.

    Args:
        Z: Learnt features ``(n, d)``.
        phi: Known features ``(n, m)``, such as :func:`posterior_features`; none all zero.

    Example:
        >>> found = identification_score([[0, 3], [2, 0]], [[1, 0], [0, 1]])
        >>> found.value, found.partner
        (1.0, array([1, 0]))
    """
    learnt, known = np.asarray(Z, dtype=np.float64), np.asarray(phi, dtype=np.float64)
    match = match_features(known, learnt)
    if match.n_dead:
        raise ValueError(
            f"{match.n_dead} of the known features are zero for every sample; leave them out"
        )
    found = match.partner >= 0
    cosines = np.where(found, np.nan_to_num(match.per_feature), 0.0)
    partners = np.where(found, learnt[:, match.partner], 0.0)  # (n, m)
    partners = partners * np.where((partners * known).sum(axis=0) < 0, -1, 1)
    return Identification(
        value=float(cosines.mean()),
        per_feature=cosines,
        partner=match.partner.copy(),
        correlation=float(np.abs(_correlations(partners, known)).mean()),
        distance=float(np.linalg.norm(partners - known) / np.linalg.norm(known)),
        n_alive=match.n_alive_second,
        n_dead=learnt.shape[1] - match.n_alive_second,
        averaged_over=known.shape[1],
        averaged_unit="known features",
        higher_is_better=True,
        signed=match.signed,
    )


def nearest_known(Z: ArrayLike, phi: ArrayLike) -> FloatArray:
    """For every alive learnt feature the cosine with the known one it is nearest to.

    Several learnt features may share a known one: with more features than classes this tells
    whether each is still the posterior of one class. Dead features are left out.

    Args:
        Z: Learnt features ``(n, d)``.
        phi: Known features ``(n, m)``.

    Example:
        >>> nearest_known([[1, 2, 0], [0, 0, 0]], [[1, 0], [0, 1]])
        array([1., 1.])
    """
    learnt, known = np.asarray(Z, dtype=np.float64), np.asarray(phi, dtype=np.float64)
    lengths = np.linalg.norm(learnt, axis=0)
    alive = lengths > 1e-5 * lengths.max(initial=0)
    cosine = (learnt[:, alive] / lengths[alive]).T @ (known / np.linalg.norm(known, axis=0))
    strongest: FloatArray = np.minimum(np.abs(cosine).max(axis=1), 1)
    return strongest


def _correlations(a: FloatArray, b: FloatArray) -> FloatArray:
    """Of the columns, ``(m,)``; 0 where a column is constant."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    lengths = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    correlations: FloatArray = (a * b).sum(axis=0) / np.where(lengths > 0, lengths, np.inf)
    return correlations


SUM_TOLERANCE = 1e-6


def bayes_weights(world: LatentWorld, label_given_class: ArrayLike) -> FloatArray:
    """The linear classifier ``(m, n_labels)`` with which φ gives P(y|x): ``sqrt(P(c)) P(y|c)``.

    Holds where the label depends on x through the class only.

    Args:
        world: Of which φ are the posterior features.
        label_given_class: P(y|c) ``(m, n_labels)``, every row a distribution.

    Example:
        >>> world = LatentWorld([0.25, 0.75], [[1, 0], [0, 0.5], [0, 0.5]])
        >>> posterior_features(world) @ bayes_weights(world, [[0.9, 0.1], [0, 1]])
        array([[0.9, 0.1],
               [0. , 1. ],
               [0. , 1. ]])
    """
    rates = checked_matrix(label_given_class, "label_given_class")
    sums = np.asarray(rates.sum(axis=1))
    if rates.shape[0] != world.n_classes:
        raise ValueError(
            f"label_given_class has {rates.shape[0]} rows for {world.n_classes} classes; "
            "give P(y|c) as (n_classes, n_labels)"
        )
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"row {worst} of label_given_class sums to {sums[worst]:.6g}; P(y|c) must sum to 1"
        )
    weights: FloatArray = np.sqrt(world.prior)[:, None] * rates
    return weights


def bayes_error(world: LatentWorld, label_given_class: ArrayLike) -> float:
    """The smallest error rate that any classifier of x can have: ``1 - E max_y P(y|x)``.

    Example:
        One sample in four is uncertain, one to nine:

        >>> world = LatentWorld([0.25, 0.75], [[1, 0], [0, 0.5], [0, 0.5]])
        >>> round(bayes_error(world, [[0.9, 0.1], [0, 1]]), 12)
        0.025
    """
    rates = posterior_features(world) @ bayes_weights(world, label_given_class)  # P(y|x)
    return 1 - float(world.marginal @ rates.max(axis=1))


def linear_error(
    features: ArrayLike, weights: ArrayLike, world: LatentWorld, label_given_class: ArrayLike
) -> float:
    """The error rate of ``argmax(features @ weights)`` over the samples and labels of a world.

    Args:
        features: ``(n, d)``.
        weights: ``(d, n_labels)``.
        world: Which samples there are, and how likely.
        label_given_class: P(y|c) ``(m, n_labels)``.
    """
    rates = posterior_features(world) @ bayes_weights(world, label_given_class)  # P(y|x)
    chosen = np.argmax(np.asarray(features) @ np.asarray(weights), axis=1)
    return 1 - float(world.marginal @ rates[np.arange(len(rates)), chosen])
