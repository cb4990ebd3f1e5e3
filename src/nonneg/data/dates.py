"""Dates as they are written, and the periods that they fall into."""

import re
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

PERIODS = ("day", "week", "month", "quarter", "year", "decade", "century")
_YEAR_OR_MONTH = re.compile(r"\d{4}(-\d{2})?", re.ASCII)
_NOTHING = ("", "None", "NaT", "nan", "<NA>")


def is_no_date(value: Any) -> bool:  # noqa: ANN401
    """Whether a value stands for a missing date: None, NaN, NaT or an empty text.

    Example:
        >>> [is_no_date(value) for value in (None, float("nan"), " ", "2024")]
        [True, True, True, False]
    """
    # Whether pandas.NA equals itself is neither true nor false.
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return True
    return value.strip() in _NOTHING if isinstance(value, str) else bool(value != value)


def read_date(value: Any) -> datetime | None:  # noqa: ANN401
    """The time that a value stands for, without a zone; None where it is no date.

    Texts are in ISO format: ``2024-05-31``, ``20240531`` or with a time; ``2024-05`` and ``2024``
    are the first of that month or year. A time with a zone is that of UTC.

    Args:
        value: A text, ``date``, ``datetime`` or ``datetime64``; anything else is no date.

    Example:
        >>> for text in ("2024", "2024-05", "20240531", "2024-05-31T01:30+02:00", "31.5.2024"):
        ...     print(read_date(text))
        2024-01-01 00:00:00
        2024-05-01 00:00:00
        2024-05-31 00:00:00
        2024-05-30 23:30:00
        None
    """
    if is_no_date(value):
        return None
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[s]").item()
    if isinstance(value, str):
        written = value.strip()
        if _YEAR_OR_MONTH.fullmatch(written):
            written = f"{written}-01-01"[: len("2024-05-31")]
        try:
            value = datetime.fromisoformat(written)
        except ValueError:
            return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value
        try:
            return value.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:  # within a day of year 1 or 9999
            return value.replace(tzinfo=None)
    return datetime(value.year, value.month, value.day) if isinstance(value, date) else None


def period_numbers(
    days: NDArray[np.datetime64], period: str, *, most: int
) -> tuple[str, NDArray[np.int64]]:
    """A kind of period, and the number of the period of each day.

    Args:
        days: ``(n,)``, none of them missing.
        period: One of ``PERIODS``; ``"auto"`` is the shortest by which the days span at most
            ``most``, or a century where they span more of these too.
        most: For ``"auto"``.

    Example:
        >>> days = np.array(["2024-01-30", "2024-02-01", "2024-02-05"], dtype="datetime64[D]")
        >>> unit, numbers = period_numbers(days, "auto", most=2)
        >>> unit, [period_name(number, unit) for number in numbers.tolist()]
        ('week', ['2024-W05', '2024-W05', '2024-W06'])
    """
    day = days.astype("datetime64[D]").astype(np.int64)
    month = days.astype("datetime64[M]").astype(np.int64)
    year = month // 12
    by = {
        "day": day,
        "week": (day + 3) // 7,  # from Monday on; 1970 began on a Thursday
        "month": month,
        "quarter": month // 3,
        "year": year,
        "decade": (year + 1970) // 10,
        "century": (year + 1970) // 100,
    }
    if period == "auto":
        period = next((name for name in PERIODS if np.ptp(by[name]) < most), PERIODS[-1])
    return period, by[period]


def period_name(number: int, period: str) -> str:
    """What a period of :func:`period_numbers` is called.

    Example:
        >>> [period_name(n, p) for n, p in [(216, "quarter"), (54, "year"), (202, "decade")]]
        ['2024-Q1', '2024', '2020s']
    """
    if period == "week":
        year, week, _ = np.datetime64(7 * number - 3, "D").item().isocalendar()
        return f"{year}-W{week:02}"
    if period == "quarter":
        return f"{1970 + number // 4}-Q{number % 4 + 1}"
    if period in ("decade", "century"):
        return f"{number * (10 if period == 'decade' else 100)}s"
    return str(np.array(number, f"datetime64[{period[0].upper()}]"))
