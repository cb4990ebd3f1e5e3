"""The record of a run: its settings, its encoder, and the data it is measured on."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nonneg import data
from nonneg.data.dataset import Data, Subset, permutation, subset, whole_of
from nonneg.data.folder import has_split
from nonneg.encoder import CONFIG_FILE, WEIGHTS_FILE, Encoder
from nonneg.io import digest_of_file, read_json
from nonneg.runs.experiment import DataSettings, Experiment, file_digest, load_split, method
from nonneg.runs.text_fits import are_texts, embedded_table
from nonneg.runs.vector_fits import VectorExperiment, vector_sets
from nonneg.settings import Settings
from nonneg.training.run_folder import IMPORT, REMEDY, RUN_FILE, read_record, what_counts

AnySettings = TypeVar("AnySettings", bound=Settings)
# What every run records, however it was made.
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
        """The settings of ``nonneg fit``; None for other runs."""
        is_fit = self.settings.get("task") == "fit"
        return self._read(VectorExperiment, self.settings) if is_fit else None

    @property
    def knows_data(self) -> bool:
        """Whether it names its training data; one made by ``nonneg.train`` does not."""
        return "data" in self.settings

    @property
    def origin(self) -> str:
        """How a run that does not name its data came to be, in words."""
        is_import = self.settings.get("task") == IMPORT
        return "was imported" if is_import else "was trained from Python"

    @property
    def seed(self) -> int:
        """Of the run; 0 for an imported checkpoint that does not say it."""
        return int(self.settings.get("seed") or 0)

    @property
    def method(self) -> str:
        """CL or NCL: ``method`` of the settings, in capitals."""
        return method(self.settings).upper()

    def check_unchanged(self, data: DataSettings) -> None:
        """Raise ``ValueError`` if the file that the run learnt from has changed."""
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
        """All settings that determine the result except the seed: equal for runs of one group.

        Settings that are off are left out: runs made before a setting existed do not have it.
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
    is_import = settings.get("task") == IMPORT  # of a checkpoint that may not say its seed
    if not isinstance(settings.get("seed"), int) and not is_import:
        raise ValueError(f"{folder / RUN_FILE} lacks the setting seed; {REMEDY}")
    return RunRecord(folder, settings, record.get("data_digest"))


def check_is_described(folder: str | Path) -> None:
    """Raise an error with the remedy in Python if the backbone is a module of the user's own."""
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


def is_fitted(folder: str | Path) -> bool:
    """Whether a folder holds a fitted estimator, and not an encoder alone or nothing."""
    path = Path(folder) / CONFIG_FILE
    config = read_json(path) if path.is_file() else None
    return isinstance(config, dict) and "estimator" in config


def read_curation(folder: str | Path) -> dict[str, Any]:
    """What a person merged and hid in a run, as its folder keeps it; empty without any."""
    return read_json(Path(folder) / CONFIG_FILE).get("curation") or {}


def model_digest(folder: str | Path) -> str:
    """What figures and indexes are of: SHA-256 of the weights and of what else shapes features.

    That is how features are thinned and what was curated, each where it is so. A run of 0.1, which
    kept thinning elsewhere, has the digest that it had then, so that its figures stay its own.
    """
    weights = digest_of_file(Path(folder) / WEIGHTS_FILE)
    config = read_json(Path(folder) / CONFIG_FILE)
    settings = config.get("settings", {}) if isinstance(config, dict) else None
    if not isinstance(settings, dict):
        raise ValueError(f"{Path(folder) / CONFIG_FILE} does not describe a model; copy it again")
    shaped = {key: settings.get(key) for key in ("threshold", "max_active")}
    thinned = {key: value for key, value in shaped.items() if value is not None}
    curation = read_curation(folder)
    told = "".join(json.dumps(part) for part in (thinned, curation) if part)
    return hashlib.sha256(f"{weights}{told}".encode()).hexdigest() if told else weights


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


# Where the features of one set are tried on another, unless another one is named.
TRANSFER_TARGETS = {
    "fashion-mnist": "mnist",
    "mnist": "fashion-mnist",
    "cifar10": "cifar100",
    "cifar100": "cifar10",
}
# The message for a run made by nonneg.train, or imported.
_FROM_ELSEWHERE = (
    "and does not say on what data; name a set with both splits with --data, or measure it in "
    "Python with nonneg.Encoder.load(folder).encode and nonneg.evaluation"
)
# Of vectors there may be millions: probes and rankings are made on a fixed draw of so many.
_MOST_VECTORS = 50_000


