"""The fit of heads on fixed vectors: a small loop in memory."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn

from nonneg.encoder import Encoder, EncoderSettings
from nonneg.estimators.axes import Projection
from nonneg.estimators.inputs import HeadSettings, tiles
from nonneg.head.projector import ProjectorSettings
from nonneg.head.revival import forget, last_layer, revive_dead
from nonneg.losses.info_nce import info_nce
from nonneg.metrics.activity import ACTIVE_THRESHOLD, activation_moments, active_counts
from nonneg.metrics.inputs import checked_features
from nonneg.metrics.results import BoolArray, FloatArray
from nonneg.rows import unit_rows
from nonneg.training.optimizers import learning_rate_factor

_N_EPOCHS = 10
_MIN_STEPS, _MAX_STEPS = 300, 2000
_WARMUP_RATE = 0.1


def step_budget(
    n_samples: int, batch_size: int, *, max_epochs: int | None, max_steps: int | None
) -> int:
    """How many steps to take: ten passes over the samples, but from 300 to 2,000 steps.

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
        return min(max(_MIN_STEPS, _N_EPOCHS * n_batches), _MAX_STEPS)
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
    """

    n_steps: int
    batch_size: int
    learning_rate: float
    temperature: float
    target_active: float | None
    seed: int


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
    parameters = [p for encoder in encoders for p in encoder.projector.train().parameters()]
    optimizer = torch.optim.AdamW(parameters, weight_decay=_WEIGHT_DECAY)
    revivals = {int(share * settings.n_steps) for share in _REVIVALS}
    every = max(1, settings.n_steps // _N_RECORDS)
    history: list[Record] = []
    for step, (inputs, groups) in enumerate(views):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * rate_factor(step, settings.n_steps)
        scores = [e.projector(part) for e, part in zip(encoders, inputs, strict=True)]
        features = torch.cat([e.nonnegative(s) for e, s in zip(encoders, scores, strict=True)])
        loss = info_nce(
            *features.chunk(2), temperature=settings.temperature, negatives="cross", groups=groups
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if settings.target_active is not None and step >= _TARGET_FROM * settings.n_steps:
            for encoder, of_side in zip(encoders, scores, strict=True):
                target = settings.target_active
                raise_bias(last_layer(encoder), of_side.detach(), target, share=_TARGET_SHARE)
        if step in revivals:
            _revive(heads, optimizer, generator)
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


def _revive(
    heads: Sequence[Head], optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> None:
    """Re-initialise dead features at samples, where they are too many."""
    some = torch.randperm(len(heads[0].hidden), generator=generator)[:_N_SAMPLES]
    looked_at = [(encoder, hidden[some.to(hidden.device)]) for encoder, hidden in heads]
    revived = revive_dead(looked_at, generator, max_dead_rate=_MAX_DEAD_RATE)
    for encoder, _ in heads:
        forget(optimizer, last_layer(encoder), revived)


def _finite(loss: float, step: int, settings: FitSettings) -> float:
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"the fit diverged: the loss is {loss} at step {step}; lower learning_rate "
            f"({settings.learning_rate:g})"
        )
    return loss


@contextmanager
def stage(text: str, *, shown: bool) -> Iterator[None]:
    """Say what is being done for as long as it takes, if anything is to be shown."""
    if not shown:
        yield
        return
    with Console().status(text):
        yield


@contextmanager
def progress_bar(n_steps: int, *, shown: bool) -> Iterator[Report | None]:
    """A function to call with each step's record, or None if nothing is to be shown."""
    if not shown:
        yield None
        return
    columns = [
        TextColumn("NCL"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TextColumn("{task.fields[active]:.1f} active per sample"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns) as bar:
        task = bar.add_task("", total=n_steps, loss=float("nan"), active=float("nan"))

        def report(record: Record) -> None:
            bar.update(
                task,
                completed=record["step"],
                loss=record["loss"],
                active=record["active_per_sample"],
            )

        yield report


@torch.no_grad()
def raise_bias(
    last: nn.Linear, scores: Tensor, target_active: float, *, share: float = 1.0
) -> float:
    """Raise all biases by one number, towards the target, if too few scores are above zero.

    Args:
        last: The layer that makes the scores; its bias changes in place.
        scores: Of samples like those to come, ``(n, d)``.
        target_active: Mean number of scores above zero per sample.
        share: How much of the way to go, up to 1.

    Returns:
        What was added to every bias: 0 where enough are on already.

    Example:
        >>> layer, scores = nn.Linear(1, 3), torch.tensor([[1.0, -2.0, -4.0]])
        >>> raise_bias(layer, scores, target_active=2)
        3.0
    """
    shift = share * max(0.0, -_border(scores, target_active))
    last.bias.add_(shift)
    return shift


def row_threshold(features: Tensor, target_active: float) -> float:
    """The size, in rows scaled to length 1, above which the target's number of entries lies.

    Dropping by one bias for all would empty the rows of weak samples; relative to the length of
    the row, each sample keeps its strongest.

    Args:
        features: Of samples like those to come, non-negative ``(n, d)``.
        target_active: Mean number of entries to keep per sample.

    Returns:
        0 where no more are on than that.

    Example:
        >>> round(row_threshold(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), target_active=1), 6)
        0.7
    """
    return min(1.0, max(0.0, _border(unit_rows(features), target_active)))


def _border(values: Tensor, per_row: float) -> float:
    """Halfway between the last value that belongs to the largest ones and the next."""
    flat: FloatArray = values.flatten().cpu().numpy()
    n_kept = max(1, min(round(per_row * len(values)), len(flat) - 1))
    places = (len(flat) - n_kept - 1, len(flat) - n_kept)
    ordered = np.partition(flat, places)
    return float(ordered[places[0]] + ordered[places[1]]) / 2


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


def fit_settings(settings: HeadSettings, n_samples: int, seed: int) -> FitSettings:
    """Steps, batch and rates for so many samples."""
    batch_size = min(settings.batch_size, n_samples)
    return FitSettings(
        n_steps=step_budget(
            n_samples, batch_size, max_epochs=settings.max_epochs, max_steps=settings.max_steps
        ),
        batch_size=batch_size,
        learning_rate=settings.learning_rate,
        temperature=settings.temperature,
        target_active=settings.target_active,
        seed=seed,
    )


def learnt_side(encoder: Encoder, hidden: Tensor, settings: HeadSettings, seed: int) -> LearntSide:
    """A trained encoder with its biases or its threshold set to the target, and its measures.

    ``max_active`` may be changed later, so what is measured does not depend on it.

    Args:
        encoder: On the device of the hidden vectors; comes back on the CPU.
        hidden: Of the training samples ``(n, h)``.
        settings: Their ``target_active`` is the mean number of active features per sample; None
            leaves them as they are.
        seed: Of the samples to measure on.
    """
    encoder.eval()
    sample, target = _some_rows(hidden, seed), settings.target_active
    threshold = 0.0
    if target is not None:
        raise_bias(last_layer(encoder), _scores(encoder, sample), target)
        threshold = row_threshold(_features(encoder, sample), target)
    encoder.thin(threshold=threshold, max_active=None)
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


def _some_rows(hidden: Tensor, seed: int) -> Tensor:
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
            f"{n_dead} of {n_features} features are dead (off for every training sample); lower "
            "temperature, learning_rate or n_components",
            stacklevel=3,
        )
