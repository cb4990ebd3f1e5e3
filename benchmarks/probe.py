"""The speed of the linear probe: the whole protocol beside one pass, and beside scikit-learn.

A pass is what any full-batch solver must do again and again: the samples times the weights, and
the residuals times the samples. Runs are interleaved, and the fastest of each is taken.

    python -m benchmarks.probe [rows] [columns] [classes] [zero rate]
"""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from nonneg.evaluation.probe.linear import LinearProbe, fitted_probe

Result = TypeVar("Result")
N_SAMPLES = 50_000
CASES = {
    "512 columns, 10 classes": (512, 10, 0.5),
    "512 columns, 10 classes, 95 % zero": (512, 10, 0.95),
    "512 columns, 100 classes": (512, 100, 0.5),
    "2,048 columns, 10 classes": (2048, 10, 0.5),
    "2,048 columns, 10 classes, 95 % zero": (2048, 10, 0.95),
}
MEANINGS = {
    "passes": "the whole protocol, in passes over dense samples",
    "scikit-learn": "one fit of scikit-learn's at the chosen penalty, in times the whole protocol",
}


def measure(*, n: int = N_SAMPLES, repeats: int = 1) -> dict[str, dict[str, float]]:
    """The ratios of :data:`MEANINGS` for every case."""
    return {name: measure_case(n, *case, repeats=repeats) for name, case in CASES.items()}


def measure_case(
    n: int, d: int, n_classes: int, zero_rate: float, *, repeats: int = 1
) -> dict[str, float]:
    """The ratios, and the seconds of the protocol, for samples of one shape."""
    X, y = samples(n, d, n_classes, zero_rate)
    scaled = (X - X.mean(0)) / X.std(0).clamp(min=1e-6)
    ours, passes, theirs = [], [], []
    for _ in range(repeats):
        seconds, probe = _seconds(lambda: fitted_probe(X, y))
        ours.append(seconds)
        passes.append(min(_seconds(lambda: _pass(scaled, n_classes))[0] for _ in range(5)))
        theirs.append(_seconds(lambda probe=probe: _rival(scaled, y, probe))[0])
    return {
        "passes": min(ours) / min(passes),
        "scikit-learn": min(theirs) / min(ours),
        "seconds": min(ours),
    }


def samples(n: int, d: int, n_classes: int, zero_rate: float) -> tuple[Tensor, Tensor]:
    """Rectified mixtures of 256 latent directions, of which 64 hold overlapping classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(n_classes, (n,), generator=generator)
    latent = 3 * torch.randn(n, 256, generator=generator) * torch.arange(1, 257) ** -0.5
    latent[:, :64] += 0.25 * torch.randn(n_classes, 64, generator=generator)[y]
    mixing = torch.randn(256, d, generator=generator) / 4
    X = latent.tanh_() @ mixing
    X += 0.3 * torch.randn(n, d, generator=generator)
    X /= X.std(0)
    threshold = X[:1000].flatten().kthvalue(int(zero_rate * 1000 * d)).values
    return (X - threshold).clamp_(min=0), y


def _pass(X: Tensor, n_classes: int) -> Tensor:
    logits = X @ torch.zeros(n_classes, X.shape[1]).T
    return logits.T @ X


def _rival(X: Tensor, y: Tensor, probe: LinearProbe) -> LogisticRegression:
    C = 1 / (probe.penalty * len(X))
    return LogisticRegression(C=C, max_iter=1000).fit(X.numpy(), y.numpy())


def _seconds(function: Callable[[], Result]) -> tuple[float, Result]:
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def main() -> None:
    """Print what was measured."""
    print(f"{torch.get_num_threads()} threads")
    if len(sys.argv) == 5:
        n, d, n_classes = map(int, sys.argv[1:4])
        print(measure_case(n, d, n_classes, float(sys.argv[4])))
        return
    for case, ratios in measure().items():
        print(f"{N_SAMPLES:,} × {case}: {ratios['seconds']:.1f} s")
        for name, meaning in MEANINGS.items():
            print(f"  {ratios[name]:8.1f}  {meaning}")


if __name__ == "__main__":
    main()
