"""The results of metrics: a number, what it was averaged over, and the figure per feature."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
RandomState = int | np.random.Generator | None
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A number and how to read it; ``float(result)`` is the number.

    Args:
        value: The number; NaN where nothing could be measured (``averaged_over`` is then 0).
        averaged_over: How many things went into the value.
        averaged_unit: What those things are: ``"features"``, ``"samples"``, …
        higher_is_better: The direction; None where neither end is the good one.
        signed: Z had negative entries and their absolute values were measured.

    Example:
        >>> found = Measurement(
        ...     value=0.5,
        ...     averaged_over=4,
        ...     averaged_unit="features",
        ...     higher_is_better=True,
        ...     signed=False,
        ... )
        >>> float(found), f"{found:.2f}", found.scalars()["averaged_over"]
        (0.5, '0.50', 4)
    """

    value: float
    averaged_over: int
    averaged_unit: str
    higher_is_better: bool | None
    signed: bool

    def __post_init__(self) -> None:
        for entry in fields(self):
            array = getattr(self, entry.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def __float__(self) -> float:
        return self.value

    def __format__(self, spec: str) -> str:
        """The number in a given format, as ``f"{result:.3f}"``; without one, the whole result."""
        return format(self.value, spec) if spec else str(self)

    def scalars(self) -> dict[str, object]:
        """Every field that is not an array, by name: for a table or a JSON file."""
        named = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: entry for name, entry in named.items() if not _holds_array(entry)}


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureMeasurement(Measurement):
    """A number that is a mean over features.

    Args:
        per_feature: ``(n_features,)``, NaN for a feature that was not measured.
        n_alive: Features that are active for at least one sample.
        n_dead: The others.
    """

    per_feature: FloatArray = field(repr=False)
    n_alive: int
    n_dead: int


def _holds_array(entry: object) -> bool:
    if isinstance(entry, Mapping):
        return any(map(_holds_array, entry.values()))
    return isinstance(entry, np.ndarray)


def mean_of_measured(per_feature: FloatArray) -> tuple[float, int]:
    """The mean of the entries that are not NaN, and their number; (NaN, 0) if there are none."""
    measured = per_feature[~np.isnan(per_feature)]
    return (float(measured.mean()) if measured.size else float("nan")), int(measured.size)
