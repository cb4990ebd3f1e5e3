"""What does a run folder say of itself? Its settings, its method, its seed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nonneg.experiments.experiment import Experiment, method
from nonneg.experiments.vector_settings import VectorExperiment
from nonneg.files import read_json
from nonneg.training.run_folder import RUN_FILE, what_counts


@dataclass(frozen=True)
class RunRecord:
    """A run folder and the settings that made it.

    Args:
        folder: Where it is.
        settings: As in ``run.json``.
    """

    folder: Path
    settings: dict[str, Any]

    @property
    def experiment(self) -> Experiment | None:
        """The experiment behind it; None for a run that was fitted, or made from Python."""
        if "data" not in self.settings or self.settings.get("task") == "fit":
            return None
        known = {key: self.settings[key] for key in Experiment.model_fields if key in self.settings}
        return Experiment.read(known)

    @property
    def fit(self) -> VectorExperiment | None:
        """What ``nonneg fit`` was told; None for other runs."""
        return VectorExperiment.read(self.settings) if self.settings.get("task") == "fit" else None

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(self.settings["seed"])

    @property
    def method(self) -> str:
        """As in ``experiments.method``, in capitals."""
        return method(self.settings).upper()

    def recipe(self) -> dict[str, Any]:
        """All settings that decide the result, but the seed: equal for runs of one group."""
        return {k: v for k, v in what_counts(self.settings).items() if k != "seed"}


def read_run(folder: str | Path) -> RunRecord:
    """The record of a run folder.

    Raises:
        FileNotFoundError: If the folder holds no run.
    """
    folder = Path(folder)
    if not (folder / RUN_FILE).exists():
        raise FileNotFoundError(
            f"{folder} holds no run: {RUN_FILE} is missing; give a folder that nonneg train or "
            "nonneg fit made"
        )
    record = read_json(folder / RUN_FILE)
    if not isinstance(record, dict) or not {"encoder", "seed"} <= set(record.get("settings", {})):
        raise ValueError(f"{folder / RUN_FILE} does not describe a run")
    return RunRecord(folder, record["settings"])
