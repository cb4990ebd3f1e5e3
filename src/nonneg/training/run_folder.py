"""Whose folder is this? A run owns its folder; another configuration is never written over it."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nonneg.files import read_json, write_bytes, write_json
from nonneg.settings import differences
from nonneg.training.settings import MACHINE_SETTINGS

RUN_FILE = "run.json"
HISTORY_FILE = "history.jsonl"
CHECKPOINTS = "checkpoints"


class RunFolder:
    """The folder of one training run.

    Args:
        path: Where; made when the run starts.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / CHECKPOINTS

    def claim(self, settings: dict[str, Any], *, resume: bool) -> None:
        """Make the folder this run's, or check that it already is.

        Args:
            settings: All that decides the result, as plain values.
            resume: Whether a run with the same settings may be continued.

        Raises:
            FileExistsError: If the folder holds something else, or this run and ``resume`` is off.
        """
        if not (self.path / RUN_FILE).exists():
            self._check_empty()
            write_json(self.path / RUN_FILE, {"settings": settings, "versions": _versions()})
            return
        there = read_json(self.path / RUN_FILE)["settings"]
        changed = differences(what_counts(there), what_counts(_plain(settings)))
        if changed:
            listed = "; ".join(
                f"{key}: {old!r} there, {new!r} here" for key, old, new in changed[:3]
            )
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            raise FileExistsError(
                f"{self.path} holds a run with other settings ({listed}{more}); "
                "choose another folder"
            )
        if not resume:
            raise FileExistsError(
                f"{self.path} already holds this run; resume it (--resume) or choose another folder"
            )

    def write_history(self, history: list[dict[str, Any]]) -> None:
        """Write one JSON object a line, the whole file at once."""
        lines = "".join(json.dumps(record) + "\n" for record in history)
        write_bytes(self.path / HISTORY_FILE, lines.encode())

    def _check_empty(self) -> None:
        """Hidden files do not count: they may be what a killed run left of its first write."""
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"{self.path} is a file; choose another folder for the run")
        if self.path.is_dir() and any(not p.name.startswith(".") for p in self.path.iterdir()):
            raise FileExistsError(
                f"{self.path} is not empty and holds no run; choose another folder"
            )


def read_history(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's finished epochs, oldest first."""
    text = (Path(folder) / HISTORY_FILE).read_text()
    return [json.loads(line) for line in text.splitlines()]


def what_counts(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run without those that only say where it happens."""
    loop = settings.get("training", {})
    return {
        **settings,
        "training": {k: v for k, v in loop.items() if k not in MACHINE_SETTINGS},
    }


def _plain(settings: dict[str, Any]) -> Any:  # noqa: ANN401
    """As JSON gives it back: tuples become lists."""
    return json.loads(json.dumps(settings))


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("nonneg", "torch", "numpy", "lightning-fabric")}
