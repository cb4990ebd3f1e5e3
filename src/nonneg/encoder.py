"""The encoder: backbone, projector and the non-negative transform, as one module."""

import warnings
from collections.abc import Callable, Iterable
from operator import mul
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import torch
from pydantic import AfterValidator, Field, PositiveInt, model_validator
from torch import Tensor, nn

from nonneg import backbones
from nonneg.data.dataset import Samples, as_data
from nonneg.head.curation import Curation
from nonneg.head.nonnegative import TRANSFORMS, NonNegative
from nonneg.head.projector import Gate, GateSettings, ProjectorSettings, projector
from nonneg.inference import evaluation_mode
from nonneg.io import digests, read_beside, read_json, write_json, write_tensors
from nonneg.pretrained import Shareable
from nonneg.settings import Settings

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
# What training writes first: a folder with it but without an encoder is of an unfinished run.
_BEGUN_FILE = "run.json"
_REMEDY = "copy the folder again, or delete it and train again"


class Encoded(NamedTuple):
    """What an encoder gives for n samples."""

    hidden: Tensor
    """Backbone output ``(n, h)``: what linear probes use."""
    scores: Tensor
    """Signed projector output ``(n, d)``."""
    features: Tensor
    """The transform of the scores ``(n, d)``: non-negative for NCL."""


def _known_transform(kind: str) -> str:
    if kind not in TRANSFORMS:
        raise ValueError(f"unknown transform; known: {', '.join(TRANSFORMS)}")
    return kind


TransformName = Annotated[str, AfterValidator(_known_transform)]


class EncoderSettings(Settings):
    """Everything that is needed to build an encoder again."""

    backbone: backbones.BackboneSettings | None = None
    """None for a module of the user's own, which then has to be given when loading."""
    frozen: bool = False
    """Whether only the projector learns."""
    projector: ProjectorSettings = ProjectorSettings()
    nonnegative: TransformName = "relu"
    """A key of ``nonneg.head.TRANSFORMS``; ``identity`` is ordinary contrastive learning."""
    threshold: float | None = Field(default=None, gt=0, le=1)
    """Features up to this share of the length of their row become 0; absent: none do."""
    max_active: PositiveInt | None = None
    """The most features per sample that are kept, the largest; absent: all are."""
    gate: GateSettings | None = None
    """A learnt gate that switches features off per sample (``encoder.gate.prior=0.8``); absent:
    none."""
    pixel_mean: tuple[float, ...] = ()
    """Subtracted from pixels in [0, 1], one per channel; empty for none."""
    pixel_std: tuple[float, ...] = ()
    """What they are then divided by."""

    @model_validator(mode="after")
    def _mean_and_std(self) -> Self:
        if len(self.pixel_mean) != len(self.pixel_std) or not all(s > 0 for s in self.pixel_std):
            raise ValueError(
                "pixel_mean and pixel_std need one number per channel, each std above 0"
            )
        return self


