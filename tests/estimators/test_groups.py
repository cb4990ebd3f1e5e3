"""Features over time, between groups and between corpora: what is found, and how often falsely."""

import datetime

import numpy as np
import pytest

from nonneg import NCL
from nonneg.estimators import table_between, table_over
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
        (20_000, 90, "2024"),
    ],
)
def test_periods_are_the_finest_of_which_there_are_at_most_24(n_days, step, name):
    days = np.datetime64("2024-01-01") + np.arange(0, n_days, step)
    found = grouping(days, len(days), "auto")
    assert found.names[0] == name
    if n_days < 8000:
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


def test_dates_are_groups_if_so_wished():
    assert grouping(["2024-01", "2024-02", "2024-01"], 3, None).when is None
    months = np.array(["2024-01", "2024-02", "2024-01"], "datetime64[M]")
    assert grouping(months, 3, None).names == ["2024-01", "2024-02"]
    assert grouping(["2024-01", "2024-02", "2024-01"], 3, "auto").names == ["2024-W01", "2024-W05"]


EYE = np.eye(4)


@pytest.mark.parametrize(
    ("given", "how", "sentence"),
    [
        (["a", "b"], {}, r"groups_or_dates has shape \(2,\) for 4 samples"),
        (["a"] * 4, {}, "all 4 samples are of a; give at least two"),
        (["2024-01-01"] * 4, {}, "all 4 samples are of 2024-01-01"),
        ([*DAYS[:3], "31.12.2024"], {}, "holds '31.12.2024' in place 3, which is no date"),
        ([*DAYS[:3], ""], {"period": "day"}, "holds '' in place 3"),
        (["a", "b", "a", "b"], {"period": "day"}, "holds 'a' in place 0, which is no date"),
        (np.arange(4), {"period": "day"}, "holds 0 in place 0, which is no date"),
        (np.array([*DAYS[:3], "NaT"], "datetime64[D]"), {}, "in 1 of 4 places, as in place 3"),
        (["a", None, "b", "b"], {}, r"no label \(NaN or None\) in 1 of 4 rows: 1"),
        (["a", "b", "a", "b"], {"period": "hour"}, "unknown period 'hour'; known: auto, day"),
        (["a", "b", "a", "b"], {"alpha": 5}, "alpha is 5; it must be between 0 and 1"),
        (["a", "b", "a", "b"], {"n_bootstrap": 0}, "n_bootstrap is 0"),
    ],
)
def test_what_is_refused(given, how, sentence):
    with pytest.raises(ValueError, match=sentence):
        table_over(EYE, given, **how)


def test_more_that_is_refused():
    with pytest.raises(ValueError, match=r"has 600 groups .* give times as dates"):
        table_over(np.ones((600, 2)), np.arange(600))
    with pytest.raises(TypeError, match="must hold a number, a text or a date"):
        table_over(EYE[:2], [{"a": 1}, {"b": 1}])
    with pytest.raises(TypeError, match="must hold a number, a text or a date"):
        table_over(EYE[:2], [["a"], ["b"]])
    with pytest.raises(ValueError, match="no feature is on"):
        table_over(np.zeros((4, 2)), [1, 1, 2, 2])
    with pytest.raises(ValueError, match="Z_a has 4 features, Z_b has 3"):
        table_between(EYE, np.eye(3))


def correlated_features(rng, n):
    """Features of 12 topics of unequal size, mostly zero, skewed, five to a topic ``(n, 60)``."""
    Z = np.zeros((n, 12, 5))
    size = np.arange(1, 13) / 78
    for _ in range(2):
        topic = rng.choice(12, size=n, p=size)
        strength = rng.lognormal(size=(n, 1)) * rng.lognormal(sigma=0.5, size=(n, 5))
        Z[np.arange(n), topic] += strength * (rng.random((n, 5)) < 0.6)
    flat = Z.reshape(n, 60)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)