def run_data(
    run: RunRecord,
    *,
    source: str | None = None,
    split: str = "test",
    data_dir: str | Path | None = None,
) -> tuple[Data, Data]:
    """The training set of probes, and the test set that figures are measured on.

    Args:
        run: Trained or fitted.
        source: Other data: a file of test samples, beside which the run's own training set stays,
            or a set with both splits.
        split: ``"test"``, ``"held-out"`` for samples that were kept out of training, ``"train"``
            for those that were not, or of fitted runs ``"all"``: at most 50,000, drawn once.
        data_dir: Where data sets lie.

    Raises:
        ValueError: If the run does not say, or kept no such samples.
    """
    if run.fit is not None:
        return _of_vectors(run, run.fit, source, split)
    if split == "all":
        raise ValueError(f"{run.folder} was not fitted to vectors; its data is test or train")
    experiment = run.experiment
    if source is not None:
        return _of_source(run, source, split, data_dir)
    if experiment is None:
        raise ValueError(f"{run.folder} {run.origin} {_FROM_ELSEWHERE}")
    run.check_unchanged(experiment.data)
    train = load_split(experiment.data, "train", data_dir)
    if split == "train":
        return train, train
    if split == "test":
        _check_tested(run, experiment.data)
        return train, load_split(experiment.data, "test", data_dir)
    if not experiment.data.held_out:
        raise ValueError(f"{run.folder} kept no samples out of training; data.held_out was 0")
    return data.split_off(train, experiment.data.held_out)


def _of_source(
    run: RunRecord, source: str, split: str, data_dir: str | Path | None
) -> tuple[Data, Data]:
    """Other data in place of the run's own."""
    experiment, is_file = run.experiment, data.is_own_file(source)
    if split == "held-out" or (split == "train" and is_file):
        raise ValueError(f"{source} takes the place of the test set; leave out --split {split}")
    if not is_file:
        train, test = _both_splits(source, data_dir)
        return train, train if split == "train" else test
    if experiment is None:
        raise ValueError(
            f"{source} is a file of one set only; {run.folder} {run.origin} {_FROM_ELSEWHERE}"
        )
    run.check_unchanged(experiment.data)
    train = load_split(experiment.data, "train", data_dir)
    return train, _tested_instead(train, source)


def _check_tested(run: RunRecord, settings: DataSettings) -> None:
    """Raise an error that names the alternatives if the data of a run has no test split."""
    path = Path(settings.name).expanduser()
    is_folder = settings.name not in data.names() and path.is_dir()
    if data.is_own_file(settings.name) or (is_folder and not has_split(path, "test")):
        held_out = "measure it with --split held-out, or " if settings.held_out else ""
        raise ValueError(
            f"{run.folder} learnt from {settings.name}, which has no test split; {held_out}name a "
            "file of test samples with --data"
        )


def transfer_data(
    run: RunRecord, train: Data, name: str | None, data_dir: str | Path | None
) -> tuple[tuple[Data, Data] | None, str | None]:
    """Train and test of the other set; a usual one whose files are absent is left out, and why."""
    if run.fit is not None:
        if name is not None:
            raise ValueError(f"{run.folder} reads vectors of one kind; leave out --transfer-to")
        return None, "a fitted run reads vectors of one kind"
    target = name or TRANSFER_TARGETS.get(train.name.removesuffix("-part"))
    if target is None:
        return None, f"no set is usual for transfer from {train.name}; name one with --transfer-to"
    try:
        other = _both_splits(target, data_dir)
    except FileNotFoundError as error:
        if name is not None:
            raise
        return None, f"{target} is not there ({error})"
    return other, None


def _of_vectors(
    run: RunRecord, experiment: VectorExperiment, source: str | None, split: str
) -> tuple[Data, Data]:
    files = experiment.data
    if split == "held-out":
        raise ValueError(f"{run.folder} was fitted: it has test samples, but none {split}")
    files.check_unchanged()
    train, test = vector_sets(files)
    if source is not None:
        given = embedded_table(files, source, run=run.folder) if are_texts(source) else None
        other = {"test": None if are_texts(source) else source, "test_labels": None}
        whole, test = vector_sets(files.model_copy(update=other), given)
        # Classes are numbered anew over both; what was kept out of the fit stays out.
        train = subset(whole_of(whole), train.indices) if isinstance(train, Subset) else whole
    elif split == "all":
        test = whole_of(train)
        if len(test) > _MOST_VECTORS:
            test = subset(test, permutation(len(test), seed=0)[:_MOST_VECTORS].sort().values)
    if test is None and split == "test":
        raise ValueError(
            f"{run.folder} was fitted to all its vectors; name others to measure on with --data"
        )
    if len(train) > _MOST_VECTORS:
        train = subset(train, permutation(len(train), seed=0)[:_MOST_VECTORS].sort().values)
    return train, train if test is None or split == "train" else test


def _tested_instead(train: Data, source: str) -> Data:
    """The samples of a file, whose classes have to be those of the training set."""
    test = data.load(source)
    data.check(test)
    if test.sample_shape != train.sample_shape:
        raise ValueError(
            f"{source} has samples of shape {test.sample_shape}, the run learnt from "
            f"{train.sample_shape}"
        )
    named = (test.class_names, train.class_names)
    if all(named) and named[0] != named[1]:
        raise ValueError(
            f"{source} names other classes than {train.name}, or in another order; write both "
            "files with the same class_names"
        )
    return test


def _both_splits(source: str, data_dir: str | Path | None) -> tuple[Data, Data]:
    train, test = (data.load(source, split=part, data_dir=data_dir) for part in ("train", "test"))
    return train, test
