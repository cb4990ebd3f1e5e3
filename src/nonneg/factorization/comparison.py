"""Solvers side by side: error, time, memory and what they identify."""

import time
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nonneg.factorization.checking import FloatArray
from nonneg.factorization.identification import identification_score, posterior_features
from nonneg.factorization.population import factorization_error, features_of
from nonneg.factorization.solvers import (
    eigen_factor,
    multiplicative_factor,
    observations,
    projected_factor,
    sklearn_factor,
    train_encoder,
    train_table,
)
from nonneg.factorization.worlds import LatentWorld


def peak_memory(run: Callable[[], object]) -> int:
    """The most bytes that a function's arrays and tensors fill at one time.

    What existed before does not count. NumPy's and Python's share comes from tracemalloc, torch's
    from following every tensor that an operation returns; workspace inside a library's C code is
    not seen. The two peaks are added, though they may not fall on the same moment. The function
    runs slower while it is watched: measure time in another run, and before this one, since
    modules that are imported for the first time count.

    Args:
        run: Called once, without arguments.

    Example:
        >>> peak_memory(lambda: torch.zeros(1000, dtype=torch.float64)) // 8000
        1
    """
    with _TensorBytes():
        torch.zeros(1)  # torch imports what its watching needs
    tensors = _TensorBytes()
    tracemalloc.start()
    try:
        with tensors:
            run()
        _, arrays = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return arrays + tensors.peak


class _TensorBytes(TorchDispatchMode):
    """Counts the bytes of tensors while they live."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        returned = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(returned):
            if isinstance(leaf, torch.Tensor):
                self._follow(leaf.untyped_storage())
        return returned

    def _follow(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._seen:
            return
        self._seen.add(key)
        n_bytes = storage.nbytes()
        self.now += n_bytes
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key, n_bytes)

    def _forget(self, key: int, n_bytes: int) -> None:
        self._seen.discard(key)
        self.now -= n_bytes


N_INPUTS = 16
# Memory is at its peak after a step or two.
FEW_STEPS = 2

Solver = Callable[..., FloatArray]
Method = Callable[[LatentWorld, int, np.random.Generator, int | None], FloatArray]


@dataclass(frozen=True)
class Outcome:
    """The result of one method on one world.

    Args:
        method: A key of ``METHODS``.
        n_samples: Of the world.
        error: ``||Ā - F Fᵀ||²``; the least possible is 0 where features are as many as classes.
        seconds: Of processor time, from the world to the features.
        megabytes: The peak of arrays and tensors meanwhile.
        cosine: :func:`identification_score`.
        correlation: Its ``correlation``.
        distance: Its ``distance``.
        n_alive: Features that are on for at least one sample.
    """

    method: str
    n_samples: int
    error: float
    seconds: float
    megabytes: float
    cosine: float
    correlation: float
    distance: float
    n_alive: int


def outcome(
    method: str, world: LatentWorld, seed: int, *, n_features: int | None = None
) -> Outcome:
    """One method on one world, measured; each run starts without Ā and pays for it if it needs it.

    Args:
        method: A key of ``METHODS``.
        world: What to factorise.
        seed: Of the start and the draws.
        n_features: Columns of the features; None for the number of classes.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known: {', '.join(METHODS)}")
    run, d = METHODS[method], n_features or world.n_classes

    def features(n_steps: int | None) -> FloatArray:
        fresh = LatentWorld(world.prior, world.likelihood)
        return run(fresh, d, np.random.default_rng(seed), n_steps)

    start = time.process_time()
    found = features(None)
    seconds = time.process_time() - start
    score = identification_score(found, posterior_features(world))
    return Outcome(
        method=method,
        n_samples=world.n_samples,
        error=factorization_error(found, world),
        seconds=seconds,
        megabytes=peak_memory(lambda: features(FEW_STEPS)) / 1e6,
        cosine=score.value,
        correlation=score.correlation,
        distance=score.distance,
        n_alive=score.n_alive,
    )


def held_out_score(
    world: LatentWorld, seed: int, *, held_out_rate: float = 0.2
) -> tuple[float, float]:
    """How well an encoder identifies samples it was trained on, and samples it never saw.

    The first sample of each class (the anchor of :func:`random_world`) is always trained on.

    Args:
        world: Whose samples are split.
        seed: Of the split, the inputs and the training.
        held_out_rate: Share of the samples that is never drawn in training.

    Returns:
        The matched cosine over seen and over held-out samples, with the matching of the seen ones.
    """
    rng = np.random.default_rng(seed)
    inputs = observations(world, N_INPUTS, rng)
    others = rng.permutation(np.arange(world.n_classes, world.n_samples))
    n_held_out = round(held_out_rate * world.n_samples)
    hidden, seen = others[:n_held_out], np.r_[np.arange(world.n_classes), others[n_held_out:]]
    encoder = train_encoder(world.among(seen), inputs[seen], world.n_classes, rng)
    features = encoder.encode(inputs.astype(np.float32)).features.double().numpy()
    phi = posterior_features(world)
    match = identification_score(features[seen], phi[seen])
    partners = np.where(match.partner >= 0, features[:, match.partner], 0)
    return match.value, _mean_cosine(partners[hidden], phi[hidden])


def _mean_cosine(a: FloatArray, b: FloatArray) -> float:
    lengths = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    return float(((a * b).sum(axis=0) / np.where(lengths > 0, lengths, np.inf)).mean())


def _by_matrix(solver: Solver) -> Method:
    """A solver that factorises Ā, as a method."""

    def run(
        world: LatentWorld, n_features: int, rng: np.random.Generator, n_steps: int | None
    ) -> FloatArray:
        steps = {} if n_steps is None else {"n_steps": n_steps}
        return features_of(solver(world.normalized, n_features, rng, **steps), world)

    return run


def _by_table(nonnegative: str) -> Method:
    def run(
        world: LatentWorld, n_features: int, rng: np.random.Generator, n_steps: int | None
    ) -> FloatArray:
        steps: dict[str, Any] = {} if n_steps is None else {"n_steps": n_steps}
        return train_table(world, n_features, rng, nonnegative=nonnegative, **steps)

    return run


def _by_eigenvectors(
    world: LatentWorld, n_features: int, rng: np.random.Generator, n_steps: int | None
) -> FloatArray:
    return features_of(eigen_factor(world.normalized, n_features), world)


def _by_encoder(
    world: LatentWorld, n_features: int, rng: np.random.Generator, n_steps: int | None
) -> FloatArray:
    inputs = observations(world, N_INPUTS, rng)
    steps: dict[str, Any] = {} if n_steps is None else {"n_steps": n_steps}
    encoder = train_encoder(world, inputs, n_features, rng, **steps)
    features: FloatArray = encoder.encode(inputs.astype(np.float32)).features.double().numpy()
    return features


METHODS: dict[str, Method] = {
    "eigenvectors (CL)": _by_eigenvectors,
    "NMF, multiplicative": _by_matrix(multiplicative_factor),
    "NMF, projected gradient": _by_matrix(projected_factor),
    "NMF, scikit-learn": _by_matrix(sklearn_factor),
    "NCL, table, projected": _by_table("project"),
    "NCL, table, relu": _by_table("relu"),
    "NCL, encoder": _by_encoder,
}
