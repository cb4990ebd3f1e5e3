"""Experiments: data, encoder, views and training from one table of settings."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import Field, field_validator, model_validator
from rich.console import Console

from nonneg import data
from nonneg.data.dataset import Data
from nonneg.data.folder import ImageFolder
from nonneg.encoder import Encoder, EncoderSettings
from nonneg.io import digest_of_file
from nonneg.pairs.image_views import FileViews, ImageViews
from nonneg.pairs.view_settings import ViewSettings, recipe
from nonneg.presets import find_preset
from nonneg.settings import Settings, with_overrides
from nonneg.training.contrastive import contrastive_task
from nonneg.training.objectives import PAIR_LOSSES
from nonneg.training.run_folder import RunFolder, read_history
from nonneg.training.settings import TrainConfig
from nonneg.training.supervised import LOSSES, Classifier, Supervised
from nonneg.training.task import run_identity
from nonneg.training.trainer import TrainResult, run_task


class DataSettings(Settings):
    """What is learnt from."""

    name: str
    """A known name, or the path of an npy or npz file or of a folder of images; relative paths
    start at the working directory."""
    n_train: int | None = Field(default=None, ge=2)
    """Train on at most this many samples, drawn at random once and for all; all where absent."""
    held_out: int = Field(default=1000, ge=0)
    """Samples taken out of the training set, for monitoring and tuning."""
    image_size: int = Field(default=224, ge=8)
    """Of the views, for folders of images; other sets keep their own size."""

    def anywhere(self) -> Self:
        """The same data with an absolute path, so that a run finds it from every folder."""
        path = Path(self.name).expanduser()
        if self.name in data.names() or not path.exists():
            return self
        return self.model_copy(update={"name": str(path.resolve())})


class Experiment(TrainConfig):
    """All settings of a run. CL and NCL are two values of ``encoder.nonnegative``."""

    task: Literal["contrastive", "supervised"] = "contrastive"
    """From pairs of views, or from labels; the loss has to suit it."""
    reads: Literal["hidden", "features"] = "hidden"
    """Of a supervised task: whether the classifier sits on the backbone or on the projector."""
    start: str | None = None
    """A folder with an encoder whose weights training starts from: fine-tuning."""
    data: DataSettings
    encoder: EncoderSettings
    views: ViewSettings

    @field_validator("views", mode="before")
    @classmethod
    def _from_recipe(cls, views: Any) -> Any:  # noqa: ANN401
        """A recipe's name with changes becomes the settings that it stands for."""
        if isinstance(views, dict) and "recipe" in views:
            return recipe(views["recipe"], **{k: v for k, v in views.items() if k != "recipe"})
        return views

    @model_validator(mode="after")
    def _loss_suits_task(self) -> Self:
        if (self.loss.name in LOSSES) != (self.task == "supervised"):
            suits = LOSSES if self.task == "supervised" else PAIR_LOSSES
            raise ValueError(
                f"task={self.task} needs loss={' or '.join(suits)}, not {self.loss.name}"
            )
        if self.task == "supervised" and self.training.chunk_size is not None:
            raise ValueError("training.chunk_size does not go with task=supervised; leave it out")
        return self

    def signed(self) -> Self:
        """The same experiment as ordinary contrastive learning: one setting differs."""
        encoder = self.encoder.model_copy(update={"nonnegative": "identity"})
        return self.model_copy(update={"encoder": encoder})

    @property
    def method(self) -> str:
        """What is compared: ``cl``, ``ncl``, or ``ce``, ``nonneg_ce``, each also with ``-mlp``."""
        return method(self.model_dump(mode="json"))


def method(settings: dict[str, Any]) -> str:
    """The method of a run from its settings as plain values.

    Contrastive runs are ``"cl"`` for the identity and ``"ncl"`` for every other transform;
    supervised ones have the name of their loss, and ``-mlp`` where the classifier sits on the
    projector.
    """
    loss = settings["loss"]["name"]
    if loss in LOSSES:
        return f"{loss}-mlp" if settings.get("reads") == "features" else str(loss)
    return "cl" if settings["encoder"]["nonnegative"] == "identity" else "ncl"


