"""The data that a run is measured on: that of its own settings, unless other data is named."""

from pathlib import Path

from nonneg import data
from nonneg.data.dataset import Data, Subset, permutation, subset
from nonneg.data.folder import has_split
from nonneg.runs.experiment import DataSettings, load_split
from nonneg.runs.record import RunRecord
from nonneg.runs.vector_fits import VectorExperiment, vector_sets

# Where the features of one set are tried on another, unless another one is named.
TRANSFER_TARGETS = {
    "fashion-mnist": "mnist",
    "mnist": "fashion-mnist",
    "cifar10": "cifar100",
    "cifar100": "cifar10",
}
# What is said of a run that nonneg.train made.
_FROM_PYTHON = (
    "was trained from Python and does not say on what data; name a set with both splits with "
    "--data, or measure it in Python with nonneg.Encoder.load(folder).encode and nonneg.evaluation"
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
    """What probes learn from and what figures are about.

    Args:
        run: Trained or fitted.
        source: Other data: a file of test samples, beside which the run's own training set stays,
            or a set with both splits.
        split: ``"test"``, ``"held-out"`` for samples that were kept out of training, or
            ``"train"`` for those that were not.
        data_dir: Where data sets lie.

    Raises:
        ValueError: If the run does not say, or kept no such samples.
    """
    if run.fit is not None:
        return _of_vectors(run, run.fit, source, split)
    experiment = run.experiment
    if source is not None:
        return _of_source(run, source, split, data_dir)
    if experiment is None:
        raise ValueError(f"{run.folder} {_FROM_PYTHON}")
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
        raise ValueError(f"{source} is a file of one set only; {run.folder} {_FROM_PYTHON}")
    run.check_unchanged(experiment.data)
    train = load_split(experiment.data, "train", data_dir)
    return train, _tested_instead(train, source)


def _check_tested(run: RunRecord, settings: DataSettings) -> None:
    """Raise a sentence with what to ask for instead, if the data of a run has no test split."""
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
        other = files.model_copy(update={"test": source, "test_labels": None})
        whole, test = vector_sets(other)
        # Classes are numbered anew over both; what was kept out of the fit stays out.
        train = subset(whole, train.indices) if isinstance(train, Subset) else whole
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