def planted_world(rng, chance):
    """Features ``(n, 64)`` whose first four change with the chance of a sample ``(n,)``.

    Of features 0 and 1, and of 2 and 3, one is on: the first with that chance. So all rows have
    one length, and the other 60 features do not change when rows are scaled.
    """
    planted = np.zeros((len(chance), 4))
    for pair in (0, 2):
        second = rng.random(len(chance)) >= chance
        planted[np.arange(len(chance)), pair + second] = 1
    return np.hstack([planted, correlated_features(rng, len(chance))])


def two_groups(rng, shift):
    group = np.repeat(["few", "many"], [60, 540])
    return group, 0.4 + shift * (group == "few")


def tiny_group(rng, shift):
    group = np.repeat([0, 1], [8, 400])
    return group, 0.15 + shift * (group == 0)


def five_groups(rng, shift):
    group = np.repeat(np.arange(5), [300, 150, 80, 40, 30])
    return group, 0.4 + shift * (group == 2)


def dates(rng, shift):
    days = rng.integers(500, size=500) ** 2 // 500  # ever fewer
    return np.datetime64("2023-01-01") + days, 0.25 + shift * days / 500


WORLDS = [(two_groups, 0.35), (tiny_group, 0.75), (five_groups, 0.35), (dates, 0.5)]


def discoveries(world, shift, n_draws):
    """Of each draw: the share of false discoveries, and that of planted features found."""
    false, found = [], []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        groups, chance = world(rng, shift)
        Z = planted_world(rng, chance)
        made = table_over(Z, groups, n_bootstrap=1, random_state=seed)
        features = set(np.array(made["feature"])[np.array(made["significant"])].tolist())
        wrong = {f for f in features if f > 3 or shift == 0}
        false.append(len(wrong) / max(len(features), 1))
        found.append(len(features - wrong) / 4)
    return np.array(false), np.array(found)


def check_share(false):
    limit = 0.05 + 2 * false.std(ddof=1) / np.sqrt(len(false))
    assert false.mean() <= limit, (false.mean(), limit)


@pytest.mark.parametrize(("world", "shift"), WORLDS)
def test_planted_changes_are_found_and_little_else(world, shift):
    false, found = discoveries(world, shift, 6)
    check_share(false)
    assert found.mean() > 0.9


def test_without_the_correction_much_of_what_is_found_is_false():
    """What the test above would see: a twentieth of the 60 others beside 4 planted features."""
    rng = np.random.default_rng(0)
    group, chance = two_groups(rng, 0.35)
    made = table_over(planted_world(rng, chance), group, n_bootstrap=1)
    features = set(np.array(made["feature"])[np.array(made["p"]) <= 0.05].tolist())
    assert features > {0, 1, 2, 3}
    assert len(features) - 4 > 0.2 * len(features)


@pytest.mark.parametrize("world", [world for world, _ in WORLDS])
def test_where_nothing_changes_little_is_found(world):
    assert discoveries(world, 0, 8)[0].sum() <= 3  # 4 of 8 have a probability below 0.0004


@pytest.mark.slow
@pytest.mark.parametrize(("world", "shift"), [*WORLDS, *((world, 0) for world, _ in WORLDS)])
def test_the_share_of_false_discoveries_over_100_draws(world, shift):
    false, found = discoveries(world, shift, 100)
    check_share(false)
    if shift:
        assert found.mean() > 0.9


def rows_of(made, **which):
    keep = np.ones(len(made), bool)
    for name, value in which.items():
        keep &= np.array(list(made[name])) == value
    return {name: np.array(list(made[name]))[keep] for name in made.columns}


