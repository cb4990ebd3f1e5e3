"""The parameters of the estimators, checked when fitting."""

from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from nonneg.encoder import TransformName
from nonneg.inference import chosen_device
from nonneg.settings import Settings

# With these a feature is off exactly where its score is not above zero.
_RECTIFIED = ("relu", "rep_relu")


class EstimatorSettings(Settings):
    """A constructor's arguments with their ranges, without the seed."""

    @classmethod
    def of(cls, params: dict[str, Any]) -> Self:
        """The settings of an estimator's ``get_params()``; NumPy's numbers are read as numbers."""
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}
        return cls.read({k: v for k, v in plain.items() if k != "random_state"})


class HeadSettings(EstimatorSettings):
    """What all estimators that train heads on vectors can be told."""

    n_components: PositiveInt
    hidden: NonNegativeInt
    temperature: PositiveFloat
    target_active: PositiveFloat | None
    max_active: PositiveInt | None
    nonnegative: TransformName
    max_epochs: PositiveInt | None
    max_steps: PositiveInt | None
    batch_size: int = Field(ge=2)
    learning_rate: PositiveFloat
    sparse_output: bool
    device: str
    verbose: NonNegativeInt

    @property
    def torch_device(self) -> torch.device:
        """Where to compute: ``auto`` is the machine's accelerator, or the CPU without one."""
        return chosen_device(self.device)

    @model_validator(mode="after")
    def _device_is_there(self) -> Self:
        chosen_device(self.device)
        return self

    @model_validator(mode="after")
    def _target_can_be_met(self) -> Self:
        if self.target_active is None:
            return self
        if self.target_active >= self.n_components:
            raise ValueError(
                f"target_active={self.target_active:g} must be below "
                f"n_components={self.n_components}"
            )
        if self.nonnegative not in _RECTIFIED:
            raise ValueError(
                f"target_active needs exact zeros: set nonnegative to {' or '.join(_RECTIFIED)}"
            )
        return self


class NCLSettings(HeadSettings):
    """Of :class:`nonneg.NCL`."""

    pairs: Literal["neighbors", "noise", "labels", "graph", "index"]
    n_neighbors: PositiveInt
    noise: PositiveFloat
    denoise: Literal["auto", "none"] | PositiveInt


class CrossSettings(HeadSettings):
    """Of :class:`nonneg.CrossNCL`."""

    denoise: Literal["none"] | PositiveInt
    noise: NonNegativeFloat


class GraphSettings(EstimatorSettings):
    """Of :class:`nonneg.GraphNCL`."""

    n_components: PositiveInt
    start: Literal["eigenvectors", "sampling", "random"]
    max_steps: NonNegativeInt
    tolerance: NonNegativeFloat
