"""What is known of a run besides its features? What was trained, its figures and its history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nonneg.evaluation.figure import Figures


@dataclass(frozen=True)
class SelectionPoint:
    """How much is kept with some of the features.

    Args:
        task: ``"probe"``, ``"retrieval"`` or ``"transfer"``.
        ranking: By what features were chosen: ``"ea_rectified"``, ``"ea_signed"``, ``"random"``,
            or ``"all"``.
        n_features: How many.
        value: Accuracy, or precision at 10.
        std: Over random draws; None where there is one choice only.
    """

    task: str
    ranking: str
    n_features: int
    value: float
    std: float | None = None


@dataclass(frozen=True)
class Training:
    """The history of a run.

    Args:
        records: One an epoch, oldest first, with ``epoch`` and any of ``loss``,
            ``alive_features``, ``sparsity``, ``class_consistency``, ``effective_rank``.
        collapse: Level of a quantity at which a run counts as collapsed, by its name.
    """

    records: Sequence[Mapping[str, Any]]
    collapse: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Story:
    """Everything that features alone cannot tell.

    Args:
        about: Sentences: what was trained on what, and what is shown.
        figures: More figures of a method, by its name on the page.
        selection: The selection result.
        training: Histories by method.
        notes: What could not be shown, and why.
    """

    about: Sequence[str] = ()
    figures: Mapping[str, Figures] = field(default_factory=dict)
    selection: Sequence[SelectionPoint] = ()
    training: Mapping[str, Training] = field(default_factory=dict)
    notes: Sequence[str] = ()
