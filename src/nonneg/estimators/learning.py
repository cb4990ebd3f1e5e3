"""What happens in ``fit``? Denoise, find partners, train the head, count what is alive."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nonneg import metrics
from nonneg.encoder import Encoder, EncoderSettings
from nonneg.estimators.denoising import fitted_projection
from nonneg.estimators.fitting import FitSettings, Record, fit_head, step_budget
from nonneg.estimators.progress import progress_bar
from nonneg.estimators.settings import NCLSettings
from nonneg.estimators.sources import Given, partners
from nonneg.estimators.steering import above_threshold, raise_bias, row_threshold
from nonneg.estimators.vectors import tiles
from nonneg.metrics.results import FloatArray
from nonneg.projector import ProjectorSettings

# Ranking, dead features and the bias are measured on at most so many training samples.
_MEASURED = 20_000


@dataclass(frozen=True)
class Learnt:
    """What ``fit`` leaves behind.

    Args:
        encoder: On the CPU, in evaluation mode.
        threshold: Features below this share of the length of their row are to be dropped.
        history: Records of the training.
        expected_activation: Mean activation of each feature on training samples ``(d,)``.
        n_alive: Features that are on for some training sample.
    """

    encoder: Encoder
    threshold: float
    history: list[Record]
    expected_activation: FloatArray
    n_alive: int


def learn(X: Any, settings: NCLSettings, given: Given, seed: int) -> Learnt:  # noqa: ANN401
    """Learn readable features of vectors ``(n, d)`` that have been checked.

    Args:
        X: An array, a memory map or SciPy CSR.
        settings: How.
        given: Labels, graph or index pairs, where ``settings.pairs`` needs them.
        seed: Of everything drawn; torch's own generator is left alone.
    """
    device = settings.torch_device
    projection = fitted_projection(X, settings.denoise, seed)
    hidden = torch.cat([projection(part) for _, part in tiles(X)]).to(device)
    pairs = partners(settings, hidden, given)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = Encoder(_encoder_settings(settings), (X.shape[1],), backbone=projection)
    encoder.to(device)
    fit_settings = _fit_settings(settings, len(hidden), seed)
    with progress_bar(fit_settings.n_steps, shown=settings.verbose > 0) as progress:
        history = fit_head(encoder, hidden, pairs, fit_settings, progress)
    encoder.eval()
    sample, threshold = _some_rows(hidden, seed), 0.0
    if settings.target_active is not None:
        last = encoder.projector[-1]
        assert isinstance(last, nn.Linear)
        raise_bias(last, _scores(encoder, sample), settings.target_active)
        threshold = row_threshold(_features(encoder, sample), settings.target_active)
    features = _features(encoder, sample)
    if threshold > 0:
        features = above_threshold(features, threshold)
    activation = metrics.expected_activation(features)
    return Learnt(encoder.cpu(), threshold, history, activation.per_feature, activation.n_alive)


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


def _fit_settings(settings: NCLSettings, n_samples: int, seed: int) -> FitSettings:
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


def _encoder_settings(settings: NCLSettings) -> EncoderSettings:
    head = ProjectorSettings(hidden=(settings.hidden,) if settings.hidden else ())
    # A copy is not checked: one feature is of little use, but scikit-learn's contract allows it.
    head = head.model_copy(update={"n_features": settings.n_components})
    return EncoderSettings(frozen=True, projector=head, nonnegative=settings.nonnegative)
