"""What can be set about an evaluation? Sizes, seeds and counts; they are written beside figures."""

from typing import Annotated, Literal

from pydantic import Field

from nonneg.settings import Settings

Rate = Annotated[float, Field(gt=0, le=1)]
# A whole number is a number of features; a share below 1 is a share of the features alive.
Size = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)]
Layers = Annotated[tuple[Literal["hidden", "features"], ...], Field(min_length=1)]


class FineTuneSettings(Settings):
    """How a whole network is trained on with labels."""

    epochs: int = Field(default=10, ge=1)
    """How often every training sample is seen, in one view."""
    batch_size: int = Field(default=256, ge=2)
    """Samples a step."""
    lr: float = Field(default=1e-3, gt=0, le=1e4)
    """Learning rate of AdamW at its peak."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """How strongly weights are drawn to zero."""
    warmup_epochs: float = Field(default=1.0, ge=0)
    """Linear from zero to the peak; cosine to zero afterwards."""


class EvaluationSettings(Settings):
    """What is measured, on how many samples, with which seed."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    """Of permutations, draws of labels and features, corruptions and views."""
    train_samples: int | None = Field(default=None, ge=2)
    """Training samples that probes, voters and rankings learn from; None means all of them."""
    probed: Layers = ("hidden", "features")
    """Layers that linear probes read, here and on another set."""
    top: int = Field(default=20, ge=1)
    """The m of top purity; also the least number of active samples of a feature that counts."""
    k: int = Field(default=10, ge=1)
    """Neighbours in retrieval."""
    n_voters: int = Field(default=20, ge=1)
    """Neighbours that vote in the k-NN classifier."""
    n_permutations: int = Field(default=20, ge=1)
    """Of the labels, for what chance would give."""
    n_bootstrap: int = Field(default=200, ge=2)
    """Draws behind an interval."""
    label_rates: tuple[Rate, ...] = (0.01, 0.1)
    """Shares of the training labels for the few-label probe."""
    n_draws: int = Field(default=5, ge=1)
    """Of few labels, and of random features in selection."""
    sepin_samples: int = Field(default=5000, ge=2)
    """Test samples whose two views SEPIN compares."""
    selection: tuple[Size, ...] = (0.5, 0.25, 0.125)
    """How many features are kept: a number of them, or a share of those alive."""
    selection_samples: int = Field(default=10_000, ge=2)
    """Training samples that features are ranked on and probes of selection are fitted to."""
    robustness_samples: int = Field(default=2000, ge=1)
    """Test samples that are corrupted, each in every way."""
    severities: tuple[Annotated[int, Field(ge=1, le=5)], ...] = (1, 2, 3, 4, 5)
    """How strongly they are corrupted."""
    fine_tune: FineTuneSettings = FineTuneSettings()
