"""Where and how a module runs: its device, its processes, and temporary evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards each part has its own mode back.

    Some parts may be in evaluation mode within a training whole, such as frozen normalisation.
    """
    modes = [(part, part.training) for part in module.modules()]
    # A module that is in this mode already, as a fitted one is, is not written to: threads may
    # share it, and setting attributes of modules is slow.
    if any(training for _, training in modes):
        module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            if part.training != training:
                part.training = training


@contextmanager
def evaluating_on(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Evaluation mode on a device inside the block; afterwards the module is on the CPU again.

    Args:
        module: On the CPU; it is moved only where the device is another.
        device: Where to compute.
    """
    if next(module.parameters()).device != device:
        module.to(device)
    try:
        with evaluation_mode(module):
            yield
    finally:
        if device.type != "cpu":
            module.cpu()


def chosen_device(name: str = "auto") -> torch.device:
    """The device of this name, which exists; ``auto`` is the accelerator, or the CPU without one.

    Raises:
        ValueError: PyTorch does not know the name, or sees no such device.

    Example:
        >>> chosen_device("cpu")
        device(type='cpu')
    """
    if name == "auto":
        return _accelerator()[0] or torch.device("cpu")
    try:
        wanted = torch.device(name)
    except RuntimeError:
        raise ValueError(
            f"unknown device {name!r}; use auto, cpu, cuda or another of PyTorch's"
        ) from None
    found, n_devices = _accelerator()
    n_found = n_devices if found is not None and found.type == wanted.type else 0
    if wanted.type != "cpu" and (wanted.index or 0) >= n_found:
        raise ValueError(
            f"device={name!r} was asked for, but PyTorch sees {n_found or 'no'} "
            f"{wanted.type.upper()} device{'s' * (n_found > 1)}; use device='auto' or 'cpu'"
        )
    return wanted


def _accelerator() -> tuple[torch.device | None, int]:
    """The accelerator that PyTorch sees, and how many of its kind."""
    if hasattr(torch, "accelerator"):  # from 2.6 on
        if torch.accelerator.is_available():
            return torch.accelerator.current_accelerator(), torch.accelerator.device_count()
    elif torch.cuda.is_available():
        return torch.device("cuda"), torch.cuda.device_count()
    elif torch.backends.mps.is_available():
        return torch.device("mps"), 1
    return None, 0


def has_processes() -> bool:
    """Whether this process belongs to a group of processes."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()
