"""What happens in ``fit``? Denoise, find partners, train the head, count what is alive."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nonneg import metrics
from nonneg.encoder import Encoder, EncoderSettings
from nonneg.estimators.denoising import fitted_projection
from nonneg.estimators.fitting import fit_head
from nonneg.estimators.heads import FitSettings, Record
from nonneg.estimators.progress import progress_bar, stage
from nonneg.estimators.projection import Projection
from nonneg.estimators.schedule import step_budget
from nonneg.estimators.settings import HeadSettings, NCLSettings
from nonneg.estimators.sources import Given, partners
from nonneg.estimators.steering import above_threshold, raise_bias, row_threshold
from nonneg.estimators.vectors import tiles
from nonneg.head.projector import ProjectorSettings
from nonneg.head.revival import last_layer
from nonneg.metrics.results import BoolArray, FloatArray

# Ranking, dead features and the bias are measured on at most so many training samples.
_MEASURED = 20_000


@dataclass(frozen=True)
class LearntSide:
    """What ``fit`` leaves behind of one kind of vectors.

    Args:
        encoder: On the CPU, in evaluation mode.
        threshold: Features below this share of the length of their row are to be dropped.
        expected_activation: Mean activation of each feature on training samples ``(d,)``.
        alive: Whether each feature is on for some training sample ``(d,)``.

    The last two are of 20,000 drawn samples where there are more.
    """

    encoder: Encoder
    threshold: float
    expected_activation: FloatArray
    alive: BoolArray


def learn(
    X: Any,  # noqa: ANN401
    settings: NCLSettings,
    given: Given,
    seed: int,
) -> tuple[LearntSide, list[Record]]:
    """Readable features of vectors ``(n, d)`` that have been checked, and records of the training.

    Args:
        X: An array, a memory map or SciPy CSR.
        settings: How.
        given: Labels, graph or index pairs, where ``settings.pairs`` needs them.
        seed: Of everything drawn; torch's own generator is left alone.
    """
    is_shown = settings.verbose > 0
    with stage(f"denoising {X.shape[0]:,} samples", shown=is_shown):
        projection = fitted_projection(X, settings.denoise, seed)
        hidden = hidden_vectors(X, projection, settings)
    with stage(f"looking for partners of {X.shape[0]:,} samples", shown=is_shown):
        pairs = partners(settings, hidden, given)
    encoder = new_encoder(projection, settings, seed)
    steps = fit_settings(settings, len(hidden), seed)
    with progress_bar(steps.n_steps, shown=is_shown) as progress:
        history = fit_head(encoder, hidden, pairs, steps, progress)
    return learnt_side(encoder, hidden, settings.target_active, seed), history


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


def learnt_side(
    encoder: Encoder, hidden: Tensor, target_active: float | None, seed: int
) -> LearntSide:
    """A trained encoder with its biases or its threshold set to the target, and its measures.

    Args:
        encoder: On the device of the hidden vectors; comes back on the CPU.
        hidden: Of the training samples ``(n, h)``.
        target_active: Mean number of active features a sample; None leaves them as they are.
        seed: Of the samples to measure on.
    """
    encoder.eval()
    sample, threshold = _some_rows(hidden, seed), 0.0
    if target_active is not None:
        raise_bias(last_layer(encoder), _scores(encoder, sample), target_active)
        threshold = row_threshold(_features(encoder, sample), target_active)
    features = _features(encoder, sample)
    if threshold > 0:
        features = above_threshold(features, threshold)
    activation = metrics.expected_activation(features).per_feature
    return LearntSide(encoder.cpu(), threshold, activation, metrics.alive_features(features))


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
