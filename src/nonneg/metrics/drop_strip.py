"""What does a strip of the similarity matrix tell about every feature? Series and single pairs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nonneg.metrics.drop_plan import Plan
from nonneg.metrics.results import BoolArray, IntArray

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
