"""InfoNCE without each feature in turn, rows not re-normalised.

Dropping feature i multiplies the exponentiated logit of anchor r and candidate c by ``exp(-x)``,
``x = a_ri c_ci / T``. The power series of exp gives all features with one matrix product per order;
pairs of strong entries, where a short series would not do, are summed one by one. A sparse feature
has few pairs and needs no series, a dense one has small entries and needs few orders.

For each feature the cheapest mixture is chosen such that every pair that is left to the series has
``|x| ≤ ξ_P``, with ``ξ_P^(P+1) / (P+1)! · exp(ξ_P) = tolerance``. The remainder of each such term
is below ``tolerance``, the term itself above ``exp(-ξ_P)``, and so the logarithm of their sum is
off by no more than ``tolerance · exp(ξ_P)``.

With ``e_rc = exp(cos_rc / T)``, dropping feature i changes the log-sum-exp of anchor r by
``log(1 + s_ri / Σ_c e_rc)``, ``s_ri = Σ_c e_rc (exp(-a_ri c_ci / T) - 1)``. One pass over the
matrix of e serves all features, and both directions: anchors in rows and anchors in columns.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor

from nonneg.metrics.results import BoolArray, FloatArray, IntArray

_MAX_ORDER = 12
# One pair summed by hand takes the time of so many entries of a matrix product (measured).
_PAIR_COST = 400
# Of the series, see above; far below what the working precision itself gives away.
_TOLERANCE = {torch.float32: 1e-8, torch.float64: 1e-12}
# Terms of the series above this would cancel and leave too few digits.
_LARGEST_TERM = {torch.float32: 4.0, torch.float64: 1e3}


@dataclass(frozen=True)
class Plan:
    """How each feature is computed; all arrays are ``(n_features,)``.

    Args:
        orders: Of the series.
        alone: Pairs with a strong entry are not in the series at all; otherwise only pairs of two
            strong entries are corrected.
        least_anchor: An anchor's entry of larger size is strong.
        least_candidate: The same for candidates.
    """

    orders: IntArray
    alone: BoolArray
    least_anchor: Tensor
    least_candidate: Tensor


def cheapest_plan(anchors: Tensor, candidates: Tensor, temperature: float) -> Plan:
    """The plan of least cost for anchors ``(n, d)`` and candidates ``(m, d)``, both unit rows."""
    limits = series_limits(_TOLERANCE[anchors.dtype])
    largest, other_largest = (part.abs().amax(dim=0) for part in (anchors, candidates))
    # A pair of entries is small as soon as one of them is, whatever the other one may be.
    room, other_room = temperature / other_largest, temperature / largest
    n_strong = _count_above(anchors, room, limits)  # (orders, d)
    n_other_strong = _count_above(candidates, other_room, limits)
    n_on, n_other_on = (_count_above(part, room, np.zeros(1)) for part in (anchors, candidates))
    terms = _terms((largest * other_largest).double().cpu().numpy() / temperature, len(limits))
    alone = np.maximum.accumulate(terms) > _LARGEST_TERM[anchors.dtype]
    one_strong = n_strong * n_other_on + n_on * n_other_strong
    n_pairs = np.where(alone, one_strong, n_strong * n_other_strong)
    n_entries = 2.0 * len(anchors) * len(candidates)
    orders = (np.arange(len(limits))[:, None] * n_entries + _PAIR_COST * n_pairs).argmin(axis=0)
    limit = torch.from_numpy(limits[orders]).to(anchors)
    return Plan(
        orders=orders,
        alone=np.take_along_axis(alone, orders[None], axis=0)[0],
        least_anchor=limit * room,
        least_candidate=limit * other_room,
    )


def series_limits(tolerance: float) -> FloatArray:
    """The largest ``|x|`` for which the series of order 0, 1, … keeps to the tolerance.

    Example:
        >>> limit = float(series_limits(1e-8)[2])
        >>> round(limit**3 / 6 * math.exp(limit) * 1e8, 6)
        1.0
    """

    def excess(log_x: float, order: int) -> float:
        bound = (order + 1) * log_x - math.lgamma(order + 2) + math.exp(log_x)
        return bound - math.log(tolerance)

    return np.exp([brentq(excess, -100.0, 4.0, (p,)) for p in range(_MAX_ORDER + 1)])


def _count_above(rows: Tensor, room: Tensor, limits: FloatArray) -> FloatArray:
    """About how many entries of each feature exceed each limit, ``(limits, d)``.

    A thousand rows tell enough: a plan that is not quite the cheapest gives the same figures.
    """
    some = rows[:: max(1, len(rows) // 1024)].abs()
    counts = [(some > (limit * room).nan_to_num(nan=0.0)).sum(dim=0) for limit in limits.tolist()]
    return torch.stack(counts).double().cpu().numpy() * (len(rows) / len(some))


def _terms(x: FloatArray, n_terms: int) -> FloatArray:
    """``x^p / p!`` for p = 0, 1, …, ``(n_terms, d)``, but 0 for p = 0, which drops out."""
    terms = [np.zeros_like(x), x]
    for p in range(2, n_terms):
        terms.append(terms[-1] * x / p)
    return np.stack(terms)


_BLOCK_FEATURES = 512


@dataclass(frozen=True)
class Anchors:
    """One side of the matrix, features in rows: ``(d, n)`` throughout.

    Args:
        values: Unit vectors in columns.
        gentle: The values that the series may use: 0 where pairs are summed one by one instead.
        strong: For each feature, the anchors with a strong entry.
        on: For each feature, the anchors with an entry that is not 0.
        series: The part of s that the series gives, filled strip by strip.
        pairs: The part of s that single pairs give, filled strip by strip.
        total: The sum of e, float64 ``(n,)``, filled strip by strip.
    """

    values: Tensor
    gentle: Tensor
    strong: list[IntArray]
    on: list[IntArray]
    series: Tensor
    pairs: NDArray[np.floating]
    total: Tensor

    @classmethod
    def of(cls, unit: Tensor, least_strong: Tensor, alone: BoolArray) -> "Anchors":
        """Anchors that have seen no strip yet, from unit rows ``(n, d)``."""
        values = unit.T.contiguous()
        is_strong = values.abs() > least_strong[:, None]
        kept_alone = torch.from_numpy(alone).to(unit.device)[:, None]
        return cls(
            values=values,
            gentle=values.masked_fill(is_strong & kept_alone, 0) if alone.any() else values,
            strong=_members(is_strong),
            on=_members((values != 0) & kept_alone),
            series=torch.zeros_like(values),
            pairs=np.zeros(values.shape, values.cpu().numpy().dtype),
            total=torch.zeros(len(unit), dtype=torch.float64, device=unit.device),
        )


@dataclass(frozen=True)
class Strip:
    """Some anchors in rows against candidates in columns, ``e = exp((cos - 1) / T)``.

    If both sides are the same, the strip begins at the diagonal: its first square holds each pair
    twice, the rest only once, and so serves the anchors in columns too.

    Args:
        rows: The anchors in rows.
        columns: The anchors in columns.
        here: Which row anchors.
        temperature: T.
    """

    rows: Anchors
    columns: Anchors
    here: slice
    temperature: float

    @property
    def seen(self) -> slice:
        """The candidates of the row anchors."""
        return slice(self.here.start if self.columns is self.rows else 0, len(self.columns.total))

    @property
    def beyond(self) -> slice:
        """The anchors in columns that this strip serves."""
        return slice(self.here.stop if self.columns is self.rows else 0, len(self.columns.total))

    def add(self, plan: Plan) -> None:
        """Add what the strip holds to both sides."""
        own, others = self.rows.values[:, self.here], self.columns.values[:, self.seen]
        shift = own.new_full((), -1 / self.temperature)
        e = torch.addmm(shift, own.T, others, alpha=1 / self.temperature).exp_()
        if self.columns is self.rows:
            e.fill_diagonal_(0)
        rest = e[:, self.beyond.start - self.seen.start :]
        self.rows.total[self.here] += e.sum(dim=1)
        self.columns.total[self.beyond] += rest.sum(dim=0)
        by_order = np.argsort(-plan.orders, kind="stable")[: np.count_nonzero(plan.orders)]
        for start in range(0, len(by_order), _BLOCK_FEATURES):
            block = by_order[start : start + _BLOCK_FEATURES]
            orders = plan.orders[block]
            which = torch.from_numpy(block).to(e.device)
            for side, some, candidates, weights in (
                (self.rows, self.here, others, e.T),
                (self.columns, self.beyond, own, rest),
            ):
                scaled = side.gentle[which, some] / self.temperature
                for n, part in _series(candidates[which], weights, scaled, orders):
                    side.series[which[:n], some] += part
        self._add_pairs(e.cpu().numpy(), plan)

    def _add_pairs(self, e: NDArray[np.floating], plan: Plan) -> None:
        """Add what the series leaves out, one pair of entries at a time."""
        rows, columns = self.rows, self.columns
        with np.errstate(over="ignore", invalid="ignore"):  # such anchors are summed anew
            for i, (order, alone) in enumerate(zip(plan.orders, plan.alone, strict=True)):
                above, below = _within(rows.strong[i], self.here), columns.strong[i]
                if alone:
                    on = _within(rows.on[i], self.here)
                    below = _within(below, self.beyond)
                    columns.pairs[i, below] += self._changes(e, i, on, below, 0).sum(axis=0)
                    on = _within(columns.on[i], self.seen)
                    rows.pairs[i, above] += self._changes(e, i, above, on, 0).sum(axis=1)
                else:
                    below = _within(below, self.seen)
                    changes = self._changes(e, i, above, below, int(order))
                    rows.pairs[i, above] += changes.sum(axis=1)
                    served = np.searchsorted(below, self.beyond.start)
                    columns.pairs[i, below[served:]] += changes[:, served:].sum(axis=0)

    def _changes(
        self, e: NDArray[np.floating], feature: int, above: IntArray, below: IntArray, order: int
    ) -> NDArray[np.floating]:
        """What each pair of a row and a column anchor adds to s beyond the series."""
        left = self.rows.values[feature].cpu().numpy()[above]
        right = self.columns.values[feature].cpu().numpy()[below] / -self.temperature
        exponent = np.outer(left, right)
        place = (above - self.here.start)[:, None] * e.shape[1] + (below - self.seen.start)
        rest = np.exp(exponent)
        rest -= 1
        term = np.ones_like(exponent) if order else exponent
        for p in range(1, order + 1):
            term *= exponent / p
            rest -= term
        rest *= e.reshape(-1).take(place)
        return rest


def _series(
    candidates: Tensor, weights: Tensor, scaled: Tensor, orders: IntArray
) -> Iterator[tuple[int, Tensor]]:
    """The terms of the series, order by order: how many features still have one, and the term."""
    power, factor = candidates, -scaled
    for order in range(1, int(orders[0]) + 1):
        n = int((orders >= order).sum())
        if order > 1:
            power, factor = power[:n] * candidates[:n], factor[:n] * scaled[:n] / -order
        yield n, factor * (power @ weights)


def _members(mask: Tensor) -> list[IntArray]:
    """For each row of the mask, the columns where it is true."""
    row, column = np.nonzero(mask.cpu().numpy())
    return np.split(column, np.searchsorted(row, np.arange(1, len(mask))))


def _within(members: IntArray, part: slice) -> IntArray:
    low, high = np.searchsorted(members, (part.start, part.stop))
    return members[low:high]


_STRIP_ENTRIES = 1 << 24
# Outside these a ratio has lost digits or overflows, and the anchor is summed anew.
_LEAST_RATIO, _LARGEST_RATIO = 0.25, 1e4
# If logits differ by more than this, or a sum of e is below that, terms may have underflowed.
_LARGEST_SPREAD = {torch.float32: 80, torch.float64: 600}
_LEAST_SUM = {torch.float32: 1e-25, torch.float64: 1e-250}


def drop_each(a: Tensor, b: Tensor, temperature: float, negatives: str) -> tuple[float, Tensor]:
    """The log-sum-exp of all anchors, and how much it changes when each feature is dropped.

    Args:
        a: Unit rows of the first view ``(n, d)``.
        b: Unit rows of the second view ``(n, d)``.
        temperature: Of the logits.
        negatives: ``"both"``: the candidates of a row are the 2n - 1 others; ``"cross"``: the n
            rows of the other view.

    Returns:
        The sum over the 2n anchors, and the sum over them of the change, float64 ``(d,)``.
    """
    if negatives == "both":
        a = b = torch.cat([a, b])
    plan = cheapest_plan(a, b, temperature)
    rows = Anchors.of(a, plan.least_anchor, plan.alone)
    columns = rows if b is a else Anchors.of(b, plan.least_candidate, plan.alone)
    step = max(1, _STRIP_ENTRIES // len(b))
    for start in range(0, len(a), step):
        Strip(rows, columns, slice(start, min(start + step, len(a))), temperature).add(plan)
    total, change = _log_sums(rows, columns, temperature)
    if columns is not rows:
        total_back, change_back = _log_sums(columns, rows, temperature)
        total, change = total + total_back, change + change_back
    return total, change


def drop_from_positives(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """How much of the sum of the positive pairs' logits each feature holds, float64 ``(d,)``."""
    return (a * b).sum(dim=0, dtype=torch.float64) / temperature


