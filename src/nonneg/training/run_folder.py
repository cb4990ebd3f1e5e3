"""The folder of a run, which belongs to one configuration and is never written over by another."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nonneg.encoder import CONFIG_FILE, WEIGHTS_FILE
from nonneg.io import read_json, write_bytes, write_json
from nonneg.settings import differences
from nonneg.training.settings import MACHINE_SETTINGS

RUN_FILE = "run.json"
HISTORY_FILE = "history.jsonl"
CHECKPOINTS = "checkpoints"
REMEDY = "copy the run again, or delete its folder and train again"


class RunFolder:
    """The folder of one training run.

    Args:
        path: Where; made when the run starts.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / CHECKPOINTS

    @property
    def is_finished(self) -> bool:
        """Whether the encoder that came out of the run is there."""
        return all((self.path / name).exists() for name in (RUN_FILE, CONFIG_FILE, WEIGHTS_FILE))

    def claim(
        self, settings: dict[str, Any], *, resume: bool, data_digest: str | None = None
    ) -> None:
        """Make the folder this run's, or check that it already is.

        Whoever goes on to write there calls it within :func:`nonneg.run_lock.locked`.

        Args:
            settings: All that decides the result, as plain values.
            resume: Whether a run with the same settings may be continued.
            data_digest: Of the file that the data comes from; None where it is no file.

        Raises:
            FileExistsError: If the folder holds something else, or this run and ``resume`` is off,
                or if the run began with other data.
        """
        if not (self.path / RUN_FILE).exists():
            self._check_empty()
            record: dict[str, Any] = {"settings": settings, "versions": _versions()}
            if data_digest is not None:
                record["data_digest"] = data_digest
            write_json(self.path / RUN_FILE, record)
            return
        there = read_record(self.path)
        changed = differences(what_counts(there["settings"]), what_counts(_plain(settings)))
        if changed:
            listed = "; ".join(
                f"{key}: {old!r} there, {new!r} here" for key, old, new in changed[:3]
            )
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            raise FileExistsError(
                f"{self.path} holds a run with other settings ({listed}{more}); "
                "choose another folder, or delete this one"
            )
        # Runs that began before digests were kept have none.
        if there.get("data_digest", data_digest) != data_digest:
            raise FileExistsError(
                f"the data file has changed since {self.path} was begun with it; put the old file "
                "back or choose another folder"
            )
        if not resume:
            raise FileExistsError(
                f"{self.path} already holds this run; resume it (--resume, from Python "
                "resume=True) or choose another folder"
            )

    def write_history(self, history: list[dict[str, Any]]) -> None:
        """Write one JSON object a line, the whole file at once."""
        lines = "".join(json.dumps(record) + "\n" for record in history)
        write_bytes(self.path / HISTORY_FILE, lines.encode())

    def _check_empty(self) -> None:
        """Hidden files do not count: the lock is one, and so is what a kill left of a write."""
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"{self.path} is a file; choose another folder for the run")
        if self.path.is_dir() and any(not p.name.startswith(".") for p in self.path.iterdir()):
            raise FileExistsError(
                f"{self.path} is not empty and holds no run; choose another folder"
            )


def read_record(folder: str | Path) -> dict[str, Any]:
    """What ``run.json`` holds: ``settings``, ``versions`` and perhaps ``data_digest``.

    Raises:
        ValueError: If it is damaged or something else.
    """
    path = Path(folder) / RUN_FILE
    record = read_json(path, remedy=REMEDY)
    if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
        raise ValueError(f"{path} does not describe a run; {REMEDY}")
    return record


def read_history(folder: str | Path) -> list[dict[str, Any]]:
    """The records of a run's finished epochs, oldest first.

    Raises:
        ValueError: If a line of the file is no record.
    """
    path = Path(folder) / HISTORY_FILE
    return [
        _record(line, f"line {number} of {path}")
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
    ]


def _record(line: bytes, place: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place} is not readable JSON ({error}); {REMEDY}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{place} is not a JSON object; {REMEDY}")
    return record


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
