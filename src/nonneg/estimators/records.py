"""A table: a pandas data frame, or plain records where pandas is not installed."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from nonneg.io import write_bytes

# Rows of records that are printed.
_SHOWN = 20


class Records(list[dict[str, Any]]):
    """A table without pandas: a list with a dictionary per row.

    Args:
        rows: All with the same keys.
        columns: These keys; known of a table without rows too.

    Example:
        >>> records = Records([{"feature": 3, "share": 0.25}], ["feature", "share"])
        >>> records["share"]
        [0.25]
        >>> print(records.to_markdown())
        | feature | share |
        |--------:|------:|
        |       3 |  0.25 |
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = (), columns: Iterable[str] = ()) -> None:
        super().__init__(rows)
        self.columns = list(columns) or (list(self[0]) if self else [])

    def __getitem__(self, which: Any) -> Any:  # noqa: ANN401
        if isinstance(which, str):
            return [row[which] for row in self]
        found = super().__getitem__(which)
        return Records(found, self.columns) if isinstance(which, slice) else found

    def head(self, n: int = 5) -> "Records":
        """The first rows."""
        head: Records = self[:n]
        return head

    def to_markdown(self) -> str:
        """The table in Markdown, numbers with four digits."""
        return markdown({name: self[name] for name in self.columns})

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """The table as csv with full numbers: written to a file, or returned without a path."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if _is_nothing(v) else v for v in row.values()] for row in self)
        if path is None:
            return lines.getvalue()
        write_bytes(Path(path), lines.getvalue().encode())
        return None

    def __repr__(self) -> str:
        shown = self.head(_SHOWN).to_markdown()
        n_more = len(self) - _SHOWN
        return f"{shown}\n… and {n_more} more rows" if n_more > 0 else shown


Table = Any
"""A ``pandas.DataFrame`` where pandas is installed, :class:`Records` otherwise."""


def table(columns: Mapping[str, Sequence[Any]]) -> Table:
    """Columns of one length as a data frame, or as records where pandas is not installed.

    Either has ``to_markdown`` and ``to_csv``, which give the same text; the data frame's need no
    other package and leave its row numbers out unless asked for them.
    """
    plain = {name: _plain(values) for name, values in columns.items()}
    try:
        import_module("pandas")
    except (ImportError, RuntimeError, OSError):
        rows = zip(*plain.values(), strict=True)
        return Records((dict(zip(plain, row, strict=True)) for row in rows), plain)
    return _frame_class()(plain)


def _plain(values: Any) -> list[Any]:  # noqa: ANN401
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


@cache
def _frame_class() -> Any:  # noqa: ANN401
    pandas: Any = import_module("pandas")

    class TableFrame(pandas.DataFrame):  # type: ignore[misc]
        """A data frame that writes Markdown without the package tabulate."""

        @property
        def _constructor(self) -> Any:  # noqa: ANN401
            return TableFrame

        def to_markdown(self, buf: Any = None, **how: Any) -> Any:  # noqa: ANN401
            """The table in Markdown; arguments are those of pandas, and need tabulate."""
            if buf is not None or how:
                return super().to_markdown(buf, **how)
            return markdown({str(name): column.tolist() for name, column in self.items()})

        def to_csv(self, path: Any = None, *, index: bool = False, **how: Any) -> Any:  # noqa: ANN401
            """As of pandas, without row numbers unless asked for."""
            return super().to_csv(path, index=index, **how)

    TableFrame.__qualname__ = "TableFrame"  # so that it can be pickled
    return TableFrame


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """The class of data frames, made when a pickled one is read: pandas is imported on use."""
    if name == "TableFrame":
        return _frame_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def markdown(columns: Mapping[str, Sequence[Any]]) -> str:
    r"""A table in Markdown whose columns line up; numbers have four digits and stand right.

    Example:
        >>> print(markdown({"name": ["a|b", ""], "p": [0.123456, float("nan")]}))
        | name |      p |
        |------|-------:|
        | a\|b | 0.1235 |
        |      |        |
    """
    cells = {_escaped(name): [_cell(value) for value in each] for name, each in columns.items()}
    widths = [max(map(len, (name, *each))) for name, each in cells.items()]
    is_right = [all(map(_is_number, each)) and len(each) > 0 for each in columns.values()]

    def line(row: Iterable[str]) -> str:
        parts = zip(row, widths, is_right, strict=True)
        padded = (text.rjust(w) if right else text.ljust(w) for text, w, right in parts)
        return f"| {' | '.join(padded)} |"

    ruler = "|".join(
        "-" * (w + 1) + (":" if right else "-") for w, right in zip(widths, is_right, strict=True)
    )
    rows = zip(*cells.values(), strict=True)
    return "\n".join([line(cells), f"|{ruler}|", *map(line, rows)])


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_nothing(value: Any) -> bool:  # noqa: ANN401
    return value is None or (isinstance(value, float) and math.isnan(value))


def _cell(value: Any) -> str:  # noqa: ANN401
    if _is_nothing(value):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else _escaped(str(value))


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
