"""Features over time against loops that share no code, and what a planted change looks like."""

import math

import numpy as np
import pytest
from scipy import sparse

from nonneg.report.feature_facts import over_time


def dated(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.random((n, d)) * (rng.random((n, d)) < 0.5)
    Z[:, d - 1] = 0  # dead
    days = np.datetime64("2020-03-01") + rng.integers(0, 400, size=n)
    return Z, days


def slow_strength(Z):
    return [[abs(v) / (math.sqrt(sum(w * w for w in row)) or 1) for v in row] for row in Z.tolist()]


def test_means_and_errors_agree_with_loops():
    Z, days = dated()
    days[7] = np.datetime64("NaT")
    found = over_time(Z, days)
    assert found.unit == "week"
    months = over_time(Z, days, max_periods=20)
    assert months.unit == "month"
    assert months.periods[0] == "2020-03"
    strength = slow_strength(Z)
    for at, month in enumerate(months.periods):
        rows = [i for i, day in enumerate(days.tolist()) if day and day.isoformat()[:7] == month]
        assert months.counts[at] == len(rows)
        for j in range(6):
            values = [strength[i][j] for i in rows]
            mean = sum(values) / len(values)
            spread = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
            assert months.means[j, at] == pytest.approx(mean)
            assert months.errors[j, at] == pytest.approx(math.sqrt(spread / len(values)), abs=1e-9)


def test_the_change_is_that_of_a_line_and_its_error_is_robust():
    Z, days = dated()
    found = over_time(Z, days)
    t = (days - days.min()).astype(float) / (days.max() - days.min()).astype(float)
    strength = np.array(slow_strength(Z))
    for j in range(5):
        slope, level = np.polyfit(t, strength[:, j], 1)
        assert found.change[j] == pytest.approx(slope)
        left = strength[:, j] - level - slope * t
        from_mean = t - t.mean()
        variance = sum((a * b) ** 2 for a, b in zip(from_mean, left, strict=True))
        variance *= len(t) / (len(t) - 2) / sum(a * a for a in from_mean) ** 2
        assert found.change_error[j] == pytest.approx(math.sqrt(variance))


def test_a_planted_change_is_found_and_the_rest_is_not():
    rng = np.random.default_rng(1)
    n = 2000
    days = np.datetime64("2019-01-01") + rng.integers(0, 1000, size=n)
    t = (days - days.min()).astype(float) / 1000
    Z = rng.random((n, 30)) * (rng.random((n, 30)) < 0.3)
    Z[:, 4] = 3 * (rng.random(n) < 0.2 + 0.5 * t)
    found = over_time(Z, days)
    assert found.is_sure[4]
    assert found.change[4] > 0.2
    null = over_time(Z[:, 5:], days[rng.permutation(n)])
    assert null.is_sure.sum() <= 1


def test_a_line_without_noise_is_met_exactly():
    days = np.datetime64("2021-01-01") + np.arange(50)
    share = np.linspace(0.2, 0.6, 50)
    Z = np.stack([share, np.sqrt(1 - share**2), np.zeros(50)], axis=1)
    found = over_time(Z, days)
    assert found.unit == "day"
    assert found.change[0] == pytest.approx(0.4)
    assert found.change_error[0] == pytest.approx(0, abs=1e-6)
    assert found.is_sure.tolist() == [True, True, False]
    np.testing.assert_allclose(found.means[0], share)


def test_the_order_of_samples_and_the_length_of_rows_do_not_matter():
    Z, days = dated()
    rng = np.random.default_rng(3)
    order = rng.permutation(len(Z))
    one = over_time(Z, days)
    other = over_time(sparse.csr_array(7 * Z[order]), days[order])
    for name in ("means", "errors", "change", "change_error"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6)
    assert one.periods == other.periods


@pytest.mark.parametrize(
    ("first", "last", "unit", "names"),
    [
        ("2024-01-01", "2024-01-03", "day", ["2024-01-01", "2024-01-02", "2024-01-03"]),
        ("2024-01-01", "2024-01-15", "week", ["week of 2024-01-01", "week of 2024-01-08"]),
        ("2024-01-31", "2024-03-01", "month", ["2024-01", "2024-02", "2024-03"]),
        ("2023-12-31", "2024-05-01", "quarter", ["2023 Q4", "2024 Q1", "2024 Q2"]),
        ("1969-12-31", "1971-05-01", "year", ["1969", "1970", "1971"]),
        ("1895-01-01", "1911-05-01", "decade", ["1890s", "1900s", "1910s"]),
        ("1789-01-01", "1911-05-01", "century", ["1700s", "1800s", "1900s"]),
    ],
)
def test_periods_are_the_shortest_of_which_there_are_few(first, last, unit, names):
    days = np.array([first, last], dtype="datetime64[D]")
    found = over_time(np.eye(2), days, max_periods=3)
    assert found.unit == unit
    assert found.periods[: len(names)] == names
    assert len(found.periods) <= 3


def test_too_few_dates_tell_no_change():
    few = over_time(np.eye(2), np.array(["2024-01-01", "2024-02-01"], dtype="datetime64[D]"))
    assert np.isnan(few.change).all()
    assert not few.is_sure.any()
    same = over_time(np.ones((30, 2)), np.full(30, np.datetime64("2024-01-01")))
    assert np.isnan(same.change).all()
    assert same.means.shape == (2, 1)