def training_data(settings: DataSettings, data_dir: str | Path | None) -> tuple[Data, Data | None]:
    """The samples to train on and those that are held out (None if there are none)."""
    whole = load_split(settings, "train", data_dir)
    held_out = None
    if settings.held_out:
        whole, held_out = data.split_off(whole, settings.held_out)
    if settings.n_train is not None and settings.n_train < len(whole):
        _, whole = data.split_off(whole, settings.n_train, seed=1)
    return whole, held_out


def load_split(settings: DataSettings, split: str, data_dir: str | Path | None = None) -> Data:
    """The whole train or test split of an experiment's data."""
    return data.load(settings.name, split=split, data_dir=data_dir, image_size=settings.image_size)


def file_digest(settings: DataSettings) -> str | None:
    """SHA-256 of the user's data file; None for named sets and folders."""
    if not data.is_own_file(settings.name):
        return None
    return digest_of_file(Path(settings.name).expanduser())


def build_encoder(experiment: Experiment, sample_shape: tuple[int, ...]) -> Encoder:
    """The untrained encoder; its weights depend on the experiment's seed, or on its start."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(experiment.seed)
        encoder = Encoder(experiment.encoder, sample_shape)
    if experiment.start is not None:
        first = Encoder.load(experiment.start)
        try:
            encoder.load_state_dict(first.state_dict())
        except RuntimeError as error:
            raise ValueError(
                f"the encoder in {experiment.start} does not fit the one to train: {error}"
            ) from error
    return encoder


def build_pairs(experiment: Experiment, samples: Data) -> ImageViews | FileViews:
    """The views of the experiment, decoded by workers where samples are files."""
    shape = samples.sample_shape
    if len(shape) != 3:
        raise ValueError(
            f"{samples.name} has samples of shape {shape}; views are made from images (c, h, w)"
        )
    if isinstance(samples, ImageFolder):
        return FileViews(experiment.views, shape[-1])
    return ImageViews(experiment.views, shape[-1])


def run_experiment(
    experiment: Experiment,
    *,
    out: str | Path,
    data_dir: str | Path | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> TrainResult:
    """Train what an experiment describes, into a run folder; a finished run is only read."""
    experiment = experiment.model_copy(update={"data": experiment.data.anywhere()})
    samples, held_out = training_data(experiment.data, data_dir)
    encoder = build_encoder(experiment, samples.sample_shape)
    views = build_pairs(experiment, samples)
    task = (
        _supervised(experiment, encoder, samples, views)
        if experiment.task == "supervised"
        else contrastive_task(encoder, views, experiment, labels=samples.labels)
    )
    folder, digest = RunFolder(out), file_digest(experiment.data)
    if folder.is_finished:
        identity = run_identity(task, samples, experiment)
        folder.claim(identity, resume=True, data_digest=digest)
        return TrainResult(folder.path, read_history(folder.path), None, is_new=False)
    return run_task(
        task,
        samples,
        experiment,
        out=out,
        held_out=held_out,
        resume=resume,
        console=console,
        data_digest=digest,
    )


def _supervised(
    experiment: Experiment, encoder: Encoder, samples: Data, views: ImageViews | FileViews
) -> Supervised:
    if samples.labels is None:
        raise ValueError(f"{samples.name} has no labels; a supervised task learns from them")
    n_classes = int(samples.labels.max()) + 1
    classifier = Classifier(encoder, n_classes, loss=experiment.loss.name, reads=experiment.reads)
    return Supervised(classifier, samples.labels, views.one_view)


def read_experiment(source: str, overrides: Iterable[str] = ()) -> tuple[str, Experiment]:
    """The experiment of a preset or TOML file, and the name that its run folder gets.

    ``NAME`` and ``NAME-ncl`` are the same; ``NAME-cl`` is ordinary contrastive learning with all
    else equal.

    Args:
        source: A preset's name, or the path of a TOML file.
        overrides: Assignments as ``optimizer.lr=0.3``.

    Example:
        >>> name, experiment = read_experiment("digits-cl", ["seed=1"])
        >>> name, experiment.encoder.nonnegative, experiment.seed
        ('digits-cl-seed1', 'identity', 1)
    """
    preset, is_signed = find_preset(source)
    experiment = Experiment.read(with_overrides(preset.table, overrides))
    # Cross entropy is the signed control of non-negative cross entropy.
    if is_signed or experiment.loss.name == "ce":
        experiment = experiment.signed()
    seed = f"-seed{experiment.seed}" if experiment.seed else ""
    return f"{preset.name}-{experiment.method}{seed}", experiment
