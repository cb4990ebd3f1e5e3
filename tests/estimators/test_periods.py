"""Dates and groups of samples: what is read as a date, and the periods that dates fall into."""

import datetime

import numpy as np
import pytest

from nonneg.estimators.groups import grouping

DAYS = ["2024-12-30", "2025-01-01", "2025-01-06", "2025-03-31"]


def of_pandas(days, **how):
    return pytest.importorskip("pandas").Series(
        pytest.importorskip("pandas").to_datetime(days, **how), index=range(7, 11)
    )


@pytest.mark.parametrize(
    "given",
    [
        DAYS,
        tuple(DAYS),
        np.array(DAYS),
        np.array(DAYS, "datetime64[D]"),
        np.array(DAYS, "datetime64[ns]"),
        [datetime.date.fromisoformat(day) for day in DAYS],
        [datetime.datetime.fromisoformat(day) for day in DAYS],
        [np.datetime64(day) for day in DAYS],
        [f"{day}T12:30:00+02:00" for day in DAYS],
        [f" {day} 23:59" for day in DAYS],
    ],
)
@pytest.mark.parametrize("as_series", [False, True])
def test_dates_of_all_kinds_are_read(given, as_series):
    if as_series:
        given = pytest.importorskip("pandas").Series(list(given), index=range(7, 11))
    found = grouping(given, 4, "week")
    weeks = [datetime.date.fromisoformat(day).isocalendar() for day in DAYS]
    assert found.names == sorted({f"{week.year}-W{week.week:02}" for week in weeks})
    assert found.numbers.tolist() == [0, 0, 1, 2]
    np.testing.assert_allclose(found.when, [-1 / 2, -1 / 6, 1 / 6, 1 / 2])


def test_times_with_a_zone_are_those_of_utc():
    late = ["2025-01-01T01:00+02:00", "2025-01-01T01:00+00:00"]
    assert grouping(late, 2, "day").names == ["2024-12-31", "2025-01-01"]
    series = of_pandas(DAYS, utc=True)
    assert grouping(series, 4, "month").names == ["2024-12", "2025-01", "2025-03"]


@pytest.mark.parametrize(
    ("n_days", "step", "name"),
    [
        (10, 1, "2024-01-01"),
        (24, 1, "2024-01-01"),
        (25, 1, "2024-W01"),
        (170, 1, "2024-01"),
        (700, 1, "2024-01"),
        (1000, 1, "2024-Q1"),
        (4000, 7, "2024"),
        (20_000, 90, "2020s"),
        (90_000, 365, "2000s"),
    ],
)
def test_periods_are_the_finest_of_which_there_are_at_most_24(n_days, step, name):
    days = np.datetime64("2024-01-01") + np.arange(0, n_days, step)
    found = grouping(days, len(days), "auto")
    assert found.names[0] == name
    assert 2 <= len(found.names) <= 24
    assert (np.diff(found.numbers) >= 0).all()


def test_names_of_periods_before_1970():
    days = ["1969-12-31", "1970-01-01", "1900-05-01"]
    assert grouping(days, 3, "quarter").names == ["1900-Q2", "1969-Q4", "1970-Q1"]
    assert grouping(days, 3, "year").names == ["1900", "1969", "1970"]
    assert grouping(days, 3, "day").names == ["1900-05-01", "1969-12-31", "1970-01-01"]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([2, 1, 2], [1, 2]),
        (np.array([True, False, True]), [False, True]),
        (["x", 1, "x"], ["x", 1]),
        (["20240101", "20240102", "20240101"], ["20240101", "20240102"]),
        (["sub-title", "2024-01-01", "sub-title"], ["2024-01-01", "sub-title"]),
    ],
)
def test_anything_else_is_a_group(given, names):
    found = grouping(given, 3, "auto")
    assert found.names == names
    assert [found.names[i] for i in found.numbers] == list(given)
    assert found.when is None


def test_texts_of_digits_are_dates_where_a_period_is_named():
    assert grouping(["2023", "2024", "2023"], 3, "auto").when is None
    assert grouping(["2023", "2024", "2023"], 3, "year").names == ["2023", "2024"]
    assert grouping(["20240101", "20240301", "20240101"], 3, "month").names[1] == "2024-03"


@pytest.mark.parametrize("period", ["auto", "day", None])
def test_a_missing_date_is_named_by_its_place(period):
    missing = np.array([*DAYS[:3], "NaT"], "datetime64[D]")
    sentence = r"groups_or_dates has no date \(NaT\) in 1 of 4 places, as in place 3"
    with pytest.raises(ValueError, match=sentence):
        grouping(missing, 4, period)
    if period is None:
        sentence = r"groups_or_dates has no label \(NaN or None\) in 1 of 4 rows: 3"
    pandas = pytest.importorskip("pandas")
    stamps = [*map(pandas.Timestamp, DAYS[:3]), pandas.NaT]
    with pytest.raises(ValueError, match=sentence):
        grouping(pandas.Series(stamps, dtype=object), 4, period)


def test_periods_are_limited_as_groups_are():
    days = np.datetime64("2020-01-01") + np.arange(501)
    with pytest.raises(ValueError, match='period="day" makes 501 periods, more than 500; take a'):
        grouping(days, 501, "day")
    assert len(grouping(days[:500], 500, "day").names) == 500
