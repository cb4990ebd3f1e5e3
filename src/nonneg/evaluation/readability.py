"""Readability: sparsity, consistency, purity and rank, with what chance would give of each."""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg import metrics
from nonneg.data.dataset import Data
from nonneg.evaluation.subject import (
    AT_ONCE,
    EvaluationSettings,
    NotMeasurableError,
    Subject,
    has_classes,
)
from nonneg.metrics.consistency import ClassConsistency
from nonneg.metrics.figures import BECAUSE, Figure, Figures
from nonneg.metrics.inputs import FeatureLike, LabelLike
from nonneg.metrics.purity import TopPurity

# Pixels per side of the images that are compared as they are: all of 224 × 224 would fill memory.
_SMALL = 32


def readability(
    Z: FeatureLike,
    labels: LabelLike | None = None,
    *,
    because: str | None = None,
    reference: FeatureLike | None = None,
    reference_name: str | None = None,
    rank: metrics.EffectiveRank | None = None,
    settings: EvaluationSettings | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> Figures:
    """How readable features are: sparsity, dead features, consistency, purity, correlation, rank.

    Args:
        Z: Features ``(n, d)``.
        labels: Class numbers ``(n,)``; without them figures of classes are left out.
        because: Why there are no labels: figures of classes are then there without a value, and
            have this beside them.
        reference: An embedding that is trusted to tell what is alike ``(n, width)``, for
            monosemanticity.
        reference_name: What it is called.
        rank: The effective rank, where it is known already: it takes longest.
        settings: ``top``, the draws behind chance and intervals, and their seed.
        watch: Told what is being measured.

    Example:
        >>> figures = readability([[1, 0, 0], [0, 1, 0]])
        >>> figures["sparsity"].value, figures["alive_rate"].beside["n_dead"]
        (0.6666666666666666, 1)
    """
    settings = settings or EvaluationSettings()
    watch("sparsity")
    sparsity = metrics.sparsity(Z)
    n_features = sparsity.n_alive + sparsity.n_dead
    figures = {
        "sparsity": Figure.of("sparsity", sparsity.value, n_zero_rows=sparsity.n_zero_rows),
        "sparsity_alive": Figure.of("sparsity_alive", sparsity.value_alive),
        "active_per_sample": Figure.of("active_per_sample", metrics.active_per_sample(Z).value),
        "alive_rate": Figure.of(
            "alive_rate",
            sparsity.n_alive / n_features,
            n_alive=sparsity.n_alive,
            n_dead=sparsity.n_dead,
        ),
    }
    if labels is not None:
        figures |= _of_classes(Z, labels, settings, watch)
    elif because is not None:
        figures |= {
            key: Figure.of(key, None, **{BECAUSE: because}) for key in class_keys(settings.top)
        }
    watch("correlation and rank")
    figures |= {
        "correlation": Figure.of("correlation", metrics.feature_correlation(Z).value),
        "effective_rank": Figure.of("effective_rank", (rank or metrics.effective_rank(Z)).value),
    }
    if reference is not None:
        figures["monosemanticity"] = monosemanticity_figure(Z, reference, reference_name)
    return figures


def class_keys(top: int) -> tuple[str, ...]:
    """The keys of the figures that need labels."""
    return ("class_consistency", f"class_consistency_min{top}", f"top{top}_purity", "class_entropy")


def monosemanticity_figure(Z: FeatureLike, reference: FeatureLike, name: str | None) -> Figure:
    """How alike the samples of a feature are in a reference embedding ``(n, width)``."""
    found = metrics.monosemanticity(Z, reference)
    beside = {} if name is None else {"reference": name}
    return Figure.of("monosemanticity", found.value, null=found.null, **beside)


def _of_classes(
    Z: FeatureLike, y: LabelLike, settings: EvaluationSettings, watch: Callable[[str], None]
) -> Figures:
    n, top = np.shape(y)[0], settings.top
    chance = {"n_permutations": settings.n_permutations, "random_state": settings.seed}
    drawn = {"n_bootstrap": settings.n_bootstrap, **chance}
    of_all, of_frequent, of_purity, of_entropy = class_keys(top)
    watch("class consistency")
    consistency = metrics.class_consistency(Z, y, **drawn)
    watch("purity")
    frequent = purity = None
    if n > top:  # the strongest of all samples are all samples
        frequent = metrics.class_consistency(Z, y, min_active=top, **drawn)
        purity = metrics.top_purity(Z, y, top, **chance)
    return {
        of_all: Figure.of(of_all, consistency.value, **_beside(consistency)),
        of_frequent: _figure_or_reason(of_frequent, frequent, top, n),
        of_purity: _figure_or_reason(of_purity, purity, top, n),
        of_entropy: Figure.of(of_entropy, metrics.class_entropy(Z, y).value),
    }


def _beside(found: ClassConsistency | TopPurity) -> dict[str, float | int | None]:
    """The null, the interval where there is one, and the number of features measured."""
    beside: dict[str, float | int | None] = {"null": found.null}
    if isinstance(found, ClassConsistency):
        beside["low"], beside["high"] = found.interval or (None, None)
    return beside | {"n_features": found.averaged_over}


def _figure_or_reason(
    key: str, found: ClassConsistency | TopPurity | None, top: int, n: int
) -> Figure:
    """A figure with its null; no value, and why, where there are too few samples for one."""
    if found is not None and found.averaged_over:
        return Figure.of(key, found.value, **_beside(found))
    return Figure.of(key, None, **{BECAUSE: why_too_few(n, top)})


def why_too_few(n: int, top: int) -> str:
    """Why purity and the consistency of frequent features have no value for some samples.

    Args:
        n: The number of samples.
        top: How many of them must activate a feature.
    """
    if n <= top:
        return f"there are only {n:,} samples; it takes more than {top}"
    return f"no feature is on for {top} of the {n:,} samples"


def properties(subject: Subject, watch: Callable[[str], None]) -> Figures:
    """Readability of the features of the test samples, with their inputs as the reference.

    Without labels, or with one class only, figures that need them have no value, and say why.
    """
    because = _why_no_classes(subject.test)
    reference, name = raw_inputs(subject.test)
    return readability(
        subject.encoded_test.features,
        subject.known_test.labels if because is None else None,
        because=because,
        reference=reference,
        reference_name=name,
        settings=subject.settings,
        watch=watch,
    )


def raw_inputs(data: Data) -> tuple[Tensor, str]:
    """The inputs as they are ``(n, width)``, and their name; large images are made small first."""
    shape = data.sample_shape
    is_large = len(shape) == 3 and max(shape[1:]) > _SMALL
    height, width = (min(side, _SMALL) for side in shape[1:]) if is_large else (0, 0)
    parts = []
    for numbers in torch.arange(len(data)).split(AT_ONCE):
        inputs = data.fetch(numbers).float()
        if is_large:
            inputs = F.adaptive_avg_pool2d(inputs, (height, width))
        parts.append(inputs.flatten(1))
    name = f"inputs at {height} × {width}" if is_large else "raw inputs"
    return torch.cat(parts), name


def _why_no_classes(data: Data) -> str | None:
    """Why nothing can be said of classes; None where it can."""
    if has_classes(data):
        return None
    return f"{data.name} has {'no labels' if data.labels is None else 'one class only'}"


def hierarchy(subject: Subject, watch: Callable[[str], None]) -> Figures:
    """How many features belong to the coarse and to the fine classes."""
    coarse = getattr(subject.test, "coarse_labels", None)
    why = _why_no_classes(subject.test)
    if coarse is None and why is not None:
        raise NotMeasurableError(why)
    if coarse is None:
        raise NotMeasurableError(f"{subject.test.name} has one level of labels")
    if len(subject.test) <= subject.settings.top:
        raise NotMeasurableError(f"{subject.test.name} has at most {subject.settings.top} samples")
    found = metrics.label_level(
        subject.encoded_test.features,
        {"coarse": coarse, "fine": subject.known_test.labels},
        min_active=subject.settings.top,
        random_state=subject.settings.seed,
    )
    return {
        f"features_{level}": Figure.of(
            f"features_{level}", float(n), n_features=found.averaged_over
        )
        for level, n in found.n_features_at.items()
    }