def _log_sums(anchors: Anchors, candidates: Anchors, temperature: float) -> tuple[float, Tensor]:
    """The log-sum-exp of the anchors and its changes, each summed over the anchors."""
    dtype, device = anchors.values.dtype, anchors.values.device
    kept = anchors.total >= _LEAST_SUM[dtype]
    if 2 / temperature > _LARGEST_SPREAD[dtype]:
        kept = torch.zeros_like(kept)
    total = anchors.total.where(kept, 1)
    logs = total.log() + 1 / temperature
    ratio = (anchors.series + torch.from_numpy(anchors.pairs).to(device)) / total.to(dtype)
    sound = (ratio >= _LEAST_RATIO - 1) & (ratio <= _LARGEST_RATIO) & kept
    change = ratio.where(sound, 0).log1p_().sum(dim=1, dtype=torch.float64)
    anew = (~sound).any(dim=0).nonzero()[:, 0]
    for some in anew.split(max(1, _STRIP_ENTRIES // len(candidates.total))):
        logits = anchors.values[:, some].T @ candidates.values / temperature
        if candidates is anchors:
            logits[torch.arange(len(some)), some] = -torch.inf
        logs[some] = logits.logsumexp(dim=1).double()
        change += _summed_anew(
            logits, ~sound[:, some], anchors.values[:, some], candidates.values / temperature
        )
    return float(logs.sum()), change


def _summed_anew(logits: Tensor, wanted: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """The change of the log-sum-exp where it is wanted ``(d, rows)``, summed over the rows."""
    change = torch.zeros(len(wanted), dtype=torch.float64, device=logits.device)
    before = logits.logsumexp(dim=1)
    for i in wanted.any(dim=1).nonzero()[:, 0].tolist():
        rows = wanted[i].nonzero()[:, 0]
        reduced = logits[rows] - torch.outer(own[i, rows], others[i])
        change[i] = (reduced.logsumexp(dim=1) - before[rows]).sum(dtype=torch.float64)
    return change
