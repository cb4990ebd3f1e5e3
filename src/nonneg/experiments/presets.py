"""Which experiments come ready-made? One TOML file each, in an NCL and a CL form."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from nonneg.experiments.experiment import Experiment
from nonneg.settings import nearest, with_overrides

_FOLDER = files("nonneg.experiments") / "presets"


@dataclass(frozen=True)
class Preset:
    """A named experiment."""

    name: str
    about: str
    table: dict[str, Any]


def presets() -> list[Preset]:
    """All that come with the package, in order of their names."""
    paths = sorted((path for path in _FOLDER.iterdir() if path.name.endswith(".toml")), key=str)
    return [_read(Path(path.name).stem, path.read_text()) for path in paths]


def read_experiment(source: str, overrides: Iterable[str] = ()) -> tuple[str, Experiment]:
    """The experiment of a preset or TOML file, and the name that its run folder gets.

    ``NAME`` and ``NAME-ncl`` are the same; ``NAME-cl`` is ordinary contrastive learning with all
    else equal.

    Args:
        source: A preset's name, or the path of a TOML file.
        overrides: Assignments as ``optimizer.lr=0.3``.

    Example:
        >>> name, experiment = read_experiment("digits-cl", ["seed=1"])
        >>> name, experiment.encoder.nonnegative, experiment.seed
        ('digits-cl-seed1', 'identity', 1)
    """
    preset, is_signed = _find(source)
    experiment = Experiment.read(with_overrides(preset.table, overrides))
    # Cross entropy is the signed control of non-negative cross entropy.
    if is_signed or experiment.loss.name == "ce":
        experiment = experiment.signed()
    seed = f"-seed{experiment.seed}" if experiment.seed else ""
    return f"{preset.name}-{experiment.method}{seed}", experiment


def _find(source: str) -> tuple[Preset, bool]:
    if source.endswith(".toml"):
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
        return _read(path.stem, path.read_text()), False
    known = {preset.name: preset for preset in presets()}
    for suffix in ("", "-ncl", "-cl"):
        name = source.removesuffix(suffix)
        if source.endswith(suffix) and name in known:
            return known[name], suffix == "-cl"
    raise ValueError(
        f"there is no preset {source!r}; {nearest(source, known)} "
        "(each also as NAME-cl), or give a .toml file"
    )


def _read(name: str, text: str) -> Preset:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name}.toml is not readable TOML ({error})") from error
    return Preset(name, str(table.pop("about", "")), table)
