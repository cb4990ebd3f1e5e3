"""Features over time, between groups and between corpora: means, intervals and tests.

A test asks whether the group, or the date, of a sample says anything about a feature. P-values come
from permutations, and the share of false discoveries among the features found is limited.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.stats import rankdata

from nonneg.estimators.inputs import check_none_missing, from_torch
from nonneg.estimators.permutations import adjusted_p, bootstrap_means, permutation_p
from nonneg.estimators.records import Table, table
from nonneg.estimators.tables import TabledFeatures, unit_features
from nonneg.metrics.inputs import FeatureLike, checked_choice, checked_count
from nonneg.metrics.results import FloatArray, IntArray, RandomState

PERIODS = ("day", "week", "month", "quarter", "year")
# With period="auto" the finest periods of which there are at most so many.
_MOST_PERIODS = 24
# More groups than this are hardly meant.
_MOST_GROUPS = 500


class Grouping(NamedTuple):
    """Which sample belongs to which group or period."""

    names: list[Any]
    """Of the groups, in their order."""
    numbers: IntArray
    """The group of each sample ``(n,)``."""
    when: FloatArray | None
    """For dates the rank of each sample in time, from -1/2 to 1/2 ``(n,)``."""


def grouping(
    groups_or_dates: Sequence[Any] | ArrayLike, n_samples: int, period: str | None
) -> Grouping:
    """Groups as they are, or periods of dates.

    Args:
        groups_or_dates: One per sample: datetime64, ``datetime``, ``date`` or texts in ISO format
            are dates; anything else is a group.
        n_samples: How many there must be.
        period: One of ``PERIODS``; ``"auto"`` takes the finest that makes at most 24; None takes
            dates as groups.

    Example:
        >>> grouping(["2024-01-30", "2024-02-02", "2024-04-01"], 3, "quarter").names
        ['2024-Q1', '2024-Q2']
    """
    if period is not None:
        checked_choice(period, ("auto", *PERIODS), "period")
    given = from_torch(groups_or_dates)
    entries = np.asarray(given) if hasattr(given, "__array__") else np.fromiter(given, object)
    if entries.ndim != 1 or len(entries) != n_samples:
        raise ValueError(
            f"groups_or_dates has shape {entries.shape} for {n_samples} samples; give one group or "
            "date per sample"
        )
    seconds = None if period is None else _seconds(entries, must=period != "auto")
    if seconds is None:
        is_date = entries.dtype.kind == "M"
        found = _groups((entries.astype(str) if is_date else entries).tolist())
    else:
        found = _periods(seconds, str(period))
    if len(found.names) < 2:
        raise ValueError(
            f"all {n_samples} samples are of {found.names[0]}; give at least two groups or periods "
            "to compare"
        )
    return found


def _groups(entries: list[Any]) -> Grouping:
    check_none_missing(entries, "groups_or_dates")
    try:
        names = list(dict.fromkeys(entries))
    except TypeError:
        raise TypeError(
            "groups_or_dates must hold a number, a text or a date per sample, not lists"
        ) from None
    with suppress(TypeError):  # of several types they stay in the order that they come in
        names = sorted(names)
    if len(names) > _MOST_GROUPS:
        raise ValueError(
            f"groups_or_dates has {len(names)} groups for {len(entries)} samples, more than "
            f"{_MOST_GROUPS}; join small ones, or give times as dates, such as datetime64"
        )
    place = {name: number for number, name in enumerate(names)}
    return Grouping(names, np.array([place[entry] for entry in entries], np.int64), None)


def _seconds(entries: Any, *, must: bool) -> IntArray | None:  # noqa: ANN401
    """Dates as seconds since 1970 ``(n,)``; None where entries are no dates and need not be."""
    if entries.dtype.kind == "M":
        dates = entries.astype("datetime64[s]")
    else:
        read = [_read_date(entry) for entry in entries.tolist()]
        if not must and sum(one is not None for one in read) <= len(read) / 2:
            return None
        wrong = next((i for i, one in enumerate(read) if one is None), None)
        if wrong is not None:
            raise ValueError(
                f"groups_or_dates holds {entries.tolist()[wrong]!r} in place {wrong}, which is no "
                "date; write dates as 2024-03-31, or set period=None to compare groups"
            )
        dates = np.array(read, dtype="datetime64[s]")
    missing = np.flatnonzero(np.isnat(dates))
    if len(missing):
        raise ValueError(
            f"groups_or_dates has no date (NaT) in {len(missing)} of {len(dates)} places, as in "
            f"place {missing[0]}; leave these samples out"
        )
    seconds: IntArray = dates.astype(np.int64)
    return seconds


_MONTH = re.compile(r"\d{4}-\d{2}")


def _read_date(entry: Any) -> Any:  # noqa: ANN401
    """A date without a time zone; None for what is none."""
    if isinstance(entry, str):
        text = entry.strip()
        text = f"{text}-01" if _MONTH.fullmatch(text) else text
        if "-" not in text:  # a number of eight digits is rather a group
            return None
        try:
            entry = datetime.fromisoformat(text)
        except ValueError:
            return None
    if isinstance(entry, datetime) and entry.tzinfo is not None:
        entry = entry.astimezone(UTC).replace(tzinfo=None)
    return entry if isinstance(entry, date | np.datetime64) else None


def _periods(seconds: IntArray, period: str) -> Grouping:
    days = seconds // 86_400
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    by = {
        "day": days,
        "week": (days + 3) // 7,  # 1970 began on a Thursday
        "month": months,
        "quarter": months // 3,
        "year": months // 12,
    }
    if period == "auto":
        fine = (name for name in PERIODS if np.ptp(by[name]) < _MOST_PERIODS)
        period = next(fine, "year")
    found, numbers = np.unique(by[period], return_inverse=True)
    n = len(seconds)
    when = (rankdata(seconds) - 1) / max(n - 1, 1) - 0.5
    return Grouping([_period_name(int(i), period) for i in found], numbers, when)


def _period_name(number: int, period: str) -> str:
    if period == "week":
        year, week, _ = np.datetime64(7 * number - 3, "D").item().isocalendar()
        return f"{year}-W{week:02}"
    if period == "quarter":
        return f"{1970 + number // 4}-Q{number % 4 + 1}"
    return str(np.array(number, f"datetime64[{period[0].upper()}]"))


def _alive(rows: sparse.csr_array) -> IntArray:
    alive = np.flatnonzero(np.bincount(rows.indices, minlength=rows.shape[1]))
    if len(alive) == 0:
        raise ValueError("no feature is on for any of the samples; there is nothing to compare")
    return alive


def _check_rates(alpha: float, n_bootstrap: int) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; it must be between 0 and 1, as 0.05")
    checked_count(n_bootstrap, name="n_bootstrap")


def table_over(
    Z: FeatureLike,
    groups_or_dates: Sequence[Any] | ArrayLike,
    *,
    period: str | None = "auto",
    names: Sequence[str] = (),
    alpha: float = 0.05,
    n_bootstrap: int = 1000,
    random_state: RandomState = 0,
) -> Table:
    """The mean activation of each feature in each group or period, and what differs or changed.

    Args:
        Z: Features ``(n, d)``; activations are those of rows scaled to length 1.
        groups_or_dates: One per sample; see :func:`grouping`.
        period: One of ``PERIODS``, ``"auto"``, or None to take dates as groups.
        names: Of the features.
        alpha: The share of false discoveries that is aimed at; intervals have level 1 - alpha.
        n_bootstrap: Draws behind an interval.
        random_state: Seed or generator.

    Returns:
        A row per alive feature and group or period: ``feature``, ``name``, ``group`` or ``period``,
        ``n_samples``, ``mean`` with its interval ``low`` to ``high`` (percentiles of the
        bootstrap), ``change``, ``p``, ``p_adjusted`` (see :func:`adjusted_p`),
        ``significant`` and ``direction``. Of groups, ``change`` is the mean in the group minus that
        in all others, and a direction is ``more`` or ``less``. Of dates, ``change`` is how far a
        line fitted to the activations in the order of time rises from the first sample to the last,
        one figure for all periods of a feature, and a direction is ``rose`` or ``fell``.
        Significant features come first, then the largest changes.

    Example:
        >>> Z = np.repeat([[1, 0], [0, 1]], 10, axis=0)
        >>> found = table_over(Z, ["old"] * 10 + ["new"] * 10, names=["a", "b"])
        >>> for i in range(4):
        ...     print(*(list(found[key])[i] for key in ("name", "group", "mean", "direction")))
        a new 0.0 less
        a old 1.0 more
        b new 1.0 more
        b old 0.0 less
    """
    _check_rates(alpha, n_bootstrap)
    rows = unit_features(Z)
    groups = grouping(groups_or_dates, rows.shape[0], period)
    rng = np.random.default_rng(random_state)
    alive = _alive(rows)
    rows = sparse.csr_array(rows[:, alive])
    sizes = np.bincount(groups.numbers)
    is_in = (groups.numbers[:, None] == np.arange(len(sizes))).astype(np.float64)  # (n, groups)
    sums = rows.T @ is_in  # (d, groups)
    if groups.when is None:
        rest = (sums.sum(axis=1, keepdims=True) - sums) / (len(is_in) - sizes)
        change = sums / sizes - rest
        scores = is_in[:, :1] if len(sizes) == 2 else is_in
        words = ("less", "more")
    else:
        scores = groups.when[:, None]
        change = np.ptp(scores) * (rows.T @ scores) / (scores**2).sum()
        change = np.broadcast_to(change, sums.shape)
        words = ("fell", "rose")
    p = permutation_p(rows, scores, alpha=alpha, rng=rng)
    p, adjusted = (np.broadcast_to(each, sums.shape) for each in (p, adjusted_p(p)))
    low, high = np.empty(sums.shape), np.empty(sums.shape)
    for number in range(len(sizes)):
        part = sparse.csr_array(rows[groups.numbers == number])
        means = bootstrap_means(part, n_bootstrap, rng)
        low[:, number], high[:, number] = np.quantile(means, [alpha / 2, 1 - alpha / 2], axis=1)
    order = np.lexsort((-np.abs(change).max(axis=1), adjusted.min(axis=1) > alpha))
    columns = {"n_samples": np.broadcast_to(sizes, sums.shape), "mean": sums / sizes}
    columns |= {"low": low, "high": high, "change": change, "p": p, "p_adjusted": adjusted}
    flat: dict[str, Any] = {key: values[order].ravel() for key, values in columns.items()}
    kind = "group" if groups.when is None else "period"
    return table(
        {
            **_numbered(np.repeat(alive[order], len(sizes)), names),
            kind: groups.names * len(order),
            **flat,
            **_verdicts(flat["p_adjusted"] <= alpha, flat["change"], words),
        }
    )


def _numbered(features: IntArray, names: Sequence[str]) -> dict[str, Any]:
    return {"feature": features, "name": [names[i] if len(names) else "" for i in features]}


def _verdicts(is_found: Any, change: FloatArray, words: tuple[str, str]) -> dict[str, Any]:  # noqa: ANN401
    direction = np.where(is_found, np.where(change > 0, words[1], words[0]), "")
    return {"significant": is_found, "direction": direction}


def table_between(
    Z_a: FeatureLike,
    Z_b: FeatureLike,
    *,
    names: Sequence[str] = (),
    alpha: float = 0.05,
    n_bootstrap: int = 1000,
    random_state: RandomState = 0,
) -> Table:
    """What one set of samples has more of than another, the largest significant difference first.

    Args:
        Z_a: Features of one set ``(n_a, d)``; activations are those of rows scaled to length 1.
        Z_b: Of the other ``(n_b, d)``.
        names: Of the features.
        alpha: As for :func:`table_over`, and so are the next two.
        n_bootstrap: Draws behind an interval.
        random_state: Seed or generator.

    Returns:
        A row per feature that is alive in either: ``feature``, ``name``, ``share_a`` and
        ``share_b`` of samples it is on for, ``mean_a``, ``mean_b``, their ``difference`` (a minus
        b) with its interval ``low`` to ``high``, ``p``, ``p_adjusted``, ``significant`` and
        ``direction``: ``more in a`` or ``more in b``.

    Example:
        >>> found = table_between(np.repeat([[1, 0]], 10, axis=0), np.repeat([[0, 1]], 10, axis=0))
        >>> list(found["direction"]), list(found["difference"])
        (['more in a', 'more in b'], [1.0, -1.0])
    """
    _check_rates(alpha, n_bootstrap)
    sides = [unit_features(Z_a), unit_features(Z_b)]
    if sides[0].shape[1] != sides[1].shape[1]:
        raise ValueError(
            f"Z_a has {sides[0].shape[1]} features, Z_b has {sides[1].shape[1]}; give features of "
            "one estimator"
        )
    rng = np.random.default_rng(random_state)
    rows = sparse.csr_array(sparse.vstack(sides, format="csr"))
    alive = _alive(rows)
    rows = sparse.csr_array(rows[:, alive])
    n_a = sides[0].shape[0]
    parts = [sparse.csr_array(rows[:n_a]), sparse.csr_array(rows[n_a:])]
    in_a = (np.arange(rows.shape[0]) < n_a).astype(np.float64)[:, None]
    p = permutation_p(rows, in_a, alpha=alpha, rng=rng)
    drawn_a, drawn_b = (bootstrap_means(part, n_bootstrap, rng) for part in parts)
    low, high = np.quantile(drawn_a - drawn_b, [alpha / 2, 1 - alpha / 2], axis=1)
    mean_a, mean_b = (np.asarray(part.sum(axis=0)).ravel() / part.shape[0] for part in parts)
    share_a, share_b = (
        np.bincount(part.indices, minlength=len(alive)) / part.shape[0] for part in parts
    )
    columns: dict[str, Any] = {"share_a": share_a, "share_b": share_b}
    columns |= {"mean_a": mean_a, "mean_b": mean_b, "difference": mean_a - mean_b}
    columns |= {"low": low, "high": high, "p": p[:, 0], "p_adjusted": adjusted_p(p)[:, 0]}
    is_found = columns["p_adjusted"] <= alpha
    columns |= _verdicts(is_found, columns["difference"], ("more in b", "more in a"))
    order = np.lexsort((-np.abs(columns["difference"]), ~is_found))
    sorted_columns = {key: values[order] for key, values in columns.items()}
    return table({**_numbered(alive[order], names), **sorted_columns})


class ComparedFeatures(TabledFeatures):
    """What an estimator says of groups, periods and corpora."""

    def over(
        self,
        X: ArrayLike,
        groups_or_dates: Sequence[Any] | ArrayLike,
        *,
        period: str | None = "auto",
        alpha: float = 0.05,
        n_bootstrap: int = 1000,
        random_state: RandomState = 0,
    ) -> Table:
        """The mean activation of each feature per group or period, and what differs or changed.

        See :func:`nonneg.estimators.table_over` for the columns and the test. Samples must be
        independent of each other: of twenty mails of one person take one.

        Args:
            X: Vectors ``(n, d)``.
            groups_or_dates: One per sample. Dates are datetime64, ``datetime``, ``date`` or texts
                such as ``2024-03-31``; anything else is a group.
            period: ``"day"``, ``"week"``, ``"month"``, ``"quarter"``, ``"year"``; ``"auto"`` takes
                the finest that makes at most 24 periods. None takes dates as groups.
            alpha: The share of false discoveries among what is significant; intervals have level
                1 - alpha, from ``n_bootstrap`` draws.
            n_bootstrap: The more, the smoother and slower.
            random_state: Seed or generator.
        """
        return table_over(
            self._sparse_features(X),
            groups_or_dates,
            period=period,
            names=self.feature_names_,
            alpha=alpha,
            n_bootstrap=n_bootstrap,
            random_state=random_state,
        )

    def compare(
        self,
        X_a: ArrayLike,
        X_b: ArrayLike,
        *,
        alpha: float = 0.05,
        n_bootstrap: int = 1000,
        random_state: RandomState = 0,
    ) -> Table:
        """What one set of samples has more of than another, the largest difference first.

        See :func:`nonneg.estimators.table_between` for the columns.

        Args:
            X_a: Vectors of one set ``(n_a, d)``.
            X_b: Of the other ``(n_b, d)``.
            alpha: The share of false discoveries among what is significant; intervals have level
                1 - alpha, from ``n_bootstrap`` draws.
            n_bootstrap: The more, the smoother and slower.
            random_state: Seed or generator.
        """
        return table_between(
            self._sparse_features(X_a),
            self._sparse_features(X_b),
            names=self.feature_names_,
            alpha=alpha,
            n_bootstrap=n_bootstrap,
            random_state=random_state,
        )
