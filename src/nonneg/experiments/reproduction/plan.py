"""What does a table consist of? Arms that differ by a few settings, and figures of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# What the tables show, and no more: two cores have to measure dozens of runs.
EVALUATION = (
    "selection=[0.25]",
    "n_draws=3",
    "severities=[1, 3, 5]",
    "robustness_samples=1000",
    "fine_tune.epochs=3",
    "fine_tune.warmup_epochs=0.5",
)
# For tables of many arms: probes of features, on all samples, take longer than a small run.
IN_SHORT = (*EVALUATION, "train_samples=10000", 'probed=["hidden"]')


@dataclass(frozen=True)
class Arm:
    """One method of a table: a preset with changes.

    Args:
        name: As the table shows it.
        changes: Settings as ``nonneg train --set`` takes them.
        signed: Whether the transform is taken out: CL, all else equal.
        starts_from: Another arm, whose encoder of the same seed gives the first weights.
        preset: Another one than that of the table.
        against: The arm that it is compared with; None means the first of the table.
    """

    name: str
    changes: tuple[str, ...] = ()
    signed: bool = False
    starts_from: "Arm | None" = None
    preset: str | None = None
    against: str | None = None


@dataclass(frozen=True)
class Grid:
    """How an arm is tuned: one setting, by steps of one factor, on held-out samples.

    The best of three values is taken; while it is at an edge, one more value beyond it is tried,
    so that every arm gets what suits it and the same care.

    Args:
        setting: Its key, such as ``optimizer.lr``.
        middle: The value to begin with.
        factor: Between two values.
        figure: What has to be high, on held-out samples of the first seed.
        section: Of the evaluation that has this figure.
        most: Values in all, at most.
    """

    setting: str
    middle: float
    factor: float
    figure: str
    section: str
    most: int = 5


@dataclass(frozen=True)
class Plan:
    """A table of the paper, before it is filled.

    Args:
        name: As the command line takes it.
        about: One sentence for the reader of the table.
        arms: The first is what the others are compared with.
        figures: Headings by the names of figures.
        sections: Of the evaluation, that have these figures.
        changes: Settings of every arm, as ``nonneg train --set`` takes them; those of the command
            override them.
        evaluation: Settings of the evaluation, as ``nonneg evaluate --set`` takes them; tables
            that share them measure a section which several of them need once.
        grid: How each arm is tuned; None takes the preset as it is.
        paper: What the paper reports, by arm and figure, as it prints it.
    """

    name: str
    about: str
    arms: tuple[Arm, ...]
    figures: Mapping[str, str]
    sections: tuple[str, ...]
    changes: tuple[str, ...] = ()
    evaluation: tuple[str, ...] = EVALUATION
    grid: Grid | None = None
    paper: Mapping[tuple[str, str], str] = field(default_factory=dict)