def test_means_and_changes_of_groups_agree_with_loops():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "c"], size=80)
    Z = planted_world(rng, 0.2 + 0.6 * (group == "b"))
    units = [row / np.sqrt((row**2).sum()) for row in Z]
    made = table_over(Z, group, names=[f"f{j}" for j in range(64)])
    for j in (0, 1, 5, 40):
        for name in "abc":
            inside = [u[j] for u, g in zip(units, group, strict=True) if g == name]
            outside = [u[j] for u, g in zip(units, group, strict=True) if g != name]
            row = rows_of(made, feature=j, group=name)
            assert row["name"] == [f"f{j}"]
            assert row["n_samples"] == [len(inside)]
            mean = sum(inside) / len(inside)
            assert row["mean"][0] == pytest.approx(mean)
            assert row["change"][0] == pytest.approx(mean - sum(outside) / len(outside))
            assert row["low"][0] <= mean <= row["high"][0]
    assert rows_of(made, feature=0, group="b")["direction"] == ["more"]
    assert rows_of(made, feature=1, group="b")["direction"] == ["less"]


def test_the_change_over_time_is_that_of_a_fitted_line():
    rng = np.random.default_rng(0)
    days, chance = dates(rng, 0.5)
    Z = planted_world(rng, chance)
    made = table_over(Z, days)
    values = Z[:, 0] / np.linalg.norm(Z, axis=1)
    place = np.array([(days < day).sum() + ((days == day).sum() - 1) / 2 for day in days])
    slope, _ = np.polyfit(place, values, 1)
    row = rows_of(made, feature=0)
    np.testing.assert_allclose(row["change"], slope * (place.max() - place.min()))
    assert set(row["direction"]) == {"rose"}
    assert set(rows_of(made, feature=1)["direction"]) == {"fell"}
    assert list(row["period"]) == sorted(row["period"])
    assert len(set(row["p"])) == 1
    assert row["n_samples"].sum() == 500
    for month, mean in zip(row["period"], row["mean"], strict=True):
        assert mean == pytest.approx(
            values[days.astype("datetime64[M]").astype(str) == month].mean()
        )


def test_intervals_are_those_of_the_mean():
    """Half of 400 samples have it: the mean is 0.5 with a standard error of 0.025."""
    on = (np.arange(800) % 2 == 0).astype(float)
    made = table_over(np.stack([on, 1 - on], axis=1), np.repeat(["a", "b"], 400), n_bootstrap=4000)
    np.testing.assert_allclose(made["low"], 0.5 - 1.96 * 0.025, atol=0.006)
    np.testing.assert_allclose(made["high"], 0.5 + 1.96 * 0.025, atol=0.006)
    wide = table_over(np.stack([on, 1 - on], axis=1), np.repeat(["a", "b"], 400), alpha=0.5)
    np.testing.assert_allclose(wide["low"], 0.5 - 0.674 * 0.025, atol=0.006)


def test_features_found_come_first_and_dead_ones_not_at_all():
    rng = np.random.default_rng(0)
    group, chance = two_groups(rng, 0.35)
    Z = planted_world(rng, chance)
    Z[:, 10] = 0
    made = table_over(Z, group)
    assert set(made["feature"][:8]) == {0, 1, 2, 3}
    assert 10 not in set(made["feature"])
    assert len(made) == 63 * 2
    rest = np.abs(np.array(made["change"]))[8::2]
    assert (np.diff(rest) <= 1e-12).all()


def no_module(name):
    raise ModuleNotFoundError(f"No module named {name!r}")


@pytest.mark.parametrize("hidden", [False, True])
def test_two_corpora_are_two_groups(hidden, monkeypatch):
    if hidden:
        monkeypatch.setattr("nonneg.estimators.records.import_module", no_module)
    rng = np.random.default_rng(0)
    group, chance = two_groups(rng, 0.35)
    Z = planted_world(rng, chance)
    made = table_between(Z[:60], Z[60:], random_state=1)
    over = table_over(Z, group, random_state=1)
    for j in (0, 1, 20):
        row, few = rows_of(made, feature=j), rows_of(over, feature=j, group="few")
        assert row["difference"] == pytest.approx(few["change"])
        assert row["mean_a"] == pytest.approx(few["mean"])
        assert row["p"] == few["p"]
        assert row["p_adjusted"] == few["p_adjusted"]
        assert row["share_a"] == pytest.approx([(Z[:60, j] > 0).mean()])
        assert row["share_b"] == pytest.approx([(Z[60:, j] > 0).mean()])
        assert row["low"] < row["difference"] < row["high"]
    directions = [rows_of(made, feature=j)["direction"][0] for j in range(4)]
    assert directions == ["more in a", "more in b"] * 2
    assert set(list(made["feature"])[:4]) == {0, 1, 2, 3}
    difference = np.abs(list(made["difference"]))
    assert (np.diff(difference[:4]) <= 0).all()
    assert (np.diff(difference[4:]) <= 0).all()


