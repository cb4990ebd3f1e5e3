"""Solvers: signed and non-negative factors of a matrix, from pairs, or by an encoder."""

import math

import numpy as np
import scipy.linalg
import torch
from scipy.sparse.linalg import eigsh
from torch.optim.lr_scheduler import LambdaLR

from nonneg.encoder import Encoder, EncoderSettings
from nonneg.factorization.checking import FloatArray, Matrix
from nonneg.factorization.worlds import LatentWorld, World
from nonneg.head.nonnegative import NonNegative
from nonneg.head.revival import last_layer
from nonneg.losses.spectral import spectral_contrastive

TINY = 1e-12


def eigen_factor(normalized: Matrix, n_features: int) -> FloatArray:
    """The best F ``(n, d)`` of any sign: eigenvectors times the root of their eigenvalues.

    The optimum of ordinary contrastive learning with the spectral loss, one of many: F times any
    rotation is as good. Negative eigenvalues have no root and give columns of zeros.

    Args:
        normalized: Ā ``(n, n)``, dense or sparse.
        n_features: Columns of F.

    Example:
        >>> eigen_factor(np.diag([1.0, 0.25, 0.0]), 2).round(12) ** 2  # largest first
        array([[1.  , 0.  ],
               [0.  , 0.25],
               [0.  , 0.  ]])
    """
    n = _checked_size(normalized, n_features)
    if n_features > n:
        raise ValueError(f"{n} samples have only {n} eigenvectors, got n_features {n_features}")
    if isinstance(normalized, np.ndarray):
        values, vectors = scipy.linalg.eigh(normalized, subset_by_index=[n - n_features, n - 1])
    elif n_features < n:
        values, vectors = eigsh(normalized, k=n_features, which="LA", v0=np.ones(n))
    else:
        values, vectors = scipy.linalg.eigh(normalized.toarray())
    factor: FloatArray = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0))
    return factor


def multiplicative_factor(
    normalized: Matrix, n_features: int, rng: np.random.Generator, *, n_steps: int = 1000
) -> FloatArray:
    """A non-negative F ``(n, d)`` by multiplicative updates: ``F ← F · (Ā F / F FᵀF)^(1/3)``.

    Needs no step size and never leaves the non-negative numbers; every update lowers the error
    or leaves it (He et al. 2011). Entries approach zero but do not reach it.

    Args:
        normalized: Ā ``(n, n)``.
        n_features: Columns of F.
        rng: Where the start comes from.
        n_steps: Updates.
    """
    factor = random_factor(normalized, n_features, rng)
    for _ in range(n_steps):
        pull = normalized @ factor
        push = factor @ (factor.T @ factor)
        factor = factor * np.cbrt(pull / np.maximum(push, TINY**2))
    return factor


def projected_factor(
    normalized: Matrix,
    n_features: int,
    rng: np.random.Generator,
    *,
    n_steps: int = 500,
    tolerance: float = 1e-10,
) -> FloatArray:
    """A non-negative F ``(n, d)`` by projected gradient: step downhill, set negatives to zero.

    The step size grows by half after every step and is halved until the error falls enough
    (Armijo's rule), so the error never rises.

    Args:
        normalized: Ā ``(n, n)``.
        n_features: Columns of F.
        rng: Where the start comes from.
        n_steps: At most so many.
        tolerance: Stop when a step changes F by less than this share of its length.
    """
    factor = random_factor(normalized, n_features, rng)
    now = _Place(normalized, factor)
    size = 0.1
    for _ in range(n_steps):
        before, (now, size) = now, _descended(normalized, now, size)
        change = np.linalg.norm(now.factor - before.factor)
        if change <= tolerance * np.linalg.norm(now.factor):
            break
        size *= 1.5
    return now.factor


def sklearn_factor(
    normalized: Matrix, n_features: int, rng: np.random.Generator, *, n_steps: int = 500
) -> FloatArray:
    """A non-negative F ``(n, d)`` from scikit-learn's NMF, which does not use the symmetry.

    It gives ``Ā ≈ W H`` with W and H free of each other. Each column of W and row of H are scaled
    to the same length, and F is their mean: the F of ``F Fᵀ`` if both came out equal.

    Args:
        normalized: Ā ``(n, n)``.
        n_features: Columns of F.
        rng: Where the start comes from.
        n_steps: At most so many.
    """
    import warnings

    from sklearn.decomposition import NMF  # slow to import, and needed here only
    from sklearn.exceptions import ConvergenceWarning

    _checked_size(normalized, n_features)
    model = NMF(
        n_features,
        init="random",
        max_iter=n_steps,
        tol=1e-8,
        random_state=int(rng.integers(1 << 31)),
    )
    with warnings.catch_warnings():
        # The number of steps is a budget, as for the other solvers.
        warnings.simplefilter("ignore", ConvergenceWarning)
        left = np.asarray(model.fit_transform(normalized))  # (n, d)
    right = np.asarray(model.components_).T  # (n, d)
    balance = np.sqrt(
        np.linalg.norm(right, axis=0) / np.maximum(np.linalg.norm(left, axis=0), TINY)
    )
    factor: FloatArray = (left * balance + right / np.maximum(balance, TINY)) / 2
    return factor


