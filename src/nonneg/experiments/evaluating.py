"""How is a run evaluated? With the data and views of its own settings, into its own folder."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from nonneg import data, metrics
from nonneg.data import Data
from nonneg.encoder import WEIGHTS_FILE, Encoder
from nonneg.evaluation import Evaluation, EvaluationSettings, Subject, chosen_sections, evaluate
from nonneg.evaluation.evaluation import digest_of_file
from nonneg.experiments.experiment import build_pairs, load_split
from nonneg.experiments.runs import RunRecord, read_run
from nonneg.files import write_json
from nonneg.training import join_processes

EVALUATION_FILES = {"test": "evaluation.json", "held-out": "evaluation-held-out.json"}
RANKING_FILE = "ranking.json"

# Where the features of one set are tried on another, unless another one is named.
TRANSFER_TARGETS = {
    "fashion-mnist": "mnist",
    "mnist": "fashion-mnist",
    "cifar10": "cifar100",
    "cifar100": "cifar10",
}


def evaluate_run(
    folder: str | Path,
    *,
    only: Iterable[str] | None = None,
    settings: EvaluationSettings | None = None,
    source: str | None = None,
    transfer_to: str | None = None,
    split: str = "test",
    data_dir: str | Path | None = None,
    watch: Callable[[str], None] = lambda _: None,
    after: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Measure the encoder of a run, and write ``evaluation.json`` and ``ranking.json`` beside it.

    Sections that were measured before and are not asked for now stay in the file. Under torchrun
    all processes encode, and the first one writes.

    Args:
        folder: Of a finished run.
        only: Names of sections; None means all but those made on request.
        settings: Sizes and seeds.
        source: Data to measure on, for runs that do not say on what they were trained.
        transfer_to: Another set; None means the usual one, if its files are there.
        split: ``"test"``, or ``"held-out"`` for samples that were kept out of the training set:
            the ones to tune on.
        data_dir: Where data sets lie.
        watch: Told what is being measured.
        after: Told the name of each section that is done.
    """
    run, names, is_first = read_run(folder), chosen_sections(only), join_processes()
    if split not in EVALUATION_FILES:
        raise ValueError(f"unknown split {split!r}; known: {', '.join(EVALUATION_FILES)}")
    encoder = Encoder.load(run.folder)
    encoder.to("cuda" if torch.cuda.is_available() else "cpu")
    watch("reading data")
    train, test = _data(run, source, split, data_dir)
    elsewhere, why_not = _elsewhere(run, train, transfer_to, data_dir)
    experiment = run.experiment
    pairs = build_pairs(experiment, train) if experiment and len(train.sample_shape) == 3 else None
    subject = Subject(
        encoder,
        train,
        test,
        settings or EvaluationSettings(),
        pairs=pairs,
        temperature=_temperature(run),
        elsewhere=elsewhere,
        folder=run.folder / f"fine-tune{'' if split == 'test' else '-held-out'}",
        **({} if pairs is None else {"view": pairs.one_view}),
    )
    path = run.folder / EVALUATION_FILES[split]
    evaluation = _taken_up(path, digest_of_file(run.folder / WEIGHTS_FILE), _counts(subject))

    def save(name: str) -> None:
        if name == "transfer" and name in evaluation.skipped and why_not:
            evaluation.skipped[name] = why_not
        if is_first:
            evaluation.write(path)
        after(name)

    evaluate(subject, names, evaluation, watch=watch, after=save)
    if split == "test" and is_first:
        _write_ranking(run.folder / RANKING_FILE, subject)
    return evaluation


def _data(
    run: RunRecord, source: str | None, split: str, data_dir: str | Path | None
) -> tuple[Data, Data]:
    """What probes learn from and what figures are about."""
    experiment = run.experiment
    if source is None and experiment is None:
        raise ValueError(
            f"{run.folder} does not say on what data it was trained; name it with --data"
        )
    if source is not None:
        return _both_splits(source, data_dir)
    assert experiment is not None
    train = load_split(experiment.data, "train", data_dir)
    if split == "test":
        return train, load_split(experiment.data, "test", data_dir)
    if not experiment.data.held_out:
        raise ValueError(f"{run.folder} kept no samples out of training; data.held_out was 0")
    return data.split_off(train, experiment.data.held_out)


def _elsewhere(
    run: RunRecord, train: Data, name: str | None, data_dir: str | Path | None
) -> tuple[tuple[Data, Data] | None, str | None]:
    """Train and test of the other set; a usual one whose files are absent is left out, and why."""
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


def _both_splits(source: str, data_dir: str | Path | None) -> tuple[Data, Data]:
    train, test = (data.load(source, split=part, data_dir=data_dir) for part in ("train", "test"))
    return train, test


def _temperature(run: RunRecord) -> float | None:
    loss = run.settings["loss"]
    return float(loss["temperature"]) if loss["name"] == "info_nce" else None


def _counts(subject: Subject) -> dict[str, Any]:
    sets = {"train": subject.train, "test": subject.test}
    if subject.elsewhere is not None:
        sets |= {"transfer_train": subject.elsewhere[0], "transfer_test": subject.elsewhere[1]}
    return {key: {"name": part.name, "n_samples": len(part)} for key, part in sets.items()}


def _taken_up(path: Path, model: str, counts: dict[str, Any]) -> Evaluation:
    """What the file holds about these weights and this data; nothing otherwise."""
    if path.exists():
        found = Evaluation.read(path)
        same_data = all(found.data.get(key) == counts[key] for key in ("train", "test"))
        if found.model == model and same_data:
            found.data = counts
            return found
    return Evaluation(model, counts)


def _write_ranking(path: Path, subject: Subject) -> None:
    """The expected activation of every feature on the training set, and their order."""
    scores = subject.seen.encoded.scores
    signed, rectified = (
        metrics.expected_activation(scores, on=on).per_feature for on in ("signed", "rectified")
    )
    write_json(
        path,
        {
            "nonneg": "ranking",
            "by": "expected_activation",
            "on": {"name": subject.train.name, "n_samples": len(subject.train)},
            "order": metrics.select(scores, len(rectified)).tolist(),
            "rectified": rectified.tolist(),
            "signed": signed.tolist(),
        },
    )
