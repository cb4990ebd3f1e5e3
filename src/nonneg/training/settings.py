"""The settings of a training run: loss, optimiser, schedule and machine; nothing about data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from nonneg.settings import Settings, nearest


class LossSettings(Settings):
    """What is minimised."""

    former_names: ClassVar[Mapping[str, str]] = {"hidden_weight": "backbone_weight"}

    name: Literal[
        "info_nce",
        "soft_info_nce",
        "spectral",
        "decoupled",
        "supervised_contrastive",
        "sigmoid",
        "queue",
        "vicreg",
        "barlow_twins",
        "ce",
        "nonneg_ce",
    ] = "info_nce"
    """ce and nonneg_ce are for classifiers: cross entropy, and the same with everything
    non-negative; all others are for pairs."""
    temperature: float = Field(default=0.12, gt=0)
    """Of losses that compare by cosine. Lower: more features on for a sample; higher: fewer."""
    backbone_weight: float = Field(default=0.0, ge=0, le=1)
    """Share of the same loss of the backbone's output, signed and centred, in what is minimised;
    the rest is that of the features. With 1 the backbone learns from its own output alone, and the
    projector learns from the features without touching the backbone. Not for queue,
    soft_info_nce and frozen backbones, which refuse it; classifiers do not look at it."""
    teacher_temperature: float = Field(default=0.05, gt=0)
    """Of soft_info_nce: of the cosines of the backbone's outputs, centred and without gradient,
    that say which samples of the batch belong together."""
    partner_rate: float = Field(default=0.3, ge=0, le=1)
    """Of soft_info_nce: the share of the partner in the targets, whatever the cosines say."""
    queue_size: int = Field(default=4096, ge=2)
    """Of queue: how many keys of earlier batches are the negatives."""
    momentum: float = Field(default=0.99, ge=0, lt=1)
    """Of queue: the share of its weights that the slow copy, which makes the keys, keeps at each
    step."""


class OptimizerSettings(Settings):
    """How weights move. Biases and norms are never decayed, and LARS does not scale them."""

    name: Literal["adamw", "sgd", "lars"] = "adamw"
    """lars is for batches of thousands."""
    lr: float = Field(default=2e-3, gt=0, le=1e4)
    """At its peak, for the batch size that is set: it is not scaled."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """How strongly weights are drawn to zero."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Of sgd and lars."""
    eta: float = Field(default=0.02, gt=0)
    """Trust coefficient of lars."""


