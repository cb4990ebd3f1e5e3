"""InfoNCE once more: by loops and math only, and by torch's own cross entropy."""

import math

import torch
import torch.nn.functional as F

from nonneg.rows import unit_rows


def slow_cosine(u, v):
    lengths = math.sqrt(sum(x * x for x in u)), math.sqrt(sum(x * x for x in v))
    if 0.0 in lengths:
        return 0.0
    return sum(x * y for x, y in zip(u, v, strict=True)) / (lengths[0] * lengths[1])


def slow_info_nce(a, b, temperature, negatives, *, groups=None, weights=None, same_group="ignored"):
    """Loops and math only: one anchor at a time, one candidate at a time."""
    n = len(a)
    groups, weights = groups or list(range(n)), weights or [1.0] * n

    def log_ratio(anchor, target, others):
        right = slow_cosine(anchor, target) / temperature
        logits = [right] + [slow_cosine(anchor, other) / temperature for other in others]
        top = max(logits)
        return top + math.log(math.fsum(math.exp(x - top) for x in logits)) - right

    def one(i, anchors, partners):
        candidates = [(j, partners[j]) for j in range(n)]
        if negatives == "both":
            candidates += [(j, anchors[j]) for j in range(n) if j != i]
        if same_group == "ignored":
            others = [row for j, row in candidates if groups[j] != groups[i]]
            return log_ratio(anchors[i], partners[i], others)
        terms = []
        for number, (j, row) in enumerate(candidates):
            if groups[j] == groups[i]:
                others = [other for k, (_, other) in enumerate(candidates) if k != number]
                terms.append(log_ratio(anchors[i], row, others))
        return math.fsum(terms) / len(terms)

    losses = [weights[i] * (one(i, a, b) + one(i, b, a)) / 2 for i in range(n)]
    return math.fsum(losses) / math.fsum(weights)


def cross_entropy(a, b, *, temperature, negatives):
    """Torch's own cross entropy on the whole matrix."""
    n = len(a)
    a, b = unit_rows(a, shortest=1e-6), unit_rows(b, shortest=1e-6)
    if negatives == "cross":
        logits, partner = (a @ b.T) / temperature, torch.arange(n)
        return (F.cross_entropy(logits, partner) + F.cross_entropy(logits.T, partner)) / 2
    z = torch.cat([a, b])
    logits = (z @ z.T) / temperature
    logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool), -math.inf)
    return F.cross_entropy(logits, torch.arange(2 * n).roll(n))


def views(n, d, seed, *, signed=True, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    return (a.to(dtype), b.to(dtype)) if signed else (a.relu().to(dtype), b.relu().to(dtype))
