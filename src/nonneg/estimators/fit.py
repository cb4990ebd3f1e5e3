"""The fit of heads on fixed vectors: a small loop in memory."""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nonneg.encoder import Encoder, EncoderSettings
from nonneg.estimators.axes import Projection
from nonneg.estimators.inputs import HeadSettings, tiles
from nonneg.head.on_rate import raise_bias, row_threshold
from nonneg.head.projector import ProjectorSettings
from nonneg.head.revival import (
    Beginning,
    begin_at_centres,
    forget,
    last_layer,
    merge_twins,
    revive_dead,
)
from nonneg.losses.info_nce import info_nce
from nonneg.losses.soft_targets import cosine_weights, soft_info_nce
from nonneg.metrics.activity import ACTIVE_THRESHOLD, activation_moments, active_counts
from nonneg.metrics.inputs import checked_features
from nonneg.metrics.results import BoolArray, FloatArray
from nonneg.training.optimizers import learning_rate_factor

_N_EPOCHS = 10
# The fewest and the most steps of features that begin anywhere.
_N_STEPS = (300, 2000)
_WARMUP_RATE = 0.1


def step_budget(
    n_samples: int,
    batch_size: int,
    *,
    max_epochs: int | None,
    max_steps: int | None,
    within: tuple[int, int] = _N_STEPS,
) -> int:
    """How many steps to take: ten passes over the samples, but within two numbers of steps.

    A limit that is given takes the place of this rule; of two limits the first that is reached.

    Example:
        >>> step_budget(15_000, 512, max_epochs=None, max_steps=None)
        300
        >>> step_budget(1_000_000, 512, max_epochs=None, max_steps=None)
        2000
        >>> step_budget(15_000, 512, max_epochs=2, max_steps=1_000)
        58
    """
    n_batches = max(1, n_samples // batch_size)
    if max_epochs is None and max_steps is None:
        return min(max(within[0], _N_EPOCHS * n_batches), within[1])
    limits = [max_steps, None if max_epochs is None else max_epochs * n_batches]
    return min(limit for limit in limits if limit is not None)


def rate_factor(step: int, n_steps: int) -> float:
    """The share of the peak learning rate: up over the first tenth, then half a cosine down.

    Example:
        >>> [round(rate_factor(step, 20), 3) for step in (0, 1, 2, 11, 19)]
        [0.5, 1.0, 1.0, 0.5, 0.008]
    """
    return learning_rate_factor(step, n_warmup=_WARMUP_RATE * n_steps, n_steps=n_steps)


Record = dict[str, float]
Report = Callable[[Record], None]

_WEIGHT_DECAY = 1e-4
# When dead features are revived, as shares of all steps: early enough to learn after it.
_REVIVALS = (0.25, 0.5)
# When twins are merged; with a number of features to keep, not at the very end.
_MERGES = (0.3, 0.6)
# Vectors may have many duplicates: features that begin at them have to be clearly on.
_CLEARLY = 0.1
# Some dead features are no harm: reviving all of them gives more features that say the same.
_MAX_DEAD_RATE = 0.5
# Samples that a feature has to be off for to count as dead while training.
_N_SAMPLES = 4096
# From this share of all steps on, biases go so much of the way to a target that is not met.
_TARGET_FROM = 0.2
_TARGET_SHARE = 0.1
_N_RECORDS = 20


@dataclass(frozen=True)
class FitSettings:
    """What the loop needs besides encoders and views.

    Args:
        n_steps: Optimiser steps in all.
        batch_size: Pairs per step, at most the number of samples.
        learning_rate: At its peak.
        temperature: Of InfoNCE.
        target_active: Mean number of active features per sample; with fewer, biases are raised.
        seed: Of the order of the samples and of the pairs.
        teacher_temperature: Of soft targets by the cosines of the views' teacher rows; None leaves
            the partner as the only positive.
        partner_rate: The share of the partner in soft targets.
        beginning: How features begin at groups of samples, where those that become twins are
            merged; None for weights as they are drawn.
        keeps_number: Whether merged features are re-initialised, so that their number stays.
        least_features: Where merging would leave fewer, none are merged.
    """

    n_steps: int
    batch_size: int
    learning_rate: float
    temperature: float
    target_active: float | None
    seed: int
    teacher_temperature: float | None = None
    partner_rate: float = 1.0
    beginning: Beginning | None = None
    keeps_number: bool = True
    least_features: int = 1


class Head(NamedTuple):
    """An encoder whose projector learns, and what it learns from."""

    encoder: Encoder
    """Its backbone is not called; its projector learns in place."""
    hidden: Tensor
    """Backbone outputs of all samples, ``(n, h)``, on the encoder's device."""


class Views(NamedTuple):
    """What is compared in one step: n pairs."""

    inputs: tuple[Tensor, ...]
    """Hidden vectors for each head, 2 n rows in all; row i and row n + i belong together."""
    groups: Tensor | None = None
    """``(n,)``: pairs of the same number are no negatives of each other."""
    teacher: Tensor | None = None
    """What soft targets are made of ``(2 n, h)``; None for the inputs themselves."""


def fit_heads(
    heads: Sequence[Head],
    views: Iterable[Views],
    settings: FitSettings,
    generator: torch.Generator,
    progress: Report | None = None,
) -> list[Record]:
    """Train the projectors of one encoder for both views, or of one for each.

    Negatives are the partners of the other samples ("cross"): as good as both sides of all pairs
    and a quarter of the products.

    Args:
        heads: One, or two with as many features.
        views: One for each step.
        settings: Steps, rates, temperature.
        generator: Draws the samples at which dead features are re-initialised.
        progress: Called after each step with its record.

    Returns:
        About twenty records with ``step``, and ``loss`` and ``active_per_sample`` of its batch.

    Raises:
        FloatingPointError: If the loss is no number.
    """
    encoders = [head.encoder for head in heads]
    _begin(heads, settings, generator)
    optimizer = _optimizer(encoders, settings)
    shares = _MERGES if settings.beginning else _REVIVALS
    repairs = {int(share * settings.n_steps) for share in shares}
    every = max(1, settings.n_steps // _N_RECORDS)
    history: list[Record] = []
    for step, view in enumerate(views):
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * rate_factor(step, settings.n_steps)
        scores = [e.projector(part) for e, part in zip(encoders, view.inputs, strict=True)]
        features = torch.cat([e.nonnegative(s) for e, s in zip(encoders, scores, strict=True)])
        loss = _loss(features, view, settings)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= _TARGET_FROM * settings.n_steps:
            _towards_target(encoders, scores, settings.target_active)
        if step + 1 in repairs:
            optimizer = _repaired(heads, optimizer, settings, generator)
        finite = _finite(loss.item(), step + 1, settings)
        is_kept = step % every == 0 or step + 1 == settings.n_steps
        if is_kept or progress is not None:
            _, per_sample = active_counts(checked_features(features), ACTIVE_THRESHOLD)
            active = float(per_sample.mean())
            record = {"step": step + 1, "loss": finite, "active_per_sample": active}
        if is_kept:
            history.append(record)
        if progress is not None:
            progress(record)
    for encoder in encoders:
        encoder.projector.eval()
    return history


def _begin(heads: Sequence[Head], settings: FitSettings, generator: torch.Generator) -> None:
    if settings.beginning is not None:
        for encoder, hidden in heads:
            begin_at_centres(encoder, hidden, generator, settings.beginning, margin=_CLEARLY)


def _towards_target(
    encoders: Sequence[Encoder], scores: Sequence[Tensor], target: float | None
) -> None:
    if target is not None:
        for encoder, of_side in zip(encoders, scores, strict=True):
            raise_bias(last_layer(encoder), of_side.detach(), target, share=_TARGET_SHARE)


def _loss(features: Tensor, view: Views, settings: FitSettings) -> Tensor:
    a, b = features.chunk(2)
    if settings.teacher_temperature is None:
        return info_nce(
            a, b, temperature=settings.temperature, negatives="cross", groups=view.groups
        )
    teacher = torch.cat(view.inputs) if view.teacher is None else view.teacher
    return soft_info_nce(
        a,
        b,
        weights=cosine_weights(*teacher.chunk(2), temperature=settings.teacher_temperature),
        temperature=settings.temperature,
        partner_rate=settings.partner_rate,
    )


def _optimizer(encoders: Sequence[Encoder], settings: FitSettings) -> torch.optim.Optimizer:
    """AdamW of the projectors.

    A bias is compared with scores, which are longer than weights by the length of a hidden vector;
    where features begin at groups of samples, it takes steps that are as much longer.
    """
    groups: list[dict[str, Any]] = []
    for encoder in encoders:
        bias = last_layer(encoder).bias
        scale = math.sqrt(last_layer(encoder).in_features) if settings.beginning else 1.0
        others = [p for p in encoder.projector.train().parameters() if p is not bias]
        groups += [
            {"params": others, "peak": settings.learning_rate},
            {"params": [bias], "peak": settings.learning_rate * scale},
        ]
    return torch.optim.AdamW(groups, weight_decay=_WEIGHT_DECAY)


def _repaired(
    heads: Sequence[Head],
    optimizer: torch.optim.Optimizer,
    settings: FitSettings,
    generator: torch.Generator,
) -> torch.optim.Optimizer:
    """Merge twins, or re-initialise dead features at samples where they are too many."""
    some = torch.randperm(len(heads[0].hidden), generator=generator)[:_N_SAMPLES]
    looked_at = [(encoder, hidden[some.to(hidden.device)]) for encoder, hidden in heads]
    if settings.beginning is not None:
        for encoder, hidden in looked_at:
            others = "reinitialised" if settings.keeps_number else "dropped"
            merge_twins(
                encoder,
                hidden,
                others,
                generator,
                least=settings.least_features,
                margin=_CLEARLY,
            )
        return _optimizer([encoder for encoder, _ in heads], settings)
    revived = revive_dead(looked_at, generator, max_dead_rate=_MAX_DEAD_RATE)
    for encoder, _ in heads:
        forget(optimizer, last_layer(encoder), revived)
    return optimizer


def _finite(loss: float, step: int, settings: FitSettings) -> float:
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the fit diverged: the loss is {loss} at step {step}; lower learning_rate "
            f"({settings.learning_rate:g})"
        )
    return loss


# Ranking, dead features and the bias are measured on at most so many training samples.
_MEASURED = 20_000


@dataclass(frozen=True)
class LearntSide:
    """What ``fit`` leaves behind of one kind of vectors.

    Args:
        encoder: On the CPU, in evaluation mode, thinned by the threshold that meets the target.
        expected_activation: Mean activation of each feature on training samples ``(d,)``.
        alive: Whether each feature is on for some training sample ``(d,)``.

    The last two are of 20,000 drawn samples where there are more.
    """

    encoder: Encoder
    expected_activation: FloatArray
    alive: BoolArray


def hidden_vectors(X: Any, projection: Projection, settings: HeadSettings) -> Tensor:  # noqa: ANN401
    """The backbone's output of all vectors ``(n, h)``, on the device to train on."""
    # Filled in place: of many samples there is no room for two copies.
    hidden = torch.empty(X.shape[0], projection.hidden_size)
    for rows, part in tiles(X):
        hidden[rows] = projection(part)
    return hidden.to(settings.torch_device)


def new_encoder(projection: Projection, settings: HeadSettings, seed: int) -> Encoder:
    """An encoder with a head that has learnt nothing, on the device to train on."""
    head = ProjectorSettings(hidden=(settings.hidden,) if settings.hidden else ())
    # A copy is not checked: one feature is of little use, but scikit-learn's contract allows it.
    head = head.model_copy(update={"n_features": settings.n_components})
    built = EncoderSettings(frozen=True, projector=head, nonnegative=settings.nonnegative)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(built, (projection.in_features,), backbone=projection)
    return encoder.to(settings.torch_device)


def fit_settings(
    settings: HeadSettings, n_samples: int, seed: int, *, within: tuple[int, int] = _N_STEPS
) -> FitSettings:
    """Steps, batch and rates for so many samples; steps within two numbers if not limited."""
    batch_size = min(settings.batch_size, n_samples)
    return FitSettings(
        n_steps=step_budget(
            n_samples,
            batch_size,
            max_epochs=settings.max_epochs,
            max_steps=settings.max_steps,
            within=within,
        ),
        batch_size=batch_size,
        learning_rate=settings.learning_rate,
        temperature=settings.temperature,
        target_active=settings.target_active,
        seed=seed,
    )


def learnt_side(
    encoder: Encoder,
    hidden: Tensor,
    settings: HeadSettings,
    seed: int,
    *,
    trained_limit: int | None = None,
    unseen: Tensor | None = None,
) -> LearntSide:
    """A trained encoder with its biases or its threshold set to the target, and its measures.

    ``max_active`` may be changed later, so what is measured does not depend on it.

    Args:
        encoder: On the device of the hidden vectors; comes back on the CPU.
        hidden: Of the training samples ``(n, h)``.
        settings: Their ``target_active`` is the mean number of active features per sample; None
            leaves them as they are.
        seed: Of the samples to measure on.
        trained_limit: The most features on per sample in training; for what is measured too.
        unseen: Hidden vectors that were kept out of training, to meet the target on.
    """
    encoder.eval()
    sample, target = some_rows(hidden, seed), settings.target_active
    new = sample if unseen is None else unseen
    threshold = 0.0
    if target is not None:
        encoder.thin(threshold=None, max_active=None)  # a threshold is a share of the whole row
        raise_bias(last_layer(encoder), _scores(encoder, new), target)
        threshold = row_threshold(_features(encoder, new), target)
    encoder.thin(threshold=threshold, max_active=trained_limit)
    features = checked_features(_features(encoder, sample))
    encoder.thin(threshold=threshold, max_active=settings.max_active)
    activation, _ = activation_moments(features, rectify=True)
    n_active, _ = active_counts(features, ACTIVE_THRESHOLD)
    return LearntSide(encoder.cpu(), activation, n_active > 0)


@torch.no_grad()
def _scores(encoder: Encoder, hidden: Tensor) -> Tensor:
    return torch.cat([encoder.projector(part).cpu() for part in hidden.split(4096)])


def _features(encoder: Encoder, hidden: Tensor) -> Tensor:
    return encoder.nonnegative(_scores(encoder, hidden))  # type: ignore[no-any-return]


def some_rows(hidden: Tensor, seed: int) -> Tensor:
    """At most 20,000 rows, drawn by chance where there are more."""
    if len(hidden) <= _MEASURED:
        return hidden
    order = torch.randperm(len(hidden), generator=torch.Generator().manual_seed(seed))
    return hidden[order[:_MEASURED].to(hidden.device)]


# Fewer alive features than this share of n_components are worth a warning.
_MIN_ALIVE_RATE = 0.5


def warn_of_dead(n_alive: int, n_features: int) -> None:
    """Warn whoever called ``fit``, which calls this, if most features are dead."""
    n_dead = n_features - n_alive
    if n_dead > (1 - _MIN_ALIVE_RATE) * n_features:
        warnings.warn(
            f"{n_dead} of {n_features} features are dead (off for every training sample, or merged "
            "with one that says the same); lower n_components, temperature or learning_rate",
            stacklevel=3,
        )
