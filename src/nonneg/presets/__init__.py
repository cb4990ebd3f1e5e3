"""Presets: ready-made experiments, one TOML file each, in an NCL and a CL form.

Listing them needs neither PyTorch nor the packages that train them.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from nonneg.settings import nearest
from nonneg.untrusted import read_regular, toml_table


@dataclass(frozen=True)
class Preset:
    """A named experiment."""

    name: str
    about: str
    table: dict[str, Any]
    """Its settings, as ``Experiment.read`` takes them."""

    @property
    def facts(self) -> str:
        """The settings that tell presets apart, in one line; each of our own states them all."""
        encoder = self.table["encoder"]
        return " · ".join(
            [
                f"{encoder['backbone']['name']} of width {encoder['backbone']['width']}",
                f"{encoder['projector']['n_features']} features",
                encoder["nonnegative"],
                f"T {self.table['loss']['temperature']:g}",
                f"{self.table['training']['epochs']} epochs",
            ]
        )


def presets() -> list[Preset]:
    """All that come with the package, in the order of their names."""
    paths = (path for path in files("nonneg.presets").iterdir() if path.name.endswith(".toml"))
    return [_read(Path(path.name).stem, path.read_text()) for path in sorted(paths, key=str)]


def find_preset(source: str) -> tuple[Preset, bool]:
    """The preset of a name or of a TOML file, and whether the name asks for its CL form.

    Args:
        source: ``NAME``, ``NAME-ncl``, ``NAME-cl`` or the path of a TOML file.

    Example:
        >>> preset, is_signed = find_preset("digits-cl")
        >>> preset.name, is_signed
        ('digits', True)
    """
    if source.endswith(".toml"):
        path = Path(source)
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
        return _read(path.stem, _text(path)), False
    known = {preset.name: preset for preset in presets()}
    for suffix in ("", "-ncl", "-cl"):
        name = source.removesuffix(suffix)
        if source.endswith(suffix) and name in known:
            return known[name], suffix == "-cl"
    raise ValueError(
        f"there is no preset {source!r}; {nearest(source, known)} "
        "(each also as NAME-cl), or give a .toml file"
    )


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 ({error}); save it as UTF-8") from error


def _read(name: str, text: str) -> Preset:
    try:
        table = toml_table(text)
    except ValueError as error:
        raise ValueError(f"{name}.toml is not readable TOML ({error})") from error
    return Preset(name, str(table.pop("about", "")), table)
