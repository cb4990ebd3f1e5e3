"""A run as the source of an atlas: its features, settings and history."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg import metrics
from nonneg.data.dataset import Data, Subset, whole_of
from nonneg.data.folder import ImageFolder
from nonneg.data.sources import is_own_file, load
from nonneg.encoder import CONFIG_FILE, Encoder
from nonneg.evaluation.evaluation import Evaluation
from nonneg.evaluation.subject import features_of_views, some_data
from nonneg.inference import chosen_device
from nonneg.io import digest_of_file, read_json
from nonneg.losses.info_nce import info_nce_bounds
from nonneg.metrics.figures import Figures
from nonneg.report.atlas_data import SelectionPoint, Training
from nonneg.report.headline import HEADLINE
from nonneg.report.samples import Samples
from nonneg.report.user_files import PartOf, images_of_data
from nonneg.runs.evaluating import EVALUATION_FILES
from nonneg.runs.experiment import build_pairs
from nonneg.runs.record import RunRecord, model_digest, read_run, run_data, run_encoder
from nonneg.training.monitor import MAX_ZERO_ROWS, MIN_ALIVE, MIN_PROGRESS
from nonneg.training.run_folder import HISTORY_FILE, read_history
from nonneg.training.supervised import LOSSES as CLASSIFIER_LOSSES

# Enough for the order of the features, at a cost that grows with the square of it.
_SEPIN_SAMPLES = 2000
# Of larger samples the raw inputs tell little of what is alike.
_REFERENCE_WIDTH = 4096
_LOSSES = {"info_nce": "InfoNCE", "spectral": "the spectral loss"}


@dataclass(frozen=True)
class RunSource:
    """A run and the data that it is shown on.

    Args:
        run: Its record.
        encoder: Its encoder.
        data: The samples.
        split: What part of its data they are.
        source: Where they are from, if not from the run's own data.
    """

    run: RunRecord
    encoder: Encoder
    data: Data
    split: str
    source: str | None = None

    @classmethod
    def read(
        cls, folder: Path, *, split: str | None, source: str | None, data_dir: str | Path | None
    ) -> "RunSource":
        """The run of a folder with its own data, or with that of another name.

        Without a split it is the test set, or all samples of a run on texts.
        """
        run, encoder = read_run(folder), run_encoder(folder)
        if split is None:
            is_of_texts = run.fit is not None and run.fit.data.texts is not None
            split = "all" if is_of_texts and source is None else "test"
        encoder.to(chosen_device())
        if source is not None and not run.knows_data and is_own_file(source):
            samples = load(source)  # all that a page needs
        else:
            _, samples = run_data(run, source=source, split=split, data_dir=data_dir)
        return cls(run, encoder, samples, split, source)

    @property
    def method(self) -> str:
        """What the run is called on the page."""
        return self.run.method

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """Of the data ``(n, d)``."""
        return self.encoder.encode(self.data).features.numpy()

    def samples(self) -> Samples:
        """The data with its features, labels and images."""
        labels, part, whole = self.data.labels, self.part, whole_of(self.data)
        texts, dates = (getattr(whole, name, None) for name in ("texts", "dates"))
        if part is not None:
            texts = None if texts is None else [texts[row] for row in part.rows]
            dates = None if dates is None else dates[part.rows]
        return Samples(
            features=self.features,
            labels=None if labels is None else labels.numpy(),
            class_names=self.data.class_names,
            images=images_of_data(self.data) if self._has_images else None,
            ids=self.data.file_names if isinstance(self.data, ImageFolder) else None,
            texts=texts,
            dates=dates,
            numbers=None if part is None else part.rows,
        )

    @property
    def feature_names(self) -> list[str] | None:
        """What the features of a fitted run were called; None where they have no names."""
        config = read_json(self.run.folder / CONFIG_FILE)
        names = config.get("estimator", {}).get("feature_names")
        return list(names) if names else None

    @property
    def part(self) -> PartOf | None:
        """The numbers of the samples within a larger set; None where they are a whole set."""
        data = self.data
        rows = torch.arange(len(data))
        while isinstance(data, Subset):
            rows, data = data.indices[rows], data.data
        return None if data is self.data else PartOf(len(data), rows.numpy())

    @property
    def _has_images(self) -> bool:
        shape = self.data.sample_shape
        return len(shape) == 3 and shape[0] in (1, 3)

    def reference(self) -> NDArray[np.float32] | None:
        """The raw inputs ``(n, width)``, against which features are judged without labels."""
        if int(np.prod(self.data.sample_shape)) > _REFERENCE_WIDTH:
            return None
        inputs = self.data.fetch(torch.arange(len(self.data)))
        return inputs.flatten(1).float().numpy()

    def sepin(self) -> NDArray[np.float64] | None:
        """SEP of each feature over two views of some samples; None where a run has no views."""
        experiment, loss = self.run.experiment, self.run.settings["loss"]
        if experiment is None or loss["name"] != "info_nce" or not self._has_images:
            return None
        samples = some_data(self.data, _SEPIN_SAMPLES, seed=0)
        pairs = build_pairs(experiment, samples)
        first, second = features_of_views(self.encoder, pairs, samples, seed=0)
        return metrics.sepin(first, second, temperature=loss["temperature"]).per_feature

    def about(self) -> str:
        """What was trained on what, in a sentence."""
        settings = self.run.settings
        what = f"{self.method}: {self.encoder.n_features:,} features"
        backbone = settings["encoder"].get("backbone", {}).get("name")
        parts = [what + (f" on {backbone}" if backbone else "")]
        parts.append(f"transform {settings['encoder']['nonnegative']}")
        loss = settings["loss"]
        name = _LOSSES.get(loss["name"], loss["name"])
        if loss["name"] in CLASSIFIER_LOSSES:
            parts.append(name)
        elif loss.get("temperature") is not None:
            degree = loss["temperature"]
            parts.append(
                f"{name} at a temperature chosen from the data"
                if degree == "auto"
                else f"{name} at temperature {degree:g}"
            )
            weight = loss.get("backbone_weight")
            if weight == 1:
                parts.append("the backbone by the same loss of its own output")
            elif weight:
                parts.append(f"{100 * weight:g} % of it of the backbone's output")
        n_samples, epochs = settings.get("n_samples"), settings.get("training", {}).get("epochs")
        if n_samples and epochs:
            parts.append(f"trained on {n_samples:,} samples for {epochs} epochs")
        if settings.get("seed") is not None:
            parts.append(f"seed {self.run.seed}")
        return ", ".join(parts) + "."

    def training(self) -> Training | None:
        """The history with the levels of collapse; None for a run without one."""
        if not (self.run.folder / HISTORY_FILE).exists():
            return None
        records = read_history(self.run.folder)
        collapse = {
            "progress_rate": MIN_PROGRESS,
            "alive_features": MIN_ALIVE * self.encoder.n_features,
            "zero_row_rate": MAX_ZERO_ROWS,
        }
        loss = self.run.settings["loss"]
        batch_size = self.run.settings.get("training", {}).get("batch_size")
        if loss["name"] == "info_nce" and batch_size:
            floor, ceiling = info_nce_bounds(
                batch_size,
                temperature=loss["temperature"],
                nonnegative=self.run.settings["encoder"]["nonnegative"] != "identity",
            )
            collapse["loss"] = ceiling - MIN_PROGRESS * (ceiling - floor)
        return Training(records, collapse) if records else None

    def evaluation(self) -> tuple[Figures, str | None]:
        """Figures of ``nonneg evaluate`` for these weights and samples, or why there are none."""
        data = "" if self.run.knows_data else " --data SET"
        command = f"nonneg evaluate {self.run.folder}{data}"
        if self.split not in EVALUATION_FILES:
            samples = "all samples" if self.split == "all" else self.split
            return {}, f"Accuracies are measured on the test set, not on {samples}."
        path = self.run.folder / EVALUATION_FILES[self.split]
        if not path.exists():
            return {}, f"{self.method} has no accuracies: {path.name} is missing; run {command}."
        found = Evaluation.read(path)
        if found.model != model_digest(self.run.folder):
            return {}, f"{path.name} of {self.method} is of other features; run {command} again."
        tested = found.data.get("test", {})
        if any(tested[key] != value for key, value in self._tested().items() if key in tested):
            return {}, (
                f"{path.name} of {self.method} is of other data ({tested['name']}); run {command} "
                "on these."
            )
        return found.figures(), None

    def _tested(self) -> dict[str, Any]:
        """The figures of an evaluation on these samples."""
        counts: dict[str, Any] = {"name": self.data.name, "n_samples": len(self.data)}
        if self.source is not None and is_own_file(self.source):
            counts["digest"] = digest_of_file(Path(self.source).expanduser())
        return counts


def headline_figures(figures: Figures) -> Figures:
    """The figures of an evaluation that the page shows."""
    return {key: figures[key] for key in HEADLINE if key in figures}


def selection_points(figures: Figures) -> Sequence[SelectionPoint]:
    """The selection result of an evaluation, one point per task, ranking and size.

    Example:
        >>> from nonneg.metrics.figures import Figure
        >>> found = Figure(0.8, beside={"n_features": 64, "std": None})
        >>> selection_points({"selection_probe_0.25_ea_rectified": found})[0].ranking
        'ea_rectified'
    """
    points = []
    for key, figure in figures.items():
        if not key.startswith("selection_") or figure.value is None:
            continue
        task, _, kept = key.removeprefix("selection_").partition("_")
        ranking = "all" if kept == "all" else kept.partition("_")[2]
        beside: dict[str, Any] = dict(figure.beside)
        points.append(
            SelectionPoint(
                task=task,
                ranking=ranking,
                n_features=int(beside["n_features"]),
                value=figure.value,
                std=beside.get("std"),
            )
        )
    return points
