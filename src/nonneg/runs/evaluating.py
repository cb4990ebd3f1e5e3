"""The evaluation of a run, with the data and views of its own settings, into its own folder."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nonneg import metrics
from nonneg.data.sources import is_own_file
from nonneg.encoder import Encoder
from nonneg.evaluation.evaluation import Evaluation, chosen_sections, evaluate
from nonneg.evaluation.subject import EvaluationSettings, Subject, join_processes, ranked_values
from nonneg.inference import chosen_device
from nonneg.io import digest_of_file, write_json
from nonneg.runs.experiment import build_pairs
from nonneg.runs.record import (
    RunRecord,
    model_digest,
    read_run,
    run_data,
    run_encoder,
    transfer_data,
)
from nonneg.training.run_folder import locked
from nonneg.training.supervised import HEAD_FILE, Classifier

EVALUATION_FILES = {"test": "evaluation.json", "held-out": "evaluation-held-out.json"}
RANKING_FILE = "ranking.json"
_FINE_TUNE_FOLDERS = {"test": "fine-tune", "held-out": "fine-tune-held-out"}

# How long a measured section waits for another evaluation to write its own.
_SECONDS_TO_WRITE = 60.0

# The sections that use views of images.
_OF_VIEWS = {"sepin", "fine_tune"}

# Sections that do not apply to a run fitted to vectors.
_NOT_OF_FITS = {
    "sepin": "a fitted run has no two views of a sample",
    "fine_tune": "a fitted run has no network below its features to train on",
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

    Sections that were measured before, or are being measured by another process, and are not asked
    for now stay in the file. Under torchrun all processes encode, and the first one writes.

    Args:
        folder: Of a finished run.
        only: Names of sections; None means all but those made on request.
        settings: Sizes and seeds.
        source: Data to measure on: a file of test samples, or a set with both splits.
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
    encoder = run_encoder(run.folder)
    encoder.to(chosen_device())
    watch("reading data")
    train, test = run_data(run, source=source, split=split, data_dir=data_dir)
    other, why_not = transfer_data(run, train, transfer_to, data_dir)
    reasons = {"transfer": why_not, **({} if run.fit is None else _NOT_OF_FITS)}
    experiment = run.experiment
    needs_views = not _OF_VIEWS.isdisjoint(names) and len(train.sample_shape) == 3
    pairs = build_pairs(experiment, train) if experiment and needs_views else None
    subject = Subject(
        encoder,
        train,
        test,
        settings or EvaluationSettings(),
        pairs=pairs,
        temperature=_temperature(run),
        transfer=other,
        folder=None if run.fit else run.folder / _FINE_TUNE_FOLDERS[split],
        classifier=_classifier(run, encoder),
        **({} if pairs is None else {"view": pairs.one_view}),
    )
    path = run.folder / EVALUATION_FILES[split]
    counts = _counts(subject)
    if source is not None and is_own_file(source):
        counts["test"]["digest"] = digest_of_file(Path(source).expanduser())
    evaluation = _taken_up(path, model_digest(run.folder), counts)
    measured: list[str] = []

    def save(name: str) -> None:
        if name in evaluation.skipped:
            evaluation.skipped[name] = reasons.get(name) or evaluation.skipped[name]
        is_first_figure = name in evaluation.sections and evaluation.sections.keys().isdisjoint(
            measured
        )
        measured.append(name)
        # Before the figures: where these are complete, nobody evaluates again. All processes
        # encode for it.
        ranking = _ranking(subject) if split == "test" and is_first_figure else None
        if is_first:
            with locked(run.folder, wait=_SECONDS_TO_WRITE):
                if ranking is not None:
                    write_json(run.folder / RANKING_FILE, ranking)
                _merge(path, evaluation, measured)
                evaluation.write(path)
        after(name)

    evaluate(subject, names, evaluation, watch=watch, after=save)
    return evaluation


def _classifier(run: RunRecord, encoder: Encoder) -> Classifier | None:
    if not (run.folder / HEAD_FILE).exists():
        return None
    device = next(encoder.parameters()).device
    classifier = Classifier(
        encoder,
        run.settings["n_classes"],
        loss=run.settings["loss"]["name"],
        reads=run.settings["reads"],
    )
    classifier.load_head(run.folder)
    return classifier.to(device)


def _temperature(run: RunRecord) -> float | None:
    loss = run.settings["loss"]
    is_known = loss["name"] == "info_nce" and loss["temperature"] != "auto"
    return float(loss["temperature"]) if is_known else None


def _counts(subject: Subject) -> dict[str, Any]:
    sets = {"train": subject.train, "test": subject.test}
    if subject.transfer is not None:
        sets |= {"transfer_train": subject.transfer[0], "transfer_test": subject.transfer[1]}
    return {key: {"name": part.name, "n_samples": len(part)} for key, part in sets.items()}


def _taken_up(path: Path, model: str, counts: dict[str, Any]) -> Evaluation:
    """The evaluation in the file if it is of these weights; an empty one if it is of earlier ones.

    Raises:
        ValueError: If it is about these weights on other data, which would be lost.
    """
    if path.exists():
        found = Evaluation.read(path)
        if found.model == model:
            for key in ("train", "test"):
                if _differ(found.data.get(key), counts[key]):
                    before, now = _named(found.data.get(key)), _named(counts[key])
                    what = "the same name, other content" if before == now else f"now {now}"
                    raise ValueError(
                        f"{path} has figures of another {key} set ({before}, {what}); give it "
                        "another name to keep it, or remove it"
                    )
            found.data = counts
            return found
    return Evaluation(model, counts)


def _merge(path: Path, evaluation: Evaluation, measured: Iterable[str]) -> None:
    """Take over what other processes have since written to the file, except what was measured here.

    To be called under the lock of the run folder, and followed by writing.
    """
    latest = _taken_up(path, evaluation.model, evaluation.data)
    for name in measured:
        if name in evaluation.sections:
            latest.sections[name] = evaluation.sections[name]
            latest.skipped.pop(name, None)
        else:
            latest.skipped[name] = evaluation.skipped[name]
            latest.sections.pop(name, None)
    evaluation.sections, evaluation.skipped = latest.sections, latest.skipped


def _differ(before: dict[str, Any] | None, now: dict[str, Any]) -> bool:
    """Whether two sets differ: by digest, or without one by name and size."""
    if before is None:
        return True
    both = before.keys() & now.keys()
    return any(before[key] != now[key] for key in both)


def _named(part: dict[str, Any] | None) -> str:
    return "unknown" if part is None else f"{part['name']} with {part['n_samples']} samples"


def _ranking(subject: Subject) -> dict[str, Any]:
    """The expected activation of every feature on the training set, and their order."""
    encoded = subject.encoded_train
    values = ranked_values(encoded, rectified=True)
    rectified = metrics.expected_activation(values).per_feature
    signed = metrics.expected_activation(encoded.scores, on="signed").per_feature
    return {
        "nonneg": "ranking",
        "by": "expected_activation",
        "on": {"name": subject.train_part.name, "n_samples": len(subject.train_part)},
        "order": metrics.select(values, len(rectified)).tolist(),
        "rectified": rectified.tolist(),
        "signed": signed.tolist(),
    }
