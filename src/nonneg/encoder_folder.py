"""How is an encoder kept? As settings and weights in a folder, which may be cut short or mixed."""

from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from nonneg.files import read_json, read_tensors, write_json, write_tensors
from nonneg.settings import Settings

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
# What training writes first: a folder with it but without an encoder is of an unfinished run.
_BEGUN_FILE = "run.json"
_REMEDY = "copy the folder again, or delete it and train again"

S = TypeVar("S", bound=Settings)


def write_encoder(
    folder: Path, encoder: nn.Module, settings: Settings, sample_shape: tuple[int, ...]
) -> None:
    """Write the weights and then the settings, each whole or not at all."""
    write_tensors(folder / WEIGHTS_FILE, encoder.state_dict())
    write_json(
        folder / CONFIG_FILE,
        {
            "nonneg": "encoder",
            "sample_shape": sample_shape,
            "settings": settings.model_dump(mode="json"),
        },
    )


def read_encoder_settings(folder: Path, kind: type[S]) -> tuple[S, tuple[int, ...]]:
    """The settings and the sample shape of the encoder in a folder.

    Raises:
        FileNotFoundError: If there is no encoder, or no whole one.
        ValueError: If its settings are damaged.
    """
    _check_there(folder, CONFIG_FILE)
    path = folder / CONFIG_FILE
    config = read_json(path, remedy=_REMEDY)
    if not isinstance(config, dict) or config.get("nonneg") != "encoder":
        raise ValueError(f"{path} does not describe an encoder; give the folder of a finished run")
    shape, settings = config.get("sample_shape"), config.get("settings")
    if not isinstance(shape, list) or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"{path} lacks a sample_shape of whole numbers; {_REMEDY}")
    if not isinstance(settings, dict):
        raise ValueError(f"{path} lacks the settings of the encoder; {_REMEDY}")
    try:
        found = kind.read(settings)
    except ValueError as error:
        raise ValueError(f"{path} does not describe an encoder: {error}; {_REMEDY}") from error
    _check_there(folder, WEIGHTS_FILE)
    return found, tuple(shape)


def fill_encoder(encoder: nn.Module, folder: Path, *, is_own: bool) -> None:
    """Put the weights of a folder into an encoder.

    Args:
        encoder: Built from the settings of that folder.
        folder: Where they lie.
        is_own: Whether its backbone was given by the user.
    """
    path = folder / WEIGHTS_FILE
    weights = read_tensors(path, remedy=_REMEDY)
    kinds = {weight.dtype for weight in weights.values() if weight.is_floating_point()}
    if kinds == {torch.float64}:
        encoder.double()  # a run of precision 64-true keeps its digits
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        built = ", and build the backbone as it was" if is_own else ""
        raise ValueError(
            f"{path} holds other weights than those of the encoder in {CONFIG_FILE} beside it; "
            f"copy both files from the same run{built}"
        ) from error


def _check_there(folder: Path, name: str) -> None:
    if (folder / name).exists():
        return
    if (folder / _BEGUN_FILE).exists():
        raise FileNotFoundError(
            f"{folder} is not finished: {name} is missing; continue it with nonneg train … "
            "--resume, or with nonneg fit if that began it"
        )
    raise FileNotFoundError(
        f"no encoder in {folder}: {name} is missing; give the folder of a finished run"
    )
