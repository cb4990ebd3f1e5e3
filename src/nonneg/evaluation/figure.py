"""What is written down of a measurement? A number, its direction, and what it is read against."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Beside = Mapping[str, float | int | str | None]


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
        return shown(self.value, is_rate=self.is_rate)


Figures = dict[str, Figure]


def shown(value: float | int | str | None, *, is_rate: bool = False) -> str:
    """A number in the digits that a table has room for; a dash for None.

    Example:
        >>> shown(0.1234, is_rate=True), shown(0.1234), shown(1234.5), shown(None), shown(7)
        ('12.3 %', '0.123', '1,234.5', '–', '7')
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
