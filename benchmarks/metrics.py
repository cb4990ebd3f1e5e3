"""The speed of the metrics, each beside what the machine itself can do, in the same run.

Runs of a metric and of its reference are interleaved, and the fastest of each is taken: the one
that other programs disturbed least.

    python benchmarks/metrics.py [consistency] [retrieval] [sepin]
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nonneg import metrics

N_SAMPLES, N_FEATURES, N_PAIRS = 10_000, 2_048, 5_000
TEMPERATURE = 0.2


def consistency(*, repeats: int = 15) -> dict[str, float]:
    """Class consistency as a multiple of the time that one normalising pass over Z takes."""
    Z = _features(N_SAMPLES, share_on=0.05)
    ratios = {}
    for n_classes in (10, 100, 1000):
        y = torch.randint(n_classes, (N_SAMPLES,), generator=torch.Generator().manual_seed(0))
        taken, reference = _interleaved(
            lambda y=y: metrics.class_consistency(Z, y), lambda: F.normalize(Z), repeats=repeats
        )
        ratios[f"{n_classes} classes"] = taken / reference
    y = torch.arange(N_SAMPLES) % 10
    settings: dict[str, Any] = {"n_permutations": 100, "n_bootstrap": 200, "random_state": 0}
    taken, reference = _interleaved(
        lambda: metrics.class_consistency(Z, y, **settings), lambda: F.normalize(Z), repeats=3
    )
    ratios["10 classes, with null and interval"] = taken / reference
    return ratios


def retrieval(*, repeats: int = 3) -> dict[str, float]:
    """The share of the machine's matrix-multiply rate that precision@10 reaches."""
    y = torch.arange(N_SAMPLES) % 10
    shares = {}
    for name, share_on in (("5 % on", 0.05), ("dense", 1.0)):
        Z = _features(N_SAMPLES, share_on=share_on)
        quarter = Z[: N_SAMPLES // 4]
        taken, reference = _interleaved(
            lambda Z=Z: metrics.precision_at_k(Z, y, k=10),
            lambda Z=Z, quarter=quarter: quarter @ Z.T,
            repeats=repeats,
        )
        shares[name] = 4 * reference / taken
    return shares


def sepin(*, repeats: int = 3) -> dict[str, float]:
    """How many times faster SEPIN is than computing the loss anew without each feature.

    The loss takes the same time whichever feature is dropped, so it is measured for one.
    """
    factors = {}
    for name, share_on in (("95 % zero", 0.05), ("dense", 1.0)):
        Z = _features(N_PAIRS, share_on=share_on)
        noise = 0.2 * _features(N_PAIRS, share_on=1.0, seed=1)
        views = F.normalize(Z), F.normalize(Z + noise * (Z > 0))
        taken, reference = _interleaved(
            lambda views=views: metrics.sepin(*views, temperature=TEMPERATURE),
            lambda views=views: _loss_without(*views, 0),
            repeats=repeats,
        )
        factors[name] = N_FEATURES * reference / taken
    return factors


def measure(*names: str) -> dict[str, dict[str, float]]:
    """The ratios of the named benchmarks, or of all."""
    return {name: BENCHMARKS[name]() for name in names or BENCHMARKS}


def _features(n: int, *, share_on: float, seed: int = 0) -> Tensor:
    """Non-negative features ``(n, N_FEATURES)`` of which a share is on."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(n, N_FEATURES, generator=generator)
    return values * (torch.rand(n, N_FEATURES, generator=generator) < share_on)


def _loss_without(a: Tensor, b: Tensor, feature: int) -> Tensor:
    """NT-Xent of unit rows of which one feature has been dropped."""
    rows = torch.cat([a, b])
    rows[:, feature] = 0
    logits = (rows @ rows.T).div_(TEMPERATURE).fill_diagonal_(-torch.inf)
    positive = torch.arange(2 * len(a)).roll(len(a))
    return F.cross_entropy(logits, positive)


def _interleaved(
    ours: Callable[[], object], reference: Callable[[], object], *, repeats: int
) -> tuple[float, float]:
    """The least seconds of both."""
    pairs = [(_seconds(ours), _seconds(reference)) for _ in range(repeats)]
    return min(ours for ours, _ in pairs), min(reference for _, reference in pairs)


def _seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


BENCHMARKS: dict[str, Callable[[], dict[str, float]]] = {
    "consistency": consistency,
    "retrieval": retrieval,
    "sepin": sepin,
}
MEANINGS = {
    "consistency": "times a normalising pass over Z (wanted: at most 4, without null and interval)",
    "retrieval": "share of the machine's matrix-multiply rate (wanted: at least 0.5)",
    "sepin": "times as fast as one loss a feature (wanted: 500 if 95 % zero, 100 if dense)",
}


def main() -> None:
    """Print what was measured."""
    print(f"{N_SAMPLES} × {N_FEATURES} features, {torch.get_num_threads()} threads")
    for name, ratios in measure(*sys.argv[1:]).items():
        print(f"{name}: {MEANINGS[name]}")
        for case, ratio in ratios.items():
            print(f"  {case:36s} {ratio:8.2f}")


if __name__ == "__main__":
    main()
