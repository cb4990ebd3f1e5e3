"""A figure: one number of an evaluation, its direction, and what it must be read against."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from nonneg.metrics.figures import figure_kind

Beside = Mapping[str, float | int | str | None]
# Beside a figure that has no value: the reason.
BECAUSE = "because"


@dataclass(frozen=True)
class Figure:
    """One number of an evaluation.

    Args:
        value: The number; None where there was nothing to measure.
        higher_is_better: The direction; None where neither end is the good one.
        is_rate: In [0, 1], shown as a percentage.
        beside: What it must be read against: the null, the spread, the counts.

    Example:
        >>> Figure(float("nan")).value is None
        True
    """

    value: float | None
    higher_is_better: bool | None = None
    is_rate: bool = False
    beside: Beside = field(default_factory=dict)

    def __post_init__(self) -> None:
        # JSON has no NaN: what could not be measured is null.
        object.__setattr__(self, "value", _finite(self.value))
        object.__setattr__(self, "beside", {k: _finite(v) for k, v in self.beside.items()})

    @classmethod
    def of(cls, key: str, value: float | None, **beside: float | int | str | None) -> Self:
        """The figure of a key, with the direction that :mod:`nonneg.metrics.figures` gives it.

        Example:
            >>> Figure.of("probe_hidden", 0.9, n_train=60).text()
            '90.0 %'
        """
        kind = figure_kind(key)
        return cls(value, kind.higher_is_better, kind.is_rate, beside)

    def as_json(self) -> dict[str, Any]:
        """Plain values, from which ``Figure(**values)`` makes it again."""
        return {
            "value": self.value,
            "higher_is_better": self.higher_is_better,
            "is_rate": self.is_rate,
            "beside": dict(self.beside),
        }

    def text(self) -> str:
        """The number as a table shows it."""
        return number_text(self.value, is_rate=self.is_rate)


Figures = dict[str, Figure]


def number_text(value: float | int | str | None, *, is_rate: bool = False) -> str:
    """A number in the digits that a table has room for; a dash for None.

    Example:
        >>> [number_text(number) for number in (0.1234, 1234.5, None, 7)]
        ['0.123', '1,234.5', '–', '7']
        >>> number_text(0.1234, is_rate=True)
        '12.3 %'
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if is_rate:
        return f"{100 * value:.1f} %"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _finite(value: Any) -> Any:  # noqa: ANN401
    return None if isinstance(value, float) and not math.isfinite(value) else value
