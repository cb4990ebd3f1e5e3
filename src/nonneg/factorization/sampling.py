"""What does NCL find from pairs alone? A table of features, trained on draws from a world."""

import math

import numpy as np
import torch
from torch.optim.lr_scheduler import LambdaLR

from nonneg.factorization.checking import FloatArray
from nonneg.factorization.worlds import World
from nonneg.head.nonnegative import NonNegative
from nonneg.losses import spectral_contrastive


def train_table(
    world: World,
    n_features: int,
    rng: np.random.Generator,
    *,
    nonnegative: str = "project",
    n_steps: int = 400,
    batch_size: int = 1024,
    learning_rate: float = 0.03,
) -> FloatArray:
    """Features ``(n, d)``, one free row a sample, learnt from drawn pairs by the spectral loss.

    Stochastic gradient descent with momentum, and a schedule that starts slowly: which feature
    becomes which class is decided early, and noise then makes two classes share one. It never sees
    the joint: its memory grows with n, not n². There is no rule for samples that were not drawn.

    Args:
        world: Where pairs are drawn.
        n_features: Columns.
        rng: Where the start and the draws come from.
        nonnegative: ``"project"`` sets negative entries to zero after each step, so that a zero
            can come back; a key of ``nonneg.head.TRANSFORMS`` puts that transform on the
            table instead. With ``"relu"`` an entry that falls below zero has no gradient and, as
            nothing else moves it, stays zero for ever; ``"identity"`` is ordinary contrastive
            learning.
        n_steps: Batches.
        batch_size: Pairs in a batch.
        learning_rate: The largest, of an average sample; multiplied by n, since a sample occurs in
            one of n draws.
    """
    projected = nonnegative == "project"
    transform = NonNegative("identity" if projected else nonnegative)
    table = torch.from_numpy(rng.random((world.n_samples, n_features))).requires_grad_()
    optimizer = torch.optim.SGD([table], lr=learning_rate * world.n_samples, momentum=0.9)
    schedule = warm_then_cosine(optimizer, n_steps)
    for _ in range(n_steps):
        first, second = torch.from_numpy(world.draw_pairs(batch_size, rng))
        features = transform(table)  # (n, d)
        loss = spectral_contrastive(
            features.index_select(0, first), features.index_select(0, second)
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if projected:
            with torch.no_grad():
                table.clamp_(min=0)
    learnt: FloatArray = transform(table).detach().numpy()
    if not np.isfinite(learnt).all() or not learnt.any():
        raise FloatingPointError(
            f"training diverged at learning_rate {learning_rate:g}: features are all zero or not "
            "finite; try a tenth of it"
        )
    return learnt


def best_table(
    world: World,
    n_features: int,
    rng: np.random.Generator,
    *,
    n_starts: int = 3,
    n_pairs: int = 20_000,
) -> FloatArray:
    """The best of several tables ``(n, d)``: the one with the lowest loss on fresh pairs.

    From one start two classes may end up in one feature, mostly where classes do not overlap. The
    loss shows it, and needs no knowledge of the classes.

    Args:
        world: Where pairs are drawn.
        n_features: Columns.
        rng: Where starts and draws come from.
        n_starts: Tables to train; see :func:`train_table`.
        n_pairs: Fresh pairs on which all are compared.
    """
    if n_starts < 1:
        raise ValueError(f"n_starts is {n_starts}; give at least 1")
    tables = [train_table(world, n_features, rng) for _ in range(n_starts)]
    first, second = world.draw_pairs(n_pairs, rng)

    def loss(table: FloatArray) -> float:
        features = torch.from_numpy(table)
        return float(spectral_contrastive(features[first], features[second]))

    return min(tables, key=loss)


def warm_then_cosine(optimizer: torch.optim.Optimizer, n_steps: int) -> LambdaLR:
    """A schedule: the rate rises over the first half of the steps and follows a cosine to zero."""

    def share(step: int) -> float:
        return min(1.0, 2 * (step + 1) / n_steps) * (1 + math.cos(math.pi * step / n_steps)) / 2

    return LambdaLR(optimizer, share)
