"""How fast does a method learn at first? Steps until fixed accuracies are reached."""

from collections.abc import Mapping, Sequence
from typing import Any

_N_ACCURACIES = 8

Curve = list[tuple[float, float]]
"""Steps taken and the accuracy on held-out samples after them, in order."""


def accuracy_curve(history: Sequence[Mapping[str, Any]]) -> Curve:
    """The accuracy over training, from a run's history; empty where none was measured.

    Args:
        history: A record an epoch, with measurements within it where there were some.

    Example:
        >>> accuracy_curve([{"step": 4, "accuracy": 0.5, "within": [{"step": 2, "accuracy": 0.3}]}])
        [(2, 0.3), (4, 0.5)]
    """
    points: dict[float, float] = {}
    for record in history:
        for measured in (*record.get("within", ()), record):
            if "accuracy" in measured:
                points[measured["step"]] = measured["accuracy"]
    return sorted(points.items())


def steps_to_reach(curve: Curve, accuracy: float) -> float | None:
    """After how many steps an accuracy was first reached, between measurements by a straight line.

    None where it never was. Before the first measurement nothing is known: an accuracy that is
    there already has its step.

    Example:
        >>> steps_to_reach([(10, 0.4), (20, 0.6)], 0.5)
        15.0
    """
    before: tuple[float, float] | None = None
    for step, reached in curve:
        if reached >= accuracy:
            if before is None:
                return float(step)
            share = (accuracy - before[1]) / (reached - before[1])
            return before[0] + share * (step - before[0])
        before = (step, reached)
    return None


def fixed_accuracies(curves: Mapping[str, Mapping[int, Curve]]) -> list[float]:
    """Accuracies to compare by: every 5 points, the last eight that some run reaches."""
    highest = max(
        (y for runs in curves.values() for curve in runs.values() for _, y in curve), default=0.0
    )
    reached = [percent / 100 for percent in range(5, 100, 5) if percent / 100 <= highest]
    return reached[-_N_ACCURACIES:]
