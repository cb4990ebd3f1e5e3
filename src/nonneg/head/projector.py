"""The projector: a small perceptron from hidden to scores."""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

from pydantic import Field, PositiveInt, field_validator
from torch import nn

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
