"""What the studies share: records that are kept line by line, and pages that show them."""

import json
import math
from pathlib import Path
from statistics import mean, stdev
from typing import Any

Record = dict[str, Any]


def append(path: Path, record: Record) -> None:
    """Add a line to a file of records: numbers with six digits, NaN as null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps({key: _plain(value) for key, value in record.items()}) + "\n")


def _plain(value: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else round(value, 6)


def read(path: Path, *by: str) -> list[Record]:
    """The records of a file, which need not exist; of those that agree in all of these the last."""
    found = map(json.loads, path.read_text().splitlines() if path.exists() else ())
    return list({tuple(record[key] for key in by): record for record in found}.values())


def folder_name(title: str, seed: int) -> str:
    """The name of a run's folder.

    Example:
        >>> folder_name("NCL, T 0.1", 2)
        'ncl--t-0-1-seed2'
    """
    return "".join(c if c.isalnum() else "-" for c in title.lower()) + f"-seed{seed}"


def as_markdown(rows: list[list[str]]) -> str:
    """Rows of cells as a table; the first is its head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def spread(values: list[float], *, sign: bool = False) -> str:
    """Mean and standard deviation over seeds.

    Example:
        >>> spread([-1.0, -2.0, -3.0]), spread([4.0], sign=True), spread([])
        ('−2.00 ± 1.00', '+4.00', '–')
    """
    if not values:
        return "–"
    deviation = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):{'+' if sign else ''}.2f}{deviation}".replace("-", "−")


def between_marks(page: str, shown: str) -> str:
    """A page with something new between its marks.

    Example:
        >>> between_marks("a <!-- study --> old <!-- end --> b", "new").split()
        ['a', '<!--', 'study', '-->', 'new', '<!--', 'end', '-->', 'b']
    """
    before, _, rest = page.partition("<!-- study -->")
    after = rest.partition("<!-- end -->")[2]
    return f"{before}<!-- study -->\n\n{shown}\n\n<!-- end -->{after}"