def test_the_other_way_round_is_the_opposite():
    rng = np.random.default_rng(0)
    Z = planted_world(rng, two_groups(rng, 0.35)[1])
    one, other = table_between(Z[:60], Z[60:]), table_between(Z[60:], Z[:60])
    for j in range(64):
        a, b = rows_of(one, feature=j), rows_of(other, feature=j)
        assert a["difference"] == pytest.approx(-b["difference"])
        assert a["p"] == pytest.approx(b["p"], rel=0.5, abs=0.02)


def test_what_one_corpus_has_not_at_all_is_found_against_a_large_one():
    """Ten samples are expected and none is there, where chance would often give twenty."""
    rng = np.random.default_rng(0)
    large = np.stack([rng.random(10_000) < 0.02, np.ones(10_000)], axis=1).astype(float)
    small = np.stack([np.zeros(500), np.ones(500)], axis=1)
    assert list(rows_of(table_between(small, large), feature=0)["direction"]) == ["more in b"]


def test_a_seed_makes_a_table_repeatable():
    rng = np.random.default_rng(0)
    group, chance = five_groups(rng, 0.2)
    Z = planted_world(rng, chance)
    made = table_over(Z, group, random_state=5).to_csv()
    assert made == table_over(Z, group, random_state=np.random.default_rng(5)).to_csv()
    assert made != table_over(Z, group, random_state=6).to_csv()


def vectors(rng, kinds):
    return np.eye(12)[kinds] + 0.1 * rng.normal(size=(len(kinds), 12))


@pytest.fixture(scope="module")
def ncl():
    rng = np.random.default_rng(0)
    kinds = np.arange(600) % 10
    fitted = NCL(random_state=0).fit(vectors(rng, kinds))
    fitted.describe(vectors(rng, kinds), labels=[f"kind {kind}" for kind in kinds])
    return fitted


def test_an_estimator_finds_the_kind_that_took_the_place_of_another(ncl):
    """Every fifth sample is of kind 0 at first and of kind 1 in the end."""
    rng = np.random.default_rng(1)
    days = np.arange(1000) // 2
    kinds = rng.integers(2, 10, size=1000)
    taken = rng.random(1000) < 0.2
    kinds[taken] = rng.random(taken.sum()) < days[taken] / 500
    X = vectors(rng, kinds)
    made = ncl.over(X, np.datetime64("2024-01-01") + days)
    fell = set(rows_of(made, direction="fell")["name"])
    rose = set(rows_of(made, direction="rose")["name"])
    assert (fell, rose) == ({"kind 0"}, {"kind 1"})
    compared = ncl.compare(X[:500], X[500:])
    assert set(rows_of(compared, direction="more in a")["name"]) == {"kind 0"}
    assert set(rows_of(compared, direction="more in b")["name"]) == {"kind 1"}


def test_vectors_of_another_width_are_refused(ncl):
    with pytest.raises(ValueError, match="X has 3 features, but NCL is expecting 12"):
        ncl.over(np.ones((4, 3)), [1, 1, 2, 2])
    with pytest.raises(ValueError, match="X has 3 features, but NCL is expecting 12"):
        ncl.compare(np.ones((4, 12)), np.ones((4, 3)))
