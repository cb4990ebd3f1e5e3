"""Beginnings of features, at samples or at groups of samples, and the merging of twins."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nonneg.head.nonnegative import NonNegative
from nonneg.head.on_rate import AT_ONCE
from nonneg.inference import evaluation_mode
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.rows import unit_rows

# The share of samples that a feature is on for when it starts: one of the few that were dead, or
# one of all. All together have to leave no sample without features.
_REVIVED_ON_RATE = 0.01
_REINIT_ON_RATE = 0.05
MARGIN = 1e-3


class Headed(Protocol):
    """An object with a head: a projector that gives scores, and their transform."""

    projector: nn.Sequential
    nonnegative: NonNegative


class Shrinkable(Headed, Protocol):
    """An object with a head whose features can be dropped."""

    def keep_features(self, numbers: Tensor) -> None:
        """Drop all features but these."""


@torch.no_grad()
def revive_dead(
    heads: Sequence[tuple[Headed, Tensor]], generator: torch.Generator, *, max_dead_rate: float
) -> Tensor:
    """Point each dead feature at a sample of its own, drawn at random, unless few are dead.

    A revived feature has weights of the usual length, in the direction of its sample, and is on for
    the 1 % of the samples that lie furthest in this direction. Of two heads, a feature that is dead
    in one is re-initialised in both, at the two sides of the same pair.

    Args:
        heads: Encoders, whose last layers change in place and whose modes are left as they were,
            each with the backbone's outputs of the samples ``(n, h)``. A feature that is off for
            all of them is dead.
        generator: Draws the samples.
        max_dead_rate: Up to this share of dead features, all are left as they are.

    Returns:
        Which features were revived, ``(d,)``; at most one per sample, and none if all are dead.
    """
    inputs = [last_inputs(encoder, hidden) for encoder, hidden in heads]
    alive = [_alive(encoder, part) for (encoder, _), part in zip(heads, inputs, strict=True)]
    dead = ~torch.stack(alive).all(dim=0)  # (d,)
    n_dead = int(dead.sum())
    if n_dead <= max_dead_rate * len(dead) or n_dead == len(dead):
        return torch.zeros_like(dead)
    # Two features of the same sample would have the same weights and gradients for ever.
    chosen = torch.randperm(len(inputs[0]), generator=generator)[:n_dead].to(dead.device)
    rows = dead.nonzero().flatten()[: len(chosen)]
    for (encoder, _), part in zip(heads, inputs, strict=True):
        last = last_layer(encoder)
        length = last.weight[~dead].norm(dim=1).median()
        _point(last, part, rows, chosen, length=length, on_rate=_REVIVED_ON_RATE)
    return torch.zeros_like(dead).index_fill(0, rows, value=True)


@torch.no_grad()
def point_at_samples(
    encoder: Headed,
    inputs: Tensor,
    rows: Tensor,
    generator: torch.Generator,
    *,
    among: Tensor | None = None,
    margin: float = MARGIN,
) -> None:
    """Point some features at samples of their own, drawn by chance; the others stay.

    Args:
        encoder: Whose last layer changes in place.
        inputs: What reaches it of samples, ``(n, width)``.
        rows: The numbers of the features; of more than there are samples, the first.
        generator: Draws the samples.
        among: Which samples may be drawn, bool ``(n,)``; None for all.
        margin: How far above its threshold a feature's own sample is, at least, as a share of its
            score: where many samples are equal, a feature that is only just on may be lost by the
            first steps.
    """
    last = last_layer(encoder)
    chosen = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    chosen = (chosen if among is None else chosen[among[chosen]])[: len(rows)]
    length = last.weight.norm(dim=1).median()
    # In parts: there may be as many samples as features, and very many of both.
    for start in range(0, len(chosen), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        features, samples = rows[: len(chosen)][part], chosen[part]
        _point(
            last, inputs, features, samples, length=length, on_rate=_REINIT_ON_RATE, margin=margin
        )


# Centres are looked for among so many samples, in so many rounds.
_N_GROUPED = 16_384
_N_ROUNDS = 5
# There is a topic for so many samples, within these limits, and for each so many other features.
_TOPIC_OF = 60
_TOPICS = (8, 64)
_LEAST_TOPICS = 4
_PER_TOPIC = 8
# Of few features not more than this share is on, or none would tell samples apart.
_MOST_ON = 0.125


class Beginning(NamedTuple):
    """How features begin at groups of samples."""

    n_on: int
    """Features of small groups that are on per sample."""
    n_topics_on: int = 1
    """Features of large groups, the topics, that are on per sample."""
    topic_strength: float = 0.0
    """Length of a sample's topics beside that of its other features; 0 for no topics."""