class Encoder(Shareable, nn.Module):
    """Samples in, readable features out.

    Args:
        settings: What to build.
        sample_shape: Of one sample, ``(c, h, w)`` or ``(d,)``.
        backbone: A module of your own that maps a batch to ``(n, h)``; with it, leave out
            ``settings.backbone``.

    Example:
        >>> mine = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
        >>> encoder = Encoder(EncoderSettings(frozen=True), (3, 2, 2), backbone=mine)
        >>> encoder.encode(torch.rand(7, 3, 2, 2)).features.shape
        torch.Size([7, 1024])
    """

    curation = Curation()  # here too, for encoders that were pickled without
    _reads_directions = False

    def __init__(
        self,
        settings: EncoderSettings,
        sample_shape: tuple[int, ...],
        *,
        backbone: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if (backbone is None) == (settings.backbone is None):
            raise ValueError(
                "give the backbone once: as settings.backbone, or as a module with backbone=…"
            )
        self.settings = settings
        self.sample_shape = tuple(sample_shape)
        if settings.backbone is not None:
            backbone = backbones.build(settings.backbone, self.sample_shape)
        assert backbone is not None
        self.hidden_size = _hidden_size(backbone, self.sample_shape)
        self.backbone = backbones.Frozen(backbone) if settings.frozen else backbone
        self._reads_directions = isinstance(backbone, backbones.Projection)
        self.projector = projector(self.hidden_size, settings.projector)
        self.nonnegative = NonNegative(
            settings.nonnegative, threshold=settings.threshold, max_active=settings.max_active
        )
        self.gate: Gate | None = None
        if settings.gate is not None:
            self.gate = Gate(self.hidden_size, settings.projector.n_features, settings.gate)
        self._mean: Tensor
        self._std: Tensor
        self.register_buffer("_mean", _per_channel(settings.pixel_mean), persistent=False)
        self.register_buffer("_std", _per_channel(settings.pixel_std), persistent=False)

    @property
    def is_nonnegative(self) -> bool:
        """Whether every feature is at least zero: True for NCL, False for CL."""
        return self.nonnegative.is_nonnegative

    @property
    def n_features(self) -> int:
        """The number of columns of the features."""
        return self.settings.projector.n_features

    def forward(self, inputs: Tensor, *, detached: bool = False) -> Encoded:
        """Hidden, scores and features of a batch, with gradient.

        Args:
            inputs: ``(n, *sample_shape)``; uint8 pixels of images are divided by 255.
            detached: Whether gradients of scores and features stop at the projector, so that the
                backbone does not learn from them.
        """
        hidden = self.hidden(inputs)  # (n, h)
        read = hidden.detach() if detached else hidden
        scores = self.projector(read)  # (n, d)
        features = self.nonnegative(scores, off=self.curation.off)
        if self.gate is not None:
            features = features * self.gate(read)
        if self._reads_directions:  # a vector of zeros, as that of an empty text, has none
            features = features * (inputs != 0).any(dim=1, keepdim=True)
        return Encoded(hidden, scores, self.curation.with_merged(features))

    def hidden(self, inputs: Tensor) -> Tensor:
        """Only the backbone's output ``(n, h)`` of a batch, with gradient."""
        if self.settings.backbone is not None:  # what a user's own module reads, it knows itself
            self.check_shape(tuple(inputs.shape[1:]))
        return self.backbone(self._scaled_inputs(inputs))  # type: ignore[no-any-return]

    @torch.no_grad()
    def encode(
        self,
        samples: Samples,
        batch_size: int = 512,
        *,
        after: Callable[[int], None] = lambda _: None,
    ) -> Encoded:
        """Hidden, scores and features of any number of samples, on the CPU.

        Runs in evaluation mode, without gradient, batch by batch on the encoder's device; leaves
        the mode of every part as it was. No samples give tensors of no rows.

        Args:
            samples: ``(n, *sample_shape)``, or a data set.
            batch_size: How many samples go through at once.
            after: Told the number of samples of each batch that is done.
        """
        data = as_data(samples)
        self.check_shape(data.sample_shape)  # also where there is no sample
        device = next(self.parameters()).device
        parts = []
        with evaluation_mode(self):
            for indices in torch.arange(len(data)).split(batch_size):
                encoded = self(data.fetch(indices).to(device))
                parts.append(Encoded(*(part.cpu() for part in encoded)))
                after(len(indices))
        return Encoded(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def keep_features(self, numbers: Tensor) -> None:
        """Drop all features but these, which get this order, and any curation; ``(n_kept,)``."""
        last = self.projector[-1]
        assert isinstance(last, nn.Linear)
        last.weight = nn.Parameter(last.weight.detach()[numbers].clone())
        last.bias = nn.Parameter(last.bias.detach()[numbers].clone())
        last.out_features = len(numbers)
        self.curation = Curation()
        projector = self.settings.projector.model_copy(update={"n_features": len(numbers)})
        self.settings = self.settings.model_copy(update={"projector": projector})

    def thin(self, *, threshold: float | None, max_active: int | None) -> None:
        """Set which weak features become zero; see :class:`EncoderSettings`.

        Args:
            threshold: Share of the length of the row; None or 0 for none.
            max_active: Most features per sample; None for all.
        """
        kind, threshold = self.settings.nonnegative, threshold or None
        self.nonnegative = NonNegative(kind, threshold=threshold, max_active=max_active)
        self.nonnegative.train(self.training)
        limits = {"threshold": threshold, "max_active": max_active}
        self.settings = self.settings.model_copy(update=limits)

    def identity(self) -> dict[str, Any]:
        """What determines the encoder before training, as plain values."""
        return {
            "encoder": self.settings.model_dump(mode="json"),
            "sample_shape": list(self.sample_shape),
        }

    def save(self, folder: str | Path, *, beside: Iterable[str] = ()) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a folder.

        Args:
            folder: Is made if it is not there.
            beside: Files in it that belong to the encoder, such as a classifier's weights: their
                digests are kept in ``config.json`` too.
        """
        backbone = backbones.portable(self.settings.backbone, self.backbone)  # needs no download
        settings = self.settings.model_copy(update={"backbone": backbone})
        config = {
            "nonneg": "encoder",
            "sample_shape": self.sample_shape,
            "settings": settings.model_dump(mode="json"),
            **({"curation": self.curation.model_dump(mode="json")} if self.curation else {}),
        }
        # The settings last: a folder that has them has the weights too.
        write_tensors(Path(folder) / WEIGHTS_FILE, self.state_dict())
        config["digests"] = digests(Path(folder), (WEIGHTS_FILE, *beside))
        write_json(Path(folder) / CONFIG_FILE, config)

    @classmethod
    def load(cls, folder: str | Path, *, backbone: nn.Module | None = None) -> Self:
        """The encoder that was saved in a folder, in evaluation mode, on the CPU.

        Args:
            folder: Such as a run folder.
            backbone: For an encoder around a module of your own: that module, freshly built; its
                weights are read from the folder too. It replaces the one that the settings
                describe.
        """
        folder = Path(folder)
        settings, sample_shape, curation = _read_config(folder)
        if backbone is not None:
            settings = settings.model_copy(update={"backbone": None})
        if settings.backbone is None and backbone is None:
            raise ValueError(
                f"the encoder in {folder} stands on a module of your own; load it with "
                "Encoder.load(folder, backbone=module)"
            )
        backbones.check_whole(settings.backbone, folder)
        path = folder / WEIGHTS_FILE
        weights = read_beside(folder / CONFIG_FILE, WEIGHTS_FILE, remedy=_REMEDY)
        if settings.backbone is not None and settings.backbone.family not in backbones.LIBRARIES:
            # Without memory first: settings may describe more than there is.
            with torch.device("meta"), warnings.catch_warnings(action="ignore"):
                try:
                    _fill(cls(settings, sample_shape), weights, path, is_own=False)
                except (TypeError, RuntimeError, OverflowError) as error:  # beyond any number
                    raise _other_weights(path, is_own=False) from error
        head = settings.projector  # between two widths lies a matrix
        widths = (getattr(backbone, "hidden_size", 1), *head.hidden, head.n_features)
        if sum(map(mul, widths, widths[1:])) > sum(weight.numel() for weight in weights.values()):
            raise _other_weights(path, is_own=backbone is not None)
        with torch.random.fork_rng(devices=[]):  # first weights are drawn, and replaced
            encoder = cls(settings, sample_shape, backbone=backbone)
        _fill(encoder, weights, path, is_own=backbone is not None)
        encoder.curation = curation
        return encoder.eval()

    def _scaled_inputs(self, inputs: Tensor) -> Tensor:
        dtype = next(self.projector.parameters()).dtype
        are_pixels = inputs.dtype == torch.uint8 and len(self.sample_shape) == 3
        scaled = inputs.to(dtype) / 255 if are_pixels else inputs.to(dtype)
        if self.settings.pixel_mean:
            scaled = (scaled - self._mean) / self._std
        return scaled

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ``ValueError`` for samples that this encoder does not read.

        Images may come in another size (the backbone pools), but not with other channels.
        """
        if len(shape) != len(self.sample_shape) or shape[0] != self.sample_shape[0]:
            raise ValueError(
                f"this encoder reads samples of shape {self.sample_shape}, got {tuple(shape)}"
            )


def _hidden_size(backbone: nn.Module, sample_shape: tuple[int, ...]) -> int:
    """The backbone's own ``hidden_size``, or the width of its output for a trial batch."""
    size = getattr(backbone, "hidden_size", None)
    return size if isinstance(size, int) else backbones.hidden_size(backbone, sample_shape)


def _per_channel(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values).view(-1, 1, 1)  # (c, 1, 1)


def _read_config(folder: Path) -> tuple[EncoderSettings, tuple[int, ...], Curation]:
    """The settings, the sample shape and the curation of the encoder in a folder."""
    _check_there(folder, CONFIG_FILE)
    path = folder / CONFIG_FILE
    config = read_json(path, remedy=_REMEDY)
    if not isinstance(config, dict) or config.get("nonneg") != "encoder":
        raise ValueError(f"{path} does not describe an encoder; give the folder of a finished run")
    shape, settings = config.get("sample_shape"), config.get("settings")
    if not isinstance(shape, list) or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"{path} lacks a sample_shape of whole numbers; {_REMEDY}")
    if not isinstance(settings, dict):
        raise ValueError(f"{path} lacks the settings of the encoder; {_REMEDY}")
    try:
        found = EncoderSettings.read(settings)
        curation = Curation.of(config.get("curation"), found.projector.n_features)
    except ValueError as error:
        raise ValueError(f"{path} does not describe an encoder: {error}; {_REMEDY}") from error
    _check_there(folder, WEIGHTS_FILE)
    return found, tuple(shape), curation


def _fill(encoder: Encoder, weights: dict[str, Tensor], path: Path, *, is_own: bool) -> None:
    """Put the weights of a file into an encoder, whose backbone may be the user's own."""
    kinds = {weight.dtype for weight in weights.values() if weight.is_floating_point()}
    if kinds == {torch.float64}:
        encoder.double()  # a run of precision 64-true keeps its digits
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        raise _other_weights(path, is_own=is_own) from error


def _other_weights(path: Path, *, is_own: bool) -> ValueError:
    built = ", and build the backbone as it was" if is_own else ""
    return ValueError(
        f"{path} holds other weights than those of the encoder in {CONFIG_FILE} beside it; "
        f"copy both files from the same run{built}"
    )


def _check_there(folder: Path, name: str) -> None:
    if (folder / name).exists():
        return
    if (folder / _BEGUN_FILE).exists():
        raise FileNotFoundError(
            f"{folder} is not finished: {name} is missing; continue it with nonneg train … "
            "--resume, or with nonneg fit if that began it"
        )
    raise FileNotFoundError(
        f"no encoder in {folder}: {name} is missing; give the folder of a finished run"
    )
