"""The paper's published figures, read from ``published.toml``."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Published:
    """A figure of the paper.

    Args:
        value: As a share where it is printed in percent.
        std: Its spread over three runs, where one is given.
        printed: The number as the paper prints it.
    """

    value: float
    std: float | None
    printed: str


def published_figures(data: str, method: str) -> dict[str, Published]:
    """The accuracies that the paper has of a method, by the key of the figure.

    Args:
        data: The name of a data set, such as ``"cifar10"``.
        method: ``"CL"`` or ``"NCL"``.

    Returns:
        Nothing for sets and methods that the paper does not have.

    Example:
        >>> published_figures("cifar100", "NCL")["probe_hidden"].printed
        '59.7'
    """
    found = _tables()["percent"].get(data, {}).get(method, {})
    return {key: _percent(*numbers) for key, numbers in found.items()}


def published_sepin(data: str, method: str) -> dict[str, Published]:
    """SEPIN@k as the paper has it, in a unit that is not ours."""
    found = _tables()["sepin"].get(data, {}).get(method, {})
    return {key: Published(value, None, f"{value:.2f}") for key, (value,) in found.items()}


def published_supervised(data: str) -> dict[str, Published]:
    """Accuracies of training with labels, by the arm of the paper's table."""
    found = _tables()["supervised"].get(data, {})
    return {arm: _percent(*numbers) for arm, numbers in found.items()}


def _percent(value: float, std: float | None = None) -> Published:
    return Published(value / 100, None if std is None else std / 100, f"{value:.1f}")


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((files("nonneg.evaluation") / "published.toml").read_text("utf-8"))
