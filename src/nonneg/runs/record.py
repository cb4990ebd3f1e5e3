"""What a run folder says of itself, and the encoder that came out of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nonneg.encoder import CONFIG_FILE, Encoder
from nonneg.io import read_json
from nonneg.runs.experiment import DataSettings, Experiment, file_digest, method
from nonneg.runs.fitting import is_fitted
from nonneg.runs.vector_fits import VectorExperiment
from nonneg.settings import Settings
from nonneg.training.run_folder import REMEDY, RUN_FILE, read_record, what_counts

AnySettings = TypeVar("AnySettings", bound=Settings)
# What every run says of itself, however it was made.
_ALWAYS = {"encoder": "nonnegative", "loss": "name"}


@dataclass(frozen=True)
class RunRecord:
    """A run folder and the settings that made it.

    Args:
        folder: Where it is.
        settings: As in ``run.json``.
        data_digest: Of the file that it learnt from; None where that was no file of its own.
    """

    folder: Path
    settings: dict[str, Any]
    data_digest: str | None = None

    @property
    def experiment(self) -> Experiment | None:
        """The experiment behind it; None for a run that was fitted, or made from Python."""
        if not self.knows_data or self.settings.get("task") == "fit":
            return None
        known = {key: self.settings[key] for key in Experiment.model_fields if key in self.settings}
        return self._read(Experiment, known)

    @property
    def fit(self) -> VectorExperiment | None:
        """What ``nonneg fit`` was told; None for other runs."""
        is_fit = self.settings.get("task") == "fit"
        return self._read(VectorExperiment, self.settings) if is_fit else None

    @property
    def knows_data(self) -> bool:
        """Whether it says what it learnt from; one that ``nonneg.train`` made does not."""
        return "data" in self.settings

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(self.settings["seed"])

    @property
    def method(self) -> str:
        """As in ``experiments.method``, in capitals."""
        return method(self.settings).upper()

    def check_unchanged(self, data: DataSettings) -> None:
        """Raise a sentence if the file that the run learnt from is not what it was."""
        if self.data_digest is not None and file_digest(data) not in (None, self.data_digest):
            raise ValueError(
                f"{data.name} has changed since the run was trained on it; train again, or name "
                "other data with --data"
            )

    def _read(self, kind: type[AnySettings], values: dict[str, Any]) -> AnySettings:
        try:
            return kind.read(values)
        except ValueError as error:
            raise ValueError(f"{self.folder / RUN_FILE}: {error}") from error

    def recipe(self) -> dict[str, Any]:
        """All settings that decide the result, but the seed: equal for runs of one group.

        Without those that are off: a run that was made before a setting existed has none of it.
        """
        return {k: v for k, v in _without_absent(what_counts(self.settings)).items() if k != "seed"}


def _without_absent(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_absent(value) if isinstance(value, dict) else value
        for key, value in settings.items()
        if value is not None
    }


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
    record = read_record(folder)
    settings = record["settings"]
    for group, key in _ALWAYS.items():
        if not isinstance(settings.get(group), dict) or key not in settings[group]:
            raise ValueError(f"{folder / RUN_FILE} lacks the setting {group}.{key}; {REMEDY}")
    if not isinstance(settings.get("seed"), int):
        raise ValueError(f"{folder / RUN_FILE} lacks the setting seed; {REMEDY}")
    return RunRecord(folder, settings, record.get("data_digest"))


def check_is_described(folder: str | Path) -> None:
    """Raise a sentence with what to do in Python, if an encoder stands on a module of one's own."""
    path = Path(folder) / CONFIG_FILE
    config = read_json(path) if path.is_file() else None
    settings = config.get("settings") if isinstance(config, dict) else None
    if isinstance(settings, dict) and settings.get("backbone", 0) is None:
        raise ValueError(
            f"the encoder in {folder} stands on a module of your own, which no command can build; "
            "in Python, nonneg.Encoder.load(folder, backbone=module).encode(samples) gives its "
            "features: measure them with nonneg.metrics or nonneg.evaluation, or write them with "
            "nonneg.data.write_features for nonneg report Z.npz"
        )


def run_encoder(folder: str | Path) -> Encoder:
    """The encoder of a run, in evaluation mode, on the CPU; its features are the run's own.

    For a fitted run they are those of ``NCL.transform``.
    """
    if not is_fitted(folder):
        check_is_described(folder)
        return Encoder.load(folder)
    from nonneg.estimators.ncl import NCL

    encoder: Encoder = NCL.load(folder).encoder_  # a run of 0.1 is thinned only so
    return encoder
