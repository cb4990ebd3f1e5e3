"""Where are the official files of a known data set? Found, or named one by one as missing."""

import os
from pathlib import Path

DATA_DIR_VARIABLE = "NONNEG_DATA"


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Where data sets are looked for: the argument, else ``NONNEG_DATA``, else ``~/.cache/nonneg``.

    Example:
        >>> data_folder("sets").name
        'sets'
    """
    return Path(data_dir or os.environ.get(DATA_DIR_VARIABLE) or "~/.cache/nonneg").expanduser()


def official_files(
    folder: Path, names: tuple[str, ...], *, advice: str, endings: tuple[str, ...] = ("",)
) -> list[Path]:
    """The path of each file, in the given order.

    Args:
        folder: Where they must be.
        names: Official file names.
        advice: What to put into the folder, for the sentence when one is missing.
        endings: What may follow a name; the first that exists is taken.
    """
    found = [_first_existing(folder, name, endings) for name in names]
    missing = [name for name, path in zip(names, found, strict=True) if path is None]
    if missing:
        raise FileNotFoundError(
            f"{' and '.join(missing)} not found in {folder}; put {advice} there, or name the folder"
            f" that holds {folder.name} with --data-dir (data_dir in Python) or the variable"
            f" {DATA_DIR_VARIABLE}"
        )
    return [path for path in found if path is not None]


def _first_existing(folder: Path, name: str, endings: tuple[str, ...]) -> Path | None:
    candidates = [folder / (name + ending) for ending in endings]
    return next((path for path in candidates if path.is_file()), None)
