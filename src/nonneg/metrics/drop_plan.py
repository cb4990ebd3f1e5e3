"""How is InfoNCE without a feature computed cheapest? By a power series, pair by pair, or both.

Dropping feature i multiplies the exponentiated logit of anchor r and candidate c by ``exp(-x)``,
``x = a_ri c_ci / T``. The power series of exp gives all features with one matrix product an order;
pairs of strong entries, where a short series would not do, are summed one by one. A sparse feature
has few pairs and needs no series, a dense one has small entries and needs few orders.

For each feature the cheapest mixture is chosen such that every pair that is left to the series has
``|x| ≤ ξ_P``, with ``ξ_P^(P+1) / (P+1)! · exp(ξ_P) = tolerance``. The remainder of each such term
is below ``tolerance``, the term itself above ``exp(-ξ_P)``, and so the logarithm of their sum is
off by no more than ``tolerance · exp(ξ_P)``.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
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