@torch.no_grad()
def begin_at_centres(
    encoder: Headed,
    hidden: Tensor,
    generator: torch.Generator,
    beginning: Beginning,
    *,
    margin: float = MARGIN,
) -> None:
    """Point features at the centres of groups of samples; of more features than samples the first.

    Groups are found by a few rounds of spherical k-means, which is itself a factorisation of the
    similarities, with one feature per sample: features begin spread over the samples, and each
    where there are some. Most are of small groups, which tell samples apart; the last ones are
    topics, of large groups, which tell what samples have in common. Each is on for the samples
    that it is among the nearest for.

    Args:
        encoder: Whose last layer changes in place.
        hidden: The backbone's outputs of the samples ``(n, h)``.
        generator: Draws the samples that are looked at, and where groups begin.
        beginning: How many of both are on, and how strong topics are.
        margin: As for :func:`point_at_samples`.
    """
    last = last_layer(encoder)
    some = torch.randperm(len(hidden), generator=generator)
    n_looked_at = max(_N_GROUPED, 2 * len(last.weight))
    inputs = last_inputs(encoder, hidden[some[:n_looked_at].to(hidden.device)])
    n_features = min(len(last.weight), len(inputs))
    n_topics = min(max(len(hidden) // _TOPIC_OF, _TOPICS[0]), _TOPICS[1], n_features // _PER_TOPIC)
    if n_topics < _LEAST_TOPICS or not beginning.topic_strength:
        n_topics = 0
    n_others = n_features - n_topics
    directions = inputs - inputs.mean(dim=0)
    length = 0.0
    for first, n_groups, n_on, strength in (
        (0, n_others, beginning.n_on, 1.0),
        (n_others, n_topics, beginning.n_topics_on, beginning.topic_strength),
    ):
        if not n_groups:
            continue
        weight = spherical_centres(directions, n_groups, generator)
        n_on = min(n_on, max(1, int(_MOST_ON * n_groups)))
        bias, own = _nearest_on(inputs[:_N_GROUPED], weight, n_on, margin)
        length = length or own
        scale = strength * length / own if own else 1.0
        rows = slice(first, first + n_groups)
        last.weight[rows], last.bias[rows] = scale * weight, scale * bias


def _nearest_on(inputs: Tensor, weight: Tensor, n_on: int, margin: float) -> tuple[Tensor, float]:
    """Biases ``(d,)`` with which about ``n_on`` features per sample are on, the largest.

    A sample's largest scores lie above its next one; the bias of a feature is the mean of this
    threshold over the samples that it is among the largest of.

    Returns:
        The biases, and the mean length of the rows that have a feature on.
    """
    n_on = min(n_on, len(weight) - 1)
    total, count = weight.new_zeros(len(weight)), weight.new_zeros(len(weight))
    best = weight.new_full((len(weight),), -torch.inf)
    for part in inputs.split(AT_ONCE):
        scores = part @ weight.T
        best = torch.maximum(best, scores.amax(dim=0))
        if n_on:
            values, largest = scores.topk(n_on + 1, dim=1)
            flat = largest[:, :n_on].flatten()
            total.index_add_(0, flat, values[:, -1:].expand(-1, n_on).flatten())
            count.index_add_(0, flat, torch.ones_like(flat, dtype=count.dtype))
    least = torch.where(count > 0, total / count.clamp_min(1), best)
    # Where many samples are equal, the strongest may be no stronger than the rest.
    least = torch.minimum(least, best - margin * best.abs().clamp_min(1e-6))
    lengths = [(part @ weight.T - least).clamp_min(0).norm(dim=1) for part in inputs.split(AT_ONCE)]
    length = torch.cat(lengths)
    return -least, float(length.sum() / (length > 0).sum().clamp_min(1))


def spherical_centres(vectors: Tensor, n_groups: int, generator: torch.Generator) -> Tensor:
    """The unit directions of the centres of groups of vectors by cosine ``(n_groups, d)``.

    Args:
        vectors: ``(n, d)``.
        n_groups: At most n.
        generator: Draws the vectors that groups begin with.

    Example:
        >>> vectors = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> centres = spherical_centres(vectors, 2, torch.Generator().manual_seed(0))
        >>> sorted(centres.abs().tolist())
        [[0.0, 1.0], [1.0, 0.0]]
    """
    unit = unit_rows(vectors)
    order = torch.randperm(len(unit), generator=generator).to(unit.device)
    centres = unit[order[:n_groups]]
    for _ in range(_N_ROUNDS if n_groups < len(unit) else 0):
        nearest = torch.cat([(part @ centres.T).argmax(dim=1) for part in unit.split(AT_ONCE)])
        sums = torch.zeros_like(centres).index_add_(0, nearest, unit)
        # An empty group stays where it is.
        is_empty = torch.bincount(nearest, minlength=n_groups) == 0
        centres = torch.where(is_empty[:, None], centres, unit_rows(sums))
    return centres


@torch.no_grad()
def reinitialise(
    encoder: Headed, hidden: Tensor, generator: torch.Generator, *, margin: float = MARGIN
) -> Tensor:
    """Point every feature at a sample of its own, drawn at random, whatever it had learnt.

    It has weights of the usual length, in the direction of its sample, and is on for the 5 % of the
    samples that lie furthest in this direction.

    Args:
        encoder: Whose last layer changes in place.
        hidden: The backbone's outputs of the samples ``(n, h)``.
        generator: Draws the samples.
        margin: As for :func:`point_at_samples`.

    Returns:
        Which features were re-initialised, ``(d,)``: all, or the first n of more.
    """
    inputs = last_inputs(encoder, hidden)
    rows = torch.arange(len(last_layer(encoder).weight), device=inputs.device)
    point_at_samples(encoder, inputs, rows, generator, margin=margin)
    return rows < len(inputs)


# Features whose columns have a larger cosine than this say the same.
TWINS_FROM = 0.84
# They are looked for among so many samples at least, and so many entries of features at most.
_LEAST_COMPARED, _MOST_COMPARED = 4096, 50_000_000


@torch.no_grad()
def twin_leaders(features: Tensor, *, twins_from: float = TWINS_FROM) -> tuple[Tensor, Tensor]:
    """Which features to keep of those that say the same, and how much stronger to make them.

    From the strongest on, each feature stands for all weaker ones whose columns have a larger
    cosine with its own than ``twins_from``. Two equal columns add twice their product to every
    similarity, so the one that is left is made stronger: its squares then sum up to what those of
    all its twins do, and similarities stay nearly what they were.

    Args:
        features: Of samples ``(n, d)``, at least 0.
        twins_from: In (0, 1].

    Returns:
        The numbers of the features that are kept, in their order, and factors ``(n_kept,)``;
        features that are off for all samples are not kept.

    Example:
        >>> features = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
        >>> kept, factors = twin_leaders(features)
        >>> kept.tolist(), factors.square().round(decimals=3).tolist()
        ([0, 2], [2.0, 1.0])
    """
    rows = unit_rows(features)
    energy = rows.square().sum(dim=0)  # (d,)
    columns = unit_rows(rows.T)  # (d, n)
    cosine = columns @ columns.T
    taken = energy <= 0
    factors: dict[int, float] = {}
    for feature in energy.argsort(descending=True, stable=True).tolist():
        if taken[feature]:
            continue
        group = (cosine[feature] > twins_from) & ~taken
        group[feature] = True
        taken |= group
        factors[feature] = float(energy[group].sum() / energy[feature]) ** 0.5
    kept = torch.tensor(sorted(factors), dtype=torch.int64, device=features.device)
    return kept, torch.tensor([factors[i] for i in kept.tolist()], device=features.device)


@torch.no_grad()
def merge_twins(
    encoder: Shrinkable,
    hidden: Tensor,
    others: str,
    generator: torch.Generator | None = None,
    *,
    least: int = 1,
    margin: float = MARGIN,
) -> None:
    """Leave one feature of those that say the same, as strong as all of them.

    Args:
        encoder: Its last layer changes in place.
        hidden: Of training samples ``(n, h)``.
        others: What becomes of the others and of dead features: ``"dropped"``, ``"off"`` for every
            sample, or ``"reinitialised"`` at samples.
        generator: Draws these samples. Where features are dropped and a generator is given, some
            are re-initialised instead, at samples that no feature is on for.
        least: Where fewer features than this would be left, all stay as they are.
        margin: As for :func:`point_at_samples`.
    """
    if not encoder.nonnegative.gives_zeros:  # such features can be neither off nor alike
        return
    last = last_layer(encoder)
    hidden = hidden[: max(_LEAST_COMPARED, _MOST_COMPARED // len(last.bias))]
    inputs = last_inputs(encoder, hidden)
    kept, factors = twin_leaders(encoder.nonnegative(last(inputs)))
    if len(kept) < least:
        return
    last.weight[kept] *= factors[:, None]
    last.bias[kept] *= factors
    rest = torch.ones(len(last.bias), dtype=torch.bool, device=kept.device)
    rest[kept] = False
    if others == "dropped":
        if generator is not None:  # there are steps to come
            is_empty = ~encoder.nonnegative(last(inputs)).any(dim=1)
            found = rest.nonzero().flatten()[: int(is_empty.sum())]
            point_at_samples(encoder, inputs, found, generator, among=is_empty, margin=margin)
            kept = torch.cat([kept, found]).sort().values
        encoder.keep_features(kept)
    elif others == "off":
        last.weight[rest], last.bias[rest] = 0.0, 0.0
    else:
        assert generator is not None
        point_at_samples(encoder, inputs, rest.nonzero().flatten(), generator, margin=margin)


@torch.no_grad()
def forget(optimizer: Optimizer, layer: nn.Linear, rows: Tensor) -> None:
    """Clear an optimiser's state for some rows of a layer.

    AdamW's first steps of these rows are then several times as long as those of the others.

    Args:
        optimizer: Of any kind: state in the shape of a weight is set to zero there.
        layer: Whose weight and bias it moves.
        rows: Which, ``(d,)``.
    """
    for parameter in (layer.weight, layer.bias):
        for kept in optimizer.state[parameter].values():
            if isinstance(kept, Tensor) and kept.shape == parameter.shape:
                kept[rows] = 0


def last_layer(encoder: Headed) -> nn.Linear:
    """The layer that makes the scores."""
    last = encoder.projector[-1]
    assert isinstance(last, nn.Linear)
    return last


def last_inputs(encoder: Headed, hidden: Tensor) -> Tensor:
    """The inputs of the last layer ``(n, width)`` for hidden ``(n, h)``, in evaluation mode."""
    with evaluation_mode(encoder.projector):
        inputs: Tensor = encoder.projector[:-1](hidden)
    return inputs


def _alive(encoder: Headed, inputs: Tensor) -> Tensor:
    features = encoder.nonnegative(last_layer(encoder)(inputs))
    return (unit_rows(features).abs() > ACTIVE_THRESHOLD).any(dim=0)


def _point(
    last: nn.Linear,
    inputs: Tensor,
    rows: Tensor,
    chosen: Tensor,
    *,
    length: Tensor,
    on_rate: float,
    margin: float = MARGIN,
) -> None:
    """Point some features of one layer at the chosen rows of its inputs."""
    weight = unit_rows(inputs[chosen] - inputs.mean(dim=0)) * length
    n_on = max(1, round(on_rate * len(inputs)))
    values = (inputs @ weight.T).topk(min(n_on + 1, len(inputs)), dim=0).values
    best = values[0]
    # Between two samples: one that lies just on the edge would be on or off by rounding.
    least = values[-2:].mean(dim=0)
    # Where many samples are equal, the strongest may be no stronger than the rest.
    least = torch.minimum(least, best - margin * best.abs().clamp_min(1e-6))
    last.weight[rows], last.bias[rows] = weight, -least
