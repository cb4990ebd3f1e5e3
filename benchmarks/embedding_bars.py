"""The bars of readable features without loss, checked on measured figures, set by set."""

from collections.abc import Mapping
from typing import NamedTuple

Values = Mapping[str, float]  # means over seeds, by the name of the figure


class Bar(NamedTuple):
    """One demand: a figure that is at least, or at most, a limit.

    The limit is ``times`` the figure of the vectors themselves, plus a number.
    """

    figure: str
    sign: str
    plus: float
    times: float = 0.0

    def limit(self, dense: Values) -> float:
        """What the figure is compared with."""
        return self.plus + (self.times * dense[self.figure] if self.times else 0.0)

    def is_held(self, value: float, dense: Values) -> bool:
        """Whether a figure is on the right side of the limit; NaN is not."""
        limit = self.limit(dense)
        return {"≥": value >= limit, "≤": value <= limit, ">": value > limit}[self.sign]


_TWINS = Bar("twins", "≤", 0.05)
# What is asked of sets that nothing was tuned on.
_ELSEWHERE = (
    Bar("p10", "≥", 0.0, times=1),
    Bar("nn1", "≥", -0.01, times=1),
    Bar("active", "≤", 16),
    Bar("twins", "≤", 0.10),
)
DEFAULT: dict[str, tuple[Bar, ...]] = {
    "clinc150": (
        Bar("p10", "≥", 0.897),
        Bar("nn1", "≥", 0.912),
        Bar("active", "≤", 8),
        Bar("purity", "≥", 0.80),
        _TWINS,
    ),
    "newsgroups20": (
        Bar("p10", "≥", 0.03, times=1),
        Bar("nn1", "≥", -0.01, times=1),
        Bar("active", "≤", 16),
        Bar("purity", "≥", 0.0, times=2.5),
        _TWINS,
    ),
    "bbc": (
        Bar("p10", "≥", 0.935),
        Bar("nn1", "≥", 0.960),
        Bar("active", "≤", 8),
        Bar("purity", "≥", 0.91),
        Bar("seconds", "≤", 8),
        _TWINS,
    ),
    "cranfield": (
        Bar("ndcg", "≥", 0.0, times=1),
        Bar("ndcg_gain_high", "≥", 0.0),
        Bar("active", "≤", 32),
        _TWINS,
    ),
    "scifact": (Bar("ndcg", "≥", 0.50), Bar("active", "≤", 32), _TWINS),
    "cifar10": _ELSEWHERE,
    "fashion-mnist": _ELSEWHERE,
}
FULL: dict[str, tuple[Bar, ...]] = {
    "cranfield": (Bar("ndcg", ">", 0.0, times=1), Bar("active", "≤", 64)),
    "scifact": (Bar("ndcg", "≥", 0.55), Bar("active", "≤", 128)),
}

_NAMES = {
    "p10": "P@10",
    "nn1": "1-NN",
    "purity": "purity",
    "active": "active",
    "twins": "twins",
    "seconds": "fit",
    "ndcg": "nDCG@10",
    "ndcg_gain_high": "upper end of its gain",
}
_DIGITS = {"active": 1, "seconds": 1, "twins": 3}


def checked(bars: tuple[Bar, ...], values: Values, dense: Values) -> str:
    """Each bar with whether it is held; what is missed is bold, with the figure.

    Example:
        >>> checked((Bar("p10", "≥", 0.9), Bar("active", "≤", 8)), {"p10": 0.91, "active": 9}, {})
        'P@10 ≥ 0.900 held; **active ≤ 8.0 missed (9.00)**'
    """
    return "; ".join(_checked(bar, values[bar.figure], dense) for bar in bars)


def _checked(bar: Bar, value: float, dense: Values) -> str:
    digits = _DIGITS.get(bar.figure, 3)
    text = f"{_NAMES[bar.figure]} {bar.sign} {bar.limit(dense):.{digits}f}"
    if bar.is_held(value, dense):
        return f"{text} held"
    figure = f"{value:.{digits + 1}f}".replace("-", "−")
    return f"**{text} missed ({figure})**"
