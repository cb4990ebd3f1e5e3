"""Which worlds are the theory tried on? Random ones, with and without overlap and anchors."""

import numpy as np

from nonneg.factorization.latent_world import LatentWorld


def random_world(
    n_samples: int,
    n_classes: int,
    rng: np.random.Generator,
    *,
    concentration: float = 0.5,
    blur: float = 0.0,
) -> LatentWorld:
    """A latent-class world with unequal classes and samples, and an anchor for each class.

    The first ``n_classes`` samples are anchors: sample c is made by class c only. The posteriors
    of the others are Dirichlet draws.

    Args:
        n_samples: At least ``n_classes``.
        n_classes: How many latent classes.
        rng: Where the draws come from.
        concentration: Of the Dirichlet distribution: 1 spreads posteriors evenly over the simplex,
            at 0 every sample belongs to one class and classes do not overlap.
        blur: Share of every class that is replaced by an equal mix of all classes. Above 0 no
            sample is an anchor any more; at 1 all classes are alike.

    Example:
        >>> world = random_world(50, 3, np.random.default_rng(0))
        >>> world.posterior[:3].round(12)
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
    """
    if not 1 <= n_classes <= n_samples:
        raise ValueError(
            f"{n_classes} classes cannot each have an anchor among {n_samples} samples; "
            "give at least one class and as many samples as classes"
        )
    if not 0 <= blur <= 1:
        raise ValueError(f"blur is {blur}; it is a share between 0 and 1")
    if concentration < 0:
        raise ValueError(f"concentration is {concentration}; it must be at least 0")
    n_others = n_samples - n_classes
    if concentration:
        others = rng.dirichlet(np.full(n_classes, concentration), size=n_others)
    else:
        others = np.eye(n_classes)[rng.integers(n_classes, size=n_others)]
    posterior = np.vstack([np.eye(n_classes), others])
    weights = 0.2 + rng.gamma(2.0, 1.0, size=(n_samples, 1))
    together = posterior * weights / weights.sum()  # P(x, c)
    prior = together.sum(axis=0)
    mixing = (1 - blur) * np.eye(n_classes) + blur / n_classes
    return LatentWorld(prior, together / prior @ mixing)


def purity(world: LatentWorld) -> float:
    """How near the world is to having anchors: ``max_x P(c|x)``, mean over classes.

    1 if every class has a sample that only it makes.

    Example:
        >>> purity(LatentWorld([0.5, 0.5], [[0.5, 0.0], [0.5, 1.0]]))  # 1 and 2/3
        0.8333333333333333
    """
    posterior = world.posterior
    strongest = posterior.max(axis=0)
    dense = strongest if isinstance(strongest, np.ndarray) else strongest.toarray()
    return float(dense.mean())