def random_factor(normalized: Matrix, n_features: int, rng: np.random.Generator) -> FloatArray:
    """A start ``(n, d)``: uniform draws, scaled so that ``F Fᵀ`` has the mean of Ā."""
    n = _checked_size(normalized, n_features)
    # A product of two uniform draws is 1/4 in the mean.
    factor: FloatArray = rng.random((n, n_features)) * np.sqrt(4 * normalized.mean() / n_features)
    return factor


class _Place:
    """A factor with what one product with Ā tells of it: its error and the slope there."""

    def __init__(self, normalized: Matrix, factor: FloatArray) -> None:
        self.factor = factor
        pull = normalized @ factor  # (n, d)
        gram = factor.T @ factor  # (d, d)
        # Without ||Ā||², which is the same everywhere.
        self.error = float((gram * gram).sum() - 2 * (pull * factor).sum())
        self.slope: FloatArray = 4 * (factor @ gram - pull)


def _descended(normalized: Matrix, start: _Place, size: float) -> tuple[_Place, float]:
    """The place after one accepted step, and the step's size; the same place if none helps."""
    while size > TINY:
        place = _Place(normalized, np.maximum(start.factor - size * start.slope, 0))
        expected = float((start.slope * (start.factor - place.factor)).sum())
        if place.error <= start.error - 1e-4 * expected:
            return place, size
        size /= 2
    return start, size


def _checked_size(normalized: Matrix, n_features: int) -> int:
    n, columns = normalized.shape
    if n != columns:
        raise ValueError(f"the matrix has shape {normalized.shape}; a factor F Fᵀ needs a square")
    if n_features < 1:
        raise ValueError(f"n_features is {n_features}; give at least 1")
    return int(n)


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
    """Features ``(n, d)``, one free row per sample, learnt from drawn pairs by the spectral loss.

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


def observations(world: LatentWorld, n_inputs: int, rng: np.random.Generator) -> FloatArray:
    """Vectors ``(n, n_inputs)`` as which the samples of a world are seen.

    ``tanh`` of a random linear map of the posterior: samples with like posteriors look alike, but
    no input stands for a class.

    Args:
        world: Whose samples to show.
        n_inputs: Numbers per sample.
        rng: Where the linear map comes from.
    """
    mixing = rng.normal(scale=2.0, size=(world.n_classes, n_inputs))
    vectors: FloatArray = np.tanh(np.asarray(world.posterior @ mixing))
    return vectors


def train_encoder(
    world: World,
    inputs: FloatArray,
    n_features: int,
    rng: np.random.Generator,
    *,
    nonnegative: str = "rep_relu",
    norm: str = "batch",
    n_steps: int = 300,
    batch_size: int = 512,
    learning_rate: float = 0.006,
) -> Encoder:
    """A small perceptron that gives features of seen samples, learnt by the spectral loss.

    It starts with nearly every feature on for every sample, as the table does: a class whose
    samples have no feature on at the start may never get one.

    Args:
        world: Where pairs are drawn.
        inputs: What each sample looks like ``(n, n_inputs)``.
        n_features: Columns of the features.
        rng: Where the start and the draws come from.
        nonnegative: A key of ``nonneg.head.TRANSFORMS``; ``"identity"`` is ordinary
            contrastive learning. With ``"relu"`` a feature can die, and its class is then not
            found; ``"rep_relu"`` has the same values and lets it come back.
        norm: Of the hidden layers, ``"batch"``, ``"layer"`` or ``"none"``; without batch
            normalisation features die more often.
        n_steps: Batches.
        batch_size: Pairs in a batch.
        learning_rate: The largest; see :func:`warm_then_cosine`.
    """
    settings = EncoderSettings.read(
        {
            "backbone": {"name": "mlp", "hidden": (64, 64), "norm": norm},
            "projector": {"hidden": (), "n_features": n_features},
            "nonnegative": nonnegative,
        }
    )
    samples = torch.from_numpy(inputs).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(1 << 31)))
        encoder = Encoder(settings, (inputs.shape[1],))
    _switch_features_on(encoder)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=learning_rate, fused=True)
    schedule = warm_then_cosine(optimizer, n_steps)
    for _ in range(n_steps):
        drawn = torch.from_numpy(world.draw_pairs(batch_size, rng))  # (2, batch_size)
        first, second = encoder(samples[drawn.flatten()]).features.chunk(2)
        loss = spectral_contrastive(first, second)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    return encoder.eval()


def _switch_features_on(encoder: Encoder) -> None:
    last = last_layer(encoder)
    with torch.no_grad():
        last.weight.mul_(0.5)
        last.bias.fill_(0.5)
