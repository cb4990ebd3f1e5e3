"""May an estimator be saved here? In a new folder, or over one of its own kind; nowhere else."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nonneg.encoder import CONFIG_FILE, WEIGHTS_FILE
from nonneg.io import read_json
from nonneg.training.run_folder import RUN_FILE, read_record

# What config.json has of an estimator, beside or instead of what it has of an encoder.
ESTIMATOR = "estimator"
# A folder inside that of the estimator, whose files are moved to their places when all are there.
UNFINISHED = ".unfinished"
_ENCODER_FILES = (CONFIG_FILE, WEIGHTS_FILE)


def check_place(folder: Path, name: str, encoder_folders: Iterable[str]) -> None:
    """Raise a sentence where saving an estimator would overwrite something else.

    Args:
        folder: Need not be there. That of ``nonneg fit`` may hold the run's own files already.
        name: The class of the estimator.
        encoder_folders: Where in the folder its encoders go; empty for the folder itself.
    """
    for place in (folder, *folder.parents):
        if place.is_file():
            raise FileExistsError(f"{place} is a file; choose another folder to save {name} in")
    lost = _lost(folder, name, encoder_folders)
    if lost:
        raise FileExistsError(
            f"saving {name} in {folder} would overwrite {lost}; choose another folder"
        )


def _lost(folder: Path, name: str, encoder_folders: Iterable[str]) -> str:
    """What would be lost, in words; empty for nothing."""
    if (folder / RUN_FILE).exists() and read_record(folder)["settings"].get("task") != "fit":
        return "a training run"
    path = folder / CONFIG_FILE
    if path.exists():
        there = content(read_json(path, remedy="choose another folder"))
        return "" if there == f"a fitted {name}" else there
    if (folder / UNFINISHED).exists():  # an interrupted save left files without config.json
        return ""
    places = [Path(place) / file for place in encoder_folders for file in _ENCODER_FILES]
    return next((str(place) for place in places if (folder / place).exists()), "")


def content(config: Any) -> str:  # noqa: ANN401
    """What the content of a ``config.json`` describes, in words.

    Example:
        >>> content({"nonneg": "encoder", "estimator": {"name": "NCL"}})
        'a fitted NCL'
        >>> content({"nonneg": "encoder"})
        'an encoder'
    """
    facts = config.get(ESTIMATOR) if isinstance(config, dict) else None
    if isinstance(facts, dict):
        return f"a fitted {facts.get('name')}"
    is_encoder = isinstance(config, dict) and config.get("nonneg") == "encoder"
    return "an encoder" if is_encoder else "something else"
