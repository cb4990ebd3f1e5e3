"""The projector from hidden to scores, and a learnt gate that shuts features per sample.

The gate follows BayesNCL (ICML 2026): a feature that is shut for a sample is exactly zero there,
whatever its score.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field, PositiveInt, field_validator
from torch import Tensor, nn

from nonneg.settings import Settings

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "none": lambda _: nn.Identity(),
}


class ProjectorSettings(Settings):
    """The layers between hidden and scores.

    A rectified projector without normalisation can die in its first epochs, every feature zero
    for every sample. Batch normalisation of the inner layers prevents it.
    """

    hidden: tuple[PositiveInt, ...] = (1024,)
    """Widths of the inner layers; empty for one linear map."""
    n_features: int = Field(default=1024, ge=1)
    """Columns of the features."""
    norm: str = "batch"
    """Of the inner layers: batch, layer or none."""
    input_norm: Literal["none", "layer"] = "none"
    """What is done to hidden first. ``layer`` gives each sample's vector mean 0 and variance 1, so
    that whether a feature is on does not depend on how long the vector is."""

    @field_validator("norm")
    @classmethod
    def _known_norm(cls, norm: str) -> str:
        if norm not in NORMS:
            raise ValueError(f"unknown norm; known: {', '.join(NORMS)}")
        return norm


def projector(hidden_size: int, settings: ProjectorSettings) -> nn.Sequential:
    """Linear, norm, ReLU for each inner layer, then one linear map to the scores.

    Args:
        hidden_size: Columns of the backbone's output.
        settings: Widths and norms.

    Example:
        The authors' projector for CIFAR, 512-2048-256 without normalisation:

        >>> authors = ProjectorSettings(hidden=(2048,), n_features=256, norm="none")
        >>> sum(p.numel() for p in projector(512, authors).parameters())
        1575168
    """
    widths = [hidden_size, *settings.hidden]
    layers: list[nn.Module] = []
    if settings.input_norm == "layer":
        # Without weights of its own: the linear map behind it has them.
        layers.append(nn.LayerNorm(hidden_size, elementwise_affine=False))
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out), NORMS[settings.norm](n_out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(widths[-1], settings.n_features))


class GateSettings(Settings):
    """How gates are held open."""

    prior: float = Field(default=0.8, lt=1)
    """The probability of an open gate that costs nothing, and that gates start with: above 0.5,
    since they are open only above it."""
    weight: float = Field(default=3e-5, ge=0)
    """Of the penalty on other probabilities, summed over features, in the loss."""

    @field_validator("prior")
    @classmethod
    def _starts_open(cls, prior: float) -> float:
        if prior <= 0.5:
            raise ValueError(
                "must be above 0.5: gates start at the prior, are open only above 0.5, "
                "and with all of them shut there is nothing to learn from"
            )
        return prior


class Gate(nn.Module):
    """One gate per feature, computed from the hidden layer by two linear maps.

    Gates are shut where their probability is at most one half. The gradient passes as if the gate
    were its probability, so that what is shut can open again.

    Args:
        hidden_size: Columns of the hidden layer, h.
        n_features: Gates, d.
        settings: Prior and weight.

    Example:
        >>> gate = Gate(4, 6, GateSettings())
        >>> gate(torch.rand(3, 4)).unique().tolist()  # at first all are open
        [1.0]
    """

    def __init__(self, hidden_size: int, n_features: int, settings: GateSettings) -> None:
        super().__init__()
        self.settings = settings
        last = nn.Linear(hidden_size, n_features)
        # Weights of zero and the prior as probability: training begins as without a gate.
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, _log_odds(settings.prior))
        self.layers = nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.ReLU(), last)

    def forward(self, hidden: Tensor) -> Tensor:
        """1 for open and 0 for shut gates, ``(n, d)``, of hidden ``(n, h)``."""
        probability: Tensor = self.layers(hidden).sigmoid()
        return (probability > 0.5).to(probability) + (probability - probability.detach())

    def penalty(self, hidden: Tensor) -> Tensor:
        """The weighted divergence of the gates' probabilities from the prior, a mean over samples.

        ``KL( Bern(p) || Bern(prior) )`` summed over gates. No gradient flows to the hidden layer:
        the penalty moves the gates alone.

        Args:
            hidden: ``(n, h)``.
        """
        logits: Tensor = self.layers(hidden.detach())
        probability = logits.sigmoid()
        log_open, log_shut = nn.functional.logsigmoid(logits), nn.functional.logsigmoid(-logits)
        prior = torch.tensor(self.settings.prior, dtype=logits.dtype, device=logits.device)
        divergence = probability * (log_open - prior.log()) + (1 - probability) * (
            log_shut - (1 - prior).log()
        )
        return self.settings.weight * divergence.sum(dim=1).mean()


def _log_odds(probability: float) -> float:
    return float(torch.logit(torch.tensor(probability, dtype=torch.float64, device="cpu")))
