"""How is a fitted estimator kept? As its encoders' files, with its own facts in the JSON."""

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from nonneg.encoder import CONFIG_FILE, Encoder
from nonneg.estimators.places import ESTIMATOR, UNFINISHED, check_place, content
from nonneg.estimators.projection import Projection
from nonneg.head.revival import last_layer
from nonneg.io import digest_of_file, read_json, write_json
from nonneg.metrics.results import IntArray


def write_fitted(folder: Path, estimator: Any) -> None:  # noqa: ANN401
    """Write a fitted estimator: ``config.json``, and ``model.safetensors`` of each encoder.

    All is written beside and then moved, the estimator's own file last. It holds the digests of all
    other files, so that those of two saves are never read as one.

    Args:
        folder: Is made if it is not there. The encoder of an estimator with one lies in it, those
            of an estimator with several in folders of their own.
        estimator: Its ``_encoder_folders`` names the attributes that are encoders.

    Raises:
        FileExistsError: If the folder is a file, or holds something else than an estimator of the
            same class.
    """
    places = estimator._encoder_folders
    check_place(folder, type(estimator).__name__, places.values())
    beside = folder / UNFINISHED
    shutil.rmtree(beside, ignore_errors=True)
    for attribute, place in places.items():
        getattr(estimator, attribute).save(beside / place)
    path = beside / CONFIG_FILE
    config = read_json(path) if "" in places.values() else {}
    params = {key: _plain(value) for key, value in estimator.get_params(deep=False).items()}
    facts: dict[str, Any] = {
        "name": type(estimator).__name__,
        "files": {
            file.relative_to(beside).as_posix(): digest_of_file(file)
            for file in sorted(beside.rglob("*"))
            if file.is_file() and file != path
        },
        "params": params,
        "n_axes": estimator.n_axes_,
        "threshold": estimator.threshold_,
        "history": estimator.history_,
        "expected_activation": estimator.expected_activation_.tolist(),
        "n_alive": estimator.n_alive_,
        "feature_names": estimator.feature_names_,
    }
    if hasattr(estimator, "feature_names_in_"):
        facts["feature_names_in"] = estimator.feature_names_in_.tolist()
    write_json(path, {**config, ESTIMATOR: facts})
    for file in (*facts["files"], CONFIG_FILE):
        (folder / file).parent.mkdir(exist_ok=True)
        (beside / file).replace(folder / file)
    shutil.rmtree(beside)


def read_fitted(folder: Path, kind: type[Any]) -> Any:  # noqa: ANN401
    """The estimator of this class that was written to the folder."""
    path = folder / CONFIG_FILE
    if not path.exists():
        raise FileNotFoundError(f"no estimator in {folder}: {CONFIG_FILE} is missing")
    config = read_json(path)
    facts = config.get(ESTIMATOR) if isinstance(config, dict) else None
    if not isinstance(facts, dict) or facts.get("name") != kind.__name__:
        raise ValueError(
            f"{path} does not describe a fitted {kind.__name__} but {content(config)}; "
            + _way_to_load(content(config), kind.__name__)
        )
    try:
        return _from_facts(folder, facts, kind)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} does not describe a whole {kind.__name__} ({error}); copy the folder again, "
            "or fit again"
        ) from error


def _from_facts(folder: Path, facts: dict[str, Any], kind: type[Any]) -> Any:  # noqa: ANN401
    for name, digest in facts.get("files", {}).items():
        _check_file(folder / name, digest)
    estimator = kind(**facts["params"])
    places = kind._encoder_folders
    for (attribute, place), n_axes in zip(places.items(), _each(facts["n_axes"]), strict=True):
        setattr(estimator, attribute, _read_encoder(folder / place, n_axes))
    (estimator.n_features_in_,) = getattr(estimator, next(iter(places))).sample_shape
    threshold = facts["threshold"]
    estimator.threshold_ = tuple(threshold) if isinstance(threshold, list) else threshold
    estimator.history_ = facts["history"]
    estimator.expected_activation_ = np.array(facts["expected_activation"])
    estimator.n_alive_ = facts["n_alive"]
    estimator.feature_names_ = facts["feature_names"]
    if "feature_names_in" in facts:
        estimator.feature_names_in_ = np.array(facts["feature_names_in"], dtype=object)
    return estimator


def smaller_encoder(encoder: Encoder, chosen: IntArray) -> Encoder:
    """A copy of the encoder that computes only the chosen features, in this order."""
    smaller = copy.deepcopy(encoder)
    last = last_layer(smaller)
    rows = torch.from_numpy(chosen)
    last.weight = nn.Parameter(last.weight.detach()[rows].clone())
    last.bias = nn.Parameter(last.bias.detach()[rows].clone())
    last.out_features = len(chosen)
    projector = encoder.settings.projector.model_copy(update={"n_features": len(chosen)})
    smaller.settings = encoder.settings.model_copy(update={"projector": projector})
    return smaller


def _plain(value: object) -> Any:  # noqa: ANN401
    """A setting as JSON can hold it; the state of a random generator is not kept."""
    if isinstance(value, np.generic):
        return value.item()
    return None if isinstance(value, np.random.RandomState) else value


def _check_file(path: Path, digest: str) -> None:
    if path.exists() and digest_of_file(path) != digest:
        raise ValueError(
            f"{path} is not the file that the estimator was saved with: a later save was "
            "interrupted, files of two were mixed, or it is damaged; save the estimator again"
        )


def _way_to_load(there: str, name: str) -> str:
    if there == "an encoder":
        return "load it with nonneg.Encoder.load"
    if there in ("a fitted NCL", "a fitted CrossNCL"):
        return f"load it with nonneg.{there.split()[-1]}.load"
    return f"give a folder that {name}.save has written"


def _each(value: Any) -> list[Any]:  # noqa: ANN401
    return value if isinstance(value, list) else [value]


def _read_encoder(folder: Path, n_axes: int) -> Encoder:
    path = folder / CONFIG_FILE
    if not path.exists():
        raise FileNotFoundError(f"a part of the estimator is missing: there is no {path}")
    (n_columns,) = read_json(path)["sample_shape"]
    # Building an encoder draws weights, which are then overwritten: leave torch's state alone.
    with torch.random.fork_rng(devices=[]):
        return Encoder.load(folder, backbone=Projection(n_columns, n_axes))
