"""One reader of dates for tables of texts, pages and groups; periods against the calendar."""

import datetime

import numpy as np
import pytest

from nonneg.data import read_table
from nonneg.data.dates import PERIODS, is_no_date, period_name, period_numbers, read_date
from nonneg.estimators.groups import grouping
from nonneg.report.user_files import days

WRITTEN = [
    ("2024", "2024-01-01"),
    ("2024-05", "2024-05-01"),
    ("2024-05-31", "2024-05-31"),
    ("20240531", "2024-05-31"),
    (" 2024-05-31 23:59 ", "2024-05-31"),
    ("2024-05-31T01:30:00+02:00", "2024-05-30"),
    ("2024-05-31T23:30:00-02:00", "2024-06-01"),
]


@pytest.mark.parametrize(("written", "day"), WRITTEN)
def test_all_readers_agree(tmp_path, written, day):
    assert str(read_date(written).date()) == day
    assert days([written]).astype(str).tolist() == [day]
    assert grouping([written, "1999-01-01"], 2, "day").names[1] == day
    (tmp_path / "t.csv").write_text(f"body,day\na,{written}\n")
    table = read_table(tmp_path / "t.csv", text="body", date="day")
    assert table.dates.astype(str).tolist() == [day]


@pytest.mark.parametrize("value", ["31.5.2024", "2024-13", "May 2024", "202", 2024, 1.5, ["2024"]])
def test_what_is_no_date(value):
    assert read_date(value) is None
    assert not is_no_date(value)


def test_values_that_are_dates_already():
    day = datetime.datetime(2024, 5, 31)
    for kind in ("D", "s", "ns"):
        assert read_date(np.datetime64("2024-05-31", kind)) == day
    assert read_date(datetime.date(2024, 5, 31)) == day
    assert read_date(day) is day
    for missing in (np.datetime64("NaT"), None, float("nan"), "", "NaT"):
        assert is_no_date(missing)
        assert read_date(missing) is None


def test_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    assert is_no_date(pandas.NaT)
    assert is_no_date(pandas.NA)
    assert days([pandas.NaT, pandas.Timestamp("2024-05-31T12:00")]).astype(str).tolist() == [
        "NaT",
        "2024-05-31",
    ]


def slow_name(day, period):
    year, week, _ = day.isocalendar()
    return {
        "day": day.isoformat(),
        "week": f"{year}-W{week:02}",
        "month": day.isoformat()[:7],
        "quarter": f"{day.year}-Q{1 + (day.month - 1) // 3}",
        "year": str(day.year),
        "decade": f"{str(day.year)[:3]}0s",
        "century": f"{str(day.year)[:2]}00s",
    }[period]


@pytest.mark.parametrize("period", PERIODS)
def test_periods_are_those_of_the_calendar(period):
    given = np.datetime64("1870-01-01") + np.random.default_rng(0).integers(0, 90_000, size=500)
    unit, numbers = period_numbers(given, period, most=1)
    assert unit == period
    for day, number in zip(given.tolist(), numbers.tolist(), strict=True):
        assert period_name(number, unit) == slow_name(day, period)
