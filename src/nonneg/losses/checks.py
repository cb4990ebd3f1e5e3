"""Checks of the inputs of losses; each raises one clear error that names the input."""

import math

import torch
from torch import Tensor


def check_two_views(z_a: Tensor, z_b: Tensor, *, n_processes: int = 1) -> None:
    """Raise a clear error unless both are ``(n, d)`` floats, of at least two pairs in all."""
    for name, z in (("z_a", z_a), ("z_b", z_b)):
        if not isinstance(z, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(z).__name__}")
        if z.ndim != 2 or not z.shape[1]:
            raise ValueError(f"{name} must be (n_samples, n_features), got shape {tuple(z.shape)}")
        if not z.is_floating_point():
            raise TypeError(f"{name} must be floating point, got {z.dtype}")
    if z_a.shape != z_b.shape:
        raise ValueError(
            f"z_a and z_b must have the same shape, got {tuple(z_a.shape)} and {tuple(z_b.shape)}"
        )
    if len(z_a) * n_processes < 2:
        raise ValueError(
            f"a batch of {len(z_a)} pairs has no negatives; give the loss at least 2 pairs"
        )


def check_temperature(temperature: float | Tensor) -> None:
    """Raise a clear error unless the temperature is a finite number above 0."""
    value = float(temperature.detach()) if isinstance(temperature, Tensor) else temperature
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"temperature must be a finite number above 0, got {value:g}")


def check_pairs(n: int, *, weights: Tensor | None, groups: Tensor | None) -> None:
    """Raise a clear error unless there is a sensible weight and a group for each of n pairs."""
    for name, given in (("weights", weights), ("groups", groups)):
        if given is not None and given.shape != (n,):
            raise ValueError(
                f"{name} must have one number for each of the {n} pairs, "
                f"got shape {tuple(given.shape)}"
            )
    if groups is not None and (groups.is_floating_point() or groups.dtype == torch.bool):
        raise TypeError(f"groups must be whole numbers, got {groups.dtype}")
    if weights is not None and not bool((weights >= 0).all() & weights.isfinite().all()):
        raise ValueError("weights must be finite and at least 0")


def check_has_negatives(groups: Tensor) -> None:
    """Raise a clear error if all pairs are in one group."""
    if bool((groups == groups[0]).all()):
        raise ValueError(
            f"all {len(groups)} pairs are in group {int(groups[0])}, so there are no negatives; "
            "use a batch of several groups, or same_group='positive'"
        )