class LoopSettings(Settings):
    """How long, in which portions, and on what machine."""

    former_names: ClassVar[Mapping[str, str]] = {"anchor_at": "reinit_at"}

    epochs: int = Field(default=20, ge=1)
    """How often every sample is seen, each time in two views."""
    batch_size: int = Field(default=256, ge=2)
    """Pairs that see each other as negatives, over all processes together."""
    warmup_epochs: float = Field(default=1.0, ge=0)
    """Linear from zero to the peak; cosine to zero afterwards."""
    revive: bool = True
    """Whether dead features, off for all of 4,096 views, are re-initialised, each at a view drawn
    at random; checked four times during the first two thirds of the steps, and done if more than
    5 % are dead. Not for signed features, which are never off, nor with a gate, nor in supervised
    tasks; after reinit_at only."""
    reinit_at: float = Field(default=0.0, ge=0, lt=1)
    """After this share of the steps every feature is re-initialised at a view of its own, drawn at
    random (as far as the views of an epoch go), and on for 5 % of them: what the backbone has
    learnt by then decides where. 0: never. Only for relu and rep_relu, and not with a gate nor in
    supervised tasks; queue refuses it."""
    max_on_rate: float = Field(default=1.0, gt=0, le=1)
    """After the last step, thresholds are raised until no feature is on for more than this share of
    4,096 views (of samples as they are it may be a little more or less); 1 leaves them as they are.
    Only for relu and rep_relu, and not with a gate nor in supervised tasks."""
    min_on_rate: float = Field(default=0.0, ge=0, le=1)
    """After the last step, thresholds are lowered until every feature, dead ones too, is on for
    this share of those views; 0 leaves them as they are. For the same features as max_on_rate,
    which may not be smaller."""
    keep_angles: bool = False
    """Whether, after the last step, the last layer gets the nearest weights that keep the angles
    between its inputs (a tight frame), so that neighbours by features are nearly those of what it
    reads; each feature stays on for as many of 4,096 views as it was, or as the two bounds allow.
    Needs at least as many features as that layer has inputs. Only for relu, rep_relu and identity,
    and not with a gate nor in supervised tasks."""
    clip_norm: float | None = Field(default=None, gt=0)
    """Gradients whose norm over all weights is larger are scaled down to it."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are averaged for one step; each keeps its own negatives."""
    chunk_size: int | None = Field(default=None, ge=2)
    """The most views that go through the encoder at once (in each process). Loss and gradient are
    those of the whole batch, with the memory of one chunk and at the cost of one more forward pass;
    batch normalisation then takes its statistics over a chunk. Absent: the whole batch at once."""
    accelerator: str = "auto"
    """cpu, gpu, or another of Lightning Fabric's; auto takes the best there is."""
    devices: int = Field(default=1, ge=1)
    """Processes on this machine; under torchrun its own number counts."""
    strategy: str = "auto"
    """How processes work together, as Lightning Fabric names it; auto is ddp for several."""
    precision: Literal["32-true", "64-true", "bf16-mixed"] = "32-true"
    """Of the arithmetic; bf16-mixed is for accelerators."""
    compile: bool = False
    """Whether to use torch.compile, which takes minutes and pays off on long runs only."""
    n_workers: int = Field(default=0, ge=0)
    """Processes that read and decode files; 0 reads in the training process."""
    checkpoint_every: int | None = Field(default=None, ge=1)
    """Steps between checkpoints, besides the one after each epoch."""
    monitor_samples: int = Field(default=1000, ge=10)
    """Held-out samples that are measured after each epoch."""
    monitor_every: int | None = Field(default=None, ge=1)
    """Steps between measurements within an epoch, for what happens early; absent: none."""
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Where history goes besides history.jsonl."""

    @model_validator(mode="after")
    def _bounds_have_room(self) -> "LoopSettings":
        if self.min_on_rate > self.max_on_rate:
            raise ValueError(
                f"training.min_on_rate ({self.min_on_rate:g}) must not be above "
                f"training.max_on_rate ({self.max_on_rate:g}); lower the one or raise the other"
            )
        return self


class TrainConfig(Settings):
    """All settings of ``nonneg.train``."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    """Of the initial weights, the order of the samples and the views."""
    loss: LossSettings = LossSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    training: LoopSettings = LoopSettings()

    def changed(self, **settings: Any) -> "TrainConfig":  # noqa: ANN401
        """The same with some settings changed, each named without its group.

        Args:
            settings: Such as ``epochs=2, lr=1e-3, temperature=0.2``; ``loss`` and ``optimizer`` are
                their names.

        Example:
            >>> changed = TrainConfig().changed(epochs=2, temperature=0.2, optimizer="sgd")
            >>> changed.training.epochs, changed.loss.temperature, changed.optimizer.name
            (2, 0.2, 'sgd')
        """
        table = self.model_dump()
        for key, value in settings.items():
            group, name = _place(key)
            (table[group] if group else table)[name] = value
        return TrainConfig.read(table)

    @model_validator(mode="after")
    def _warmup_fits(self) -> "TrainConfig":
        if self.training.warmup_epochs >= self.training.epochs:
            raise ValueError(
                f"training.warmup_epochs ({self.training.warmup_epochs:g}) must be below "
                f"training.epochs ({self.training.epochs}); set training.warmup_epochs=0 or more "
                "epochs"
            )
        return self


_GROUPS: dict[str, type[Settings]] = {
    "loss": LossSettings,
    "optimizer": OptimizerSettings,
    "training": LoopSettings,
}


def _place(key: str) -> tuple[str, str]:
    """The group of a setting and its name there; an empty group for the seed."""
    if key == "seed":
        return "", key
    if key in ("loss", "optimizer"):
        return key, "name"
    groups = [group for group, kind in _GROUPS.items() if key in kind.model_fields]
    if len(groups) == 1:
        return groups[0], key
    if groups:
        meant = " or ".join(f"{group}.{key}" for group in groups)
        raise ValueError(f"{key} may mean {meant}; set it with nonneg.TrainConfig.read")
    known = ["seed", *_GROUPS, *(key for kind in _GROUPS.values() for key in kind.model_fields)]
    raise ValueError(f"unknown setting {key!r}; {nearest(key, known)}")


# Settings that say where a run happens, not what it computes: a resumed run may change them.
MACHINE_SETTINGS = (
    "accelerator",
    "devices",
    "strategy",
    "compile",
    "n_workers",
    "checkpoint_every",
    "loggers",
)
