"""How well can a label be read off features? As well as Bayes allows, with a known linear map."""

import numpy as np
from numpy.typing import ArrayLike

from nonneg.factorization.checking import FloatArray, checked_matrix
from nonneg.factorization.identification import posterior_features
from nonneg.factorization.latent_world import LatentWorld

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
