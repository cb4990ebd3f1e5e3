"""The sizes of a fit to neighbours, from what the data says.

Three numbers decide them: how many samples there are, how clustered they are, and, of few samples,
whether they fall into a few large groups that another half of them shows again. Tight groups,
such as requests of a few kinds, call for features that stand for whole groups: a warm temperature
and partners from a wide neighbourhood. Samples that are each a thing of its own, such as abstracts
of papers, call for many features and a cool temperature, so that what is near stays near; of a few
samples only groups can be learnt, fine ones or, where they are stable, large ones. The constants
were chosen on validation parts of texts and images of all these kinds; docs/history/no-loss.md has
the figures.
"""

from typing import Any, NamedTuple

from torch import Tensor

from nonneg.estimators.axes import Axes, clustering

LEVELS = {"concepts": 0.0, "balanced": 0.5, "full": 1.0}
# From loose samples, at this clustering, to tight groups, this much above it.
_SEVERAL, _RANGE = 0.6, 0.07
# From few samples, at this number, to enough for fine distinctions, so many more.
_FEW, _FEW_RANGE = 2000, 2000
# At this clustering groups begin to lie so far apart that they have no topics in common.
_APART, _APART_RANGE = 0.72, 0.08
# From this stability of groups to so much above it, few samples fall into large groups.
_STABLE, _STABLE_RANGE = 0.8, 0.1


class Sizes(NamedTuple):
    """What a fit to neighbours needs to know."""

    n_components: int
    """Features to begin with; those that turn out alike are merged."""
    n_neighbors: int
    """Partners of each sample."""
    temperature: float
    """Of the features' similarities."""
    teacher_temperature: float
    """Of the vectors' own cosines."""
    partner_rate: float
    """Share of the partner in the targets."""
    max_active: int
    """Features per sample that are kept, in training too."""
    n_begin: int
    """Features per sample that are on at the beginning, topics aside."""
    n_topics_on: int
    """Topics, features of large groups, that are on at the beginning."""
    topic_strength: float
    """Length of a sample's topics beside that of its other features."""
    whitening: float
    """How far the axes are made alike before the head."""
    rate: float
    """Share of the learning rate: the less, the nearer features stay to where they begin."""
    n_steps: int
    """The most steps: after more, features fit the training samples better and others worse."""


# All sizes but the first two, in their order: temperatures, partner rate; features that may be on,
# are on at the beginning, and topics; strength of topics; whitening; rate and steps.
_CHOSEN: dict[str, tuple[float, float, float, int, int, int, float, float, float, int]] = {
    "loose": (0.07, 0.05, 0.0, 16, 20, 6, 0.6, 0.5, 0.33, 80),
    "few": (0.12, 0.06, 0.0, 16, 20, 2, 0.0, 0.5, 1.0, 80),
    "grouped": (0.19, 0.08, 1.0, 8, 16, 4, 0.5, 0.0, 1.0, 150),
    "tight": (0.19, 0.08, 0.7, 10, 28, 4, 0.5, 0.0, 1.0, 150),
    "concepts": (0.23, 0.10, 1.0, 8, 16, 4, 0.5, 0.0, 1.0, 150),
    "full": (0.05, 0.05, 0.0, 64, 64, 1, 0.0, 0.6, 0.33, 60),
}


def fitted_sizes(
    axes: Axes,
    agreement: Tensor,
    X: Any,  # noqa: ANN401
    detail: str | float,
    seed: int,
) -> Sizes:
    """The sizes for these vectors; large groups are looked for only where they would count.

    Args:
        axes: Of the vectors.
        agreement: Of neighbours along each ``(r,)``.
        X: The vectors ``(n, d)``.
        detail: As for :func:`chosen_sizes`.
        seed: Of the samples that are looked at.
    """
    clustered = clustering(axes.variances, agreement)
    counts = _is_few(X.shape[0]) > 0 and _is_tight(clustered) < 1
    stability = axes.stability(X, seed) if counts else 0.0
    return chosen_sizes(X.shape[0], clustered, detail, stability=stability)


def chosen_sizes(
    n_samples: int, clustering: float, detail: str | float, *, stability: float = 0.0
) -> Sizes:
    """The sizes for vectors of this number and clustering.

    Args:
        n_samples: Of the training set.
        clustering: In [0, 1], see :func:`clustering`.
        detail: A key of :data:`LEVELS`, or a number from 0, few and pure features, to 1, faithful
            search.
        stability: Of large groups, see :func:`nonneg.estimators.axes.group_stability`; counts for
            fewer than 4,000 samples.

    Example:
        >>> requests = chosen_sizes(15_000, 0.69, "balanced")
        >>> requests.n_components, requests.max_active, round(requests.temperature, 2)
        (1500, 10, 0.19)
        >>> abstracts = chosen_sizes(5_000, 0.3, "balanced")
        >>> abstracts.n_components, abstracts.max_active, round(abstracts.temperature, 2)
        (2000, 16, 0.07)
    """
    level = LEVELS[detail] if isinstance(detail, str) else detail
    is_tight, is_few = _is_tight(clustering), _is_few(n_samples)
    is_grouped = _share((stability - _STABLE) / _STABLE_RANGE)
    # More features where there are very many samples to tell apart.
    most_loose, most_tight = (_within(n_samples // 10, least, 4096) for least in (2048, 1024))

    def sizes(key: str, features_rate: float, most_features: int, wanted: float) -> Sizes:
        n_features = _within(round(features_rate * n_samples), 16, most_features)
        # At most a twentieth of the samples, so that something is left to tell them from.
        n_neighbors = _within(round(wanted), 1, max(1, n_samples // 20))
        return Sizes(n_features, n_neighbors, *_CHOSEN[key])

    few = sizes("few", 0.35, 2048, 20)
    # A few hundred samples have less to be told apart by.
    few = few._replace(max_active=_within(n_samples // 80, 8, few.max_active))
    few = _mixed(few, sizes("grouped", 0.2, 2048, 20), is_grouped)
    loose = _mixed(sizes("loose", 0.4, most_loose, 20), few, is_few)
    tight = sizes("tight", 0.14, most_tight, 30 - 15 * is_few)
    apart = _share((clustering - _APART) / _APART_RANGE)
    tight = tight._replace(topic_strength=(1 - apart) * tight.topic_strength)
    balanced = _mixed(loose, tight, is_tight)
    if level < 0.5:
        return _mixed(balanced, sizes("concepts", 0.05, 512, 20), 1 - 2 * level)
    return _mixed(balanced, sizes("full", 1.0, 8192, 10), 2 * level - 1)


def _is_tight(clustering: float) -> float:
    return _share((clustering - _SEVERAL) / _RANGE)


def _is_few(n_samples: int) -> float:
    return _share(1 - (n_samples - _FEW) / _FEW_RANGE)


def _mixed(start: Sizes, end: Sizes, share: float) -> Sizes:
    """Counts by ratios, all else by differences."""
    values: list[Any] = [
        round(a * (b / a) ** share) if isinstance(a, int) else a + share * (b - a)
        for a, b in zip(start, end, strict=True)
    ]
    return Sizes(*values)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
