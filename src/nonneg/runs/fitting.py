"""Fits of vectors as runs: fitted first, then written to a folder as a whole."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nonneg import metrics
from nonneg.data.dataset import Data, permutation
from nonneg.evaluation.readability import why_too_few
from nonneg.io import write_bytes
from nonneg.metrics.figures import MIN_ACTIVE, figure_kind
from nonneg.metrics.inputs import FeatureLike
from nonneg.runs.record import is_fitted, read_run, run_data
from nonneg.runs.text_fits import name_features, rows_of_texts
from nonneg.runs.vector_fits import VectorExperiment, check_pairs, learnt_from, vector_sets
from nonneg.training.run_folder import RUN_FILE, RunFolder, locked

if TYPE_CHECKING:
    from nonneg.estimators.ncl import NCL


FEATURES_FILE = "features.csv"
_MOST_MEASURED = 5000


@dataclass(frozen=True)
class FittedRun:
    """A fitted estimator in its run folder.

    Args:
        folder: Where it is.
        ncl: The estimator.
        is_new: False where the same run was there already.
        n_train: Samples that it learnt from.
        n_test: Samples that are kept to measure on.
        active_per_sample: Mean number of active features per test sample, or per training
            sample without any; None where the run was there already.
        seconds: How long the fit took; None likewise.
        notes: What is worth saying, one sentence each.
    """

    folder: Path
    ncl: "NCL"
    is_new: bool
    n_train: int
    n_test: int
    active_per_sample: float | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()


def fit_run(
    experiment: VectorExperiment, *, out: str | Path, machine: dict[str, Any] | None = None
) -> FittedRun:
    """Fit what an experiment describes, into a run folder; a finished run is only read.

    Args:
        experiment: From :func:`nonneg.runs.vector_fits.vector_experiment`.
        out: The run folder.
        machine: Settings of the estimator that change nothing it learns: device and verbose.

    Raises:
        FileExistsError: If the folder holds something else.
        BlockingIOError: If another process is writing to it.
    """
    from nonneg.estimators.ncl import NCL

    folder, settings = RunFolder(out), experiment.model_dump(mode="json")
    train, test = vector_sets(experiment.data)
    n_train, n_test = len(train), 0 if test is None else len(test)
    ncl = NCL(**experiment.estimator_arguments, **(machine or {}))
    check_pairs(ncl.pairs, experiment.data, train)

    def there_already() -> FittedRun:
        folder.claim(settings, resume=True)
        done = NCL.load(folder.path)
        return FittedRun(folder.path, done, is_new=False, n_train=n_train, n_test=n_test)

    if is_fitted(folder.path):
        return there_already()
    with locked(folder.path):
        if is_fitted(folder.path):  # by a process that has just ended
            return there_already()
        with _claim(folder, settings):
            began = time.perf_counter()
            given = learnt_from(experiment.data, train)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", UserWarning)
                ncl.fit(given.vectors, given.y, graph=given.graph, index_pairs=given.index_pairs)
            seconds = round(time.perf_counter() - began, 3)
            features = _some_features(ncl, train if test is None else test)
            nameless = name_features(ncl, train)
        folder.write_history(_history(ncl, n_train, seconds))
        ncl.save(folder.path)
    warned = (f"warning: {warning.message}" for warning in said)
    notes = (*given.notes, *warned, *_note_on_purity(experiment, test, features))
    notes += () if nameless is None else (nameless,)
    return FittedRun(
        folder.path,
        ncl,
        is_new=True,
        n_train=n_train,
        n_test=n_test,
        active_per_sample=metrics.active_per_sample(features).value,
        seconds=seconds,
        notes=notes,
    )


def write_features_table(run: FittedRun) -> Path:
    """Write ``features.csv`` of a run on texts, see :meth:`nonneg.NCL.features_table`."""
    _, shown = run_data(read_run(run.folder), split="all")
    path = run.folder / FEATURES_FILE
    table: Any = run.ncl.features_table(*rows_of_texts(shown))
    write_bytes(path, table.to_csv().encode())
    return path


@contextmanager
def _claim(folder: RunFolder, settings: dict[str, Any]) -> Iterator[None]:
    """The folder, claimed for this run under its lock; a new one is removed if the fit fails."""
    was_there = (folder.path / RUN_FILE).exists()
    folder.claim(settings, resume=True)
    try:
        yield
    except BaseException:
        if not was_there:
            (folder.path / RUN_FILE).unlink()
        raise


def _history(ncl: "NCL", n_train: int, seconds: float) -> list[dict[str, Any]]:
    """The estimator's records, counted in epochs as in other runs; the last has more figures."""
    batch_size = min(ncl.batch_size, n_train)
    records = [
        {"epoch": round(record["step"] * batch_size / n_train, 3), **record}
        for record in ncl.history_
    ]
    records[-1] |= {"alive_features": ncl.n_alive_, "seconds": seconds}
    return records


def _some_features(ncl: "NCL", data: Data) -> FeatureLike:
    some = permutation(len(data), seed=0)[:_MOST_MEASURED].sort().values
    features: FeatureLike = ncl.transform(data.fetch(some).numpy())
    return features


def _note_on_purity(
    experiment: VectorExperiment, test: Data | None, features: FeatureLike
) -> tuple[str, ...]:
    """What to do where an evaluation cannot measure top purity for lack of test samples."""
    if test is None or test.labels is None:
        return ()
    if len(test) > MIN_ACTIVE:
        n_active = metrics.active_mask(features).sum(0)
        if (n_active >= MIN_ACTIVE).any():
            return ()
    remedy = "give more test vectors" if experiment.data.test else "set a larger --test-share"
    kind = figure_kind(f"top{MIN_ACTIVE}_purity")
    why = why_too_few(len(test), MIN_ACTIVE).replace("samples", "test samples")
    return (f"{kind.title} cannot be measured: {why}; {remedy}",)
