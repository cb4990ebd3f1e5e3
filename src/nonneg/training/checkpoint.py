"""Checkpoints: one file with weights, optimiser, position and history, which survives a crash."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.optim import Optimizer

from nonneg.io import write_tensors
from nonneg.untrusted import check_regular, json_value

N_KEPT = 2
_NAME = re.compile(r"step-(\d{9})\.safetensors")


@dataclass
class Position:
    """How far a run has come."""

    step: int = 0
    """Optimiser steps taken."""
    epoch: int = 0
    """Epochs finished."""
    batch: int = 0
    """Batches of the running epoch that are done."""
    loss_sum: float = 0.0
    """Sum of their losses."""
    seconds: float = 0.0
    """Spent on them."""
    within: list[dict[str, Any]] = field(default_factory=list)
    """Measurements within the running epoch."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """A record for each finished epoch."""


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: Optimizer, position: Position
) -> None:
    """Write a checkpoint whole or not at all, then remove all but the last two."""
    tensors = {
        **{f"model.{name}": tensor for name, tensor in model.state_dict().items()},
        **_optimizer_tensors(optimizer),
    }
    tensors = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    text = json.dumps(vars(position))
    metadata = {"position": text, "digest": _digest(tensors, text)}
    write_tensors(folder / f"step-{position.step:09d}.safetensors", tensors, metadata)
    for path in checkpoints(folder)[:-N_KEPT]:
        path.unlink(missing_ok=True)


def load_checkpoint(
    folder: Path, model: nn.Module, optimizer: Optimizer, *, say: Callable[[str], None]
) -> Position | None:
    """Restore model and optimiser, and return the position.

    Tries the newest checkpoint first; a truncated or damaged one is reported and the one before it
    is used. None where the folder has no checkpoint.

    Raises:
        ValueError: If there are checkpoints and none can be read.
    """
    paths = checkpoints(folder)
    for path in reversed(paths):
        try:
            tensors, position = _read(path)
        except (OSError, ValueError) as error:
            say(f"{path} cannot be used ({error}); going back to the checkpoint before it")
            continue
        try:
            model.load_state_dict(_part(tensors, "model."))
        except RuntimeError as error:
            raise ValueError(
                f"{path} holds other weights than those of the encoder to train; build it as it "
                "was, or choose another folder"
            ) from error
        _restore_optimizer(optimizer, _part(tensors, "optimizer."))
        return position
    if paths:
        raise ValueError(
            f"none of the {len(paths)} checkpoints in {folder} can be read; "
            "remove the run folder and train again"
        )
    return None


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    return sorted(path for path in folder.glob("*") if _NAME.fullmatch(path.name))


def _read(path: Path) -> tuple[dict[str, Tensor], Position]:
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except OSError:
        raise
    except Exception as error:
        # safetensors raises its own type, which is not a ValueError.
        raise ValueError(f"not a whole safetensors file: {error}") from error
    text = metadata.get("position", "")
    if metadata.get("digest") != _digest(tensors, text):
        raise ValueError("its content does not match its checksum")
    try:
        return tensors, Position(**json_value(text))
    except TypeError as error:
        raise ValueError(f"its position is not that of a run: {error}") from error


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The state of each parameter by its number; rates and the like come from the settings."""
    return {
        f"optimizer.{number}.{key}": torch.as_tensor(value)
        for number, values in optimizer.state_dict()["state"].items()
        for key, value in values.items()
    }


def _restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
