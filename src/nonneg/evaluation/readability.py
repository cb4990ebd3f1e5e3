"""Readability: sparsity, consistency and purity, with what chance would give of each."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg import metrics
from nonneg.data.dataset import Data
from nonneg.encoder import Encoder
from nonneg.evaluation.figure import Figure, Figures
from nonneg.evaluation.neighbours import knn_accuracy
from nonneg.evaluation.probe.linear import linear_probe
from nonneg.evaluation.subject import AT_ONCE, NotMeasurableError, Subject, has_classes
from nonneg.metrics.consistency import ClassConsistency
from nonneg.metrics.purity import TopPurity

# Pixels a side of the images that are compared as they are: all of 224 × 224 would fill memory.
_SMALL = 32
# Beside a figure that has no value: the reason.
BECAUSE = "because"


def properties(subject: Subject, watch: Callable[[str], None]) -> Figures:
    """Sparsity, dead features, class consistency, purity, correlation and rank of test features.

    Without labels, or with one class only, those that need them have no value, and say why.
    """
    z = subject.new_encoded.features
    watch("sparsity")
    sparsity = metrics.sparsity(z)
    figures: Figures = {
        "sparsity": Figure(
            sparsity.value, is_rate=True, beside={"n_zero_rows": sparsity.n_zero_rows}
        ),
        "sparsity_alive": Figure(sparsity.value_alive, is_rate=True),
        "active_per_sample": Figure(metrics.active_per_sample(z).value),
        "alive_rate": Figure(
            sparsity.n_alive / z.shape[1],
            higher_is_better=True,
            is_rate=True,
            beside={"n_alive": sparsity.n_alive, "n_dead": sparsity.n_dead},
        ),
    }
    why = _why_no_classes(subject.test)
    figures |= _of_classes(subject, watch) if why is None else _left_out(subject, why)
    watch("correlation and rank")
    reference, called = _reference(subject.test)
    monosemanticity = metrics.monosemanticity(z, reference)
    return figures | {
        "correlation": Figure(metrics.feature_correlation(z).value, higher_is_better=False),
        "effective_rank": Figure(metrics.effective_rank(z).value),
        "monosemanticity_inputs": Figure(
            monosemanticity.value,
            higher_is_better=True,
            beside={"null": monosemanticity.null, "reference": called},
        ),
    }


def _reference(data: Data) -> tuple[Tensor, str]:
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
    called = f"inputs at {height} × {width}" if is_large else "raw inputs"
    return torch.cat(parts), called


def _why_no_classes(data: Data) -> str | None:
    """Why nothing can be said of classes; None where it can."""
    if has_classes(data):
        return None
    return f"{data.name} has {'no labels' if data.labels is None else 'one class only'}"


def _left_out(subject: Subject, why: str) -> Figures:
    """The figures of :func:`_of_classes` without values."""
    top = subject.settings.top
    names = ("class_consistency", f"class_consistency_min{top}", f"top{top}_purity")
    figures = {name: Figure(None, higher_is_better=True, beside={BECAUSE: why}) for name in names}
    entropy = Figure(None, higher_is_better=False, beside={BECAUSE: why})
    return figures | {"class_entropy": entropy}


def _of_classes(subject: Subject, watch: Callable[[str], None]) -> Figures:
    z, y, settings = subject.new.encoded.features, subject.new.labels, subject.settings
    chance = {"n_permutations": settings.n_permutations, "random_state": settings.seed}
    watch("class consistency")
    consistency = metrics.class_consistency(z, y, n_bootstrap=settings.n_bootstrap, **chance)
    watch("purity")
    frequent = purity = None
    if len(y) > settings.top:  # the strongest of all samples are all samples
        frequent = metrics.class_consistency(z, y, min_active=settings.top, **chance)
        purity = metrics.top_purity(z, y, settings.top, **chance)
    low, high = consistency.interval or (None, None)
    return {
        "class_consistency": Figure(
            consistency.value,
            higher_is_better=True,
            beside={
                "null": consistency.null,
                "low": low,
                "high": high,
                "n_features": consistency.averaged_over,
            },
        ),
        f"class_consistency_min{settings.top}": _or_none(frequent, settings.top, len(y)),
        f"top{settings.top}_purity": _or_none(purity, settings.top, len(y)),
        "class_entropy": Figure(metrics.class_entropy(z, y).value, higher_is_better=False),
    }


def _or_none(found: ClassConsistency | TopPurity | None, top: int, n: int) -> Figure:
    """A figure with its null; no value, and why, where there are too few samples for one."""
    if found is None or not found.averaged_over:
        why = f"no feature is on for {top} of the {n:,} samples"
        if n <= top:
            why = f"there are only {n:,} samples; it takes more than {top}"
        return Figure(None, higher_is_better=True, beside={BECAUSE: why})
    beside = {"null": found.null, "n_features": found.averaged_over}
    return Figure(found.value, higher_is_better=True, beside=beside)


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
        subject.new.encoded.features,
        {"coarse": coarse, "fine": subject.new.labels},
        min_active=subject.settings.top,
        random_state=subject.settings.seed,
    )
    return {
        f"features_{level}": Figure(float(n), beside={"n_features": found.averaged_over})
        for level, n in found.n_features_at.items()
    }


# A purity is only taken of features with at least this many active samples.
MIN_ACTIVE = 20
_N_VOTERS = 20


@dataclass(frozen=True)
class Summary:
    """Headline figures, each beside what it must be read against.

    Consistency, purity and their nulls are NaN where there are no more than ``MIN_ACTIVE`` test
    samples.
    """

    sparsity: float
    """Share of entries that are zero."""
    alive_features: int
    n_features: int
    consistency: float
    """Class consistency of features with at least ``MIN_ACTIVE`` active samples."""
    consistency_null: float
    """The same with permuted labels."""
    n_measured: int
    """How many features that is."""
    top_purity: float
    """Share of the commonest class among the ``MIN_ACTIVE`` strongest samples of a feature."""
    top_purity_null: float
    knn_accuracy: float
    """Of the features, with 20 voters; with all training samples if these are fewer."""
    probe_accuracy: float
    """Of a linear classifier on the hidden layer."""


def summary(encoder: Encoder, train: Data, test: Data) -> Summary:
    """Headline figures of an encoder on labelled data.

    Args:
        encoder: Measured in evaluation mode; left as it was.
        train: Labelled samples for the probe and the neighbours.
        test: Labelled samples that every figure is about.
    """
    if train.labels is None or test.labels is None:
        raise ValueError(f"{test.name} has no labels; a summary needs them for train and test")
    seen, new = encoder.encode(train), encoder.encode(test)
    sparsity = metrics.sparsity(new.features)
    frequent = top = None
    if len(test) > MIN_ACTIVE:  # the strongest of all samples are all samples
        chance = {"n_permutations": 20, "random_state": 0}
        frequent = metrics.class_consistency(
            new.features, test.labels, min_active=MIN_ACTIVE, **chance
        )
        top = metrics.top_purity(new.features, test.labels, m=MIN_ACTIVE, **chance)
    consistency, consistency_null = _beside_chance(frequent)
    top_purity, top_purity_null = _beside_chance(top)
    k = min(_N_VOTERS, len(train))
    probe = linear_probe(seen.hidden, train.labels, new.hidden, test.labels)
    return Summary(
        sparsity=sparsity.value,
        alive_features=sparsity.n_alive,
        n_features=encoder.n_features,
        consistency=consistency,
        consistency_null=consistency_null,
        n_measured=0 if frequent is None else frequent.averaged_over,
        top_purity=top_purity,
        top_purity_null=top_purity_null,
        knn_accuracy=knn_accuracy(seen.features, train.labels, new.features, test.labels, k=k),
        probe_accuracy=probe.value,
    )


def _beside_chance(found: ClassConsistency | TopPurity | None) -> tuple[float, float]:
    """A value and its null; NaN where nothing was measured."""
    if found is None:
        return float("nan"), float("nan")
    assert found.null is not None
    return found.value, found.null
