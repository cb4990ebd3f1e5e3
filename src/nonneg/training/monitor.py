"""The monitor of a run: figures of held-out samples after each epoch, and signs of collapse."""

import math
from typing import Any

import torch
from torch import Tensor

from nonneg import metrics
from nonneg.data.dataset import Data
from nonneg.losses.info_nce import info_nce_bounds
from nonneg.training.settings import TrainConfig

# A run is called collapsed below these; healthy runs are far above them after their warm-up.
MIN_PROGRESS = 0.1
MAX_ZERO_ROWS = 0.5
MIN_ALIVE = 0.02


def measurements(features: Tensor, labels: Tensor | None) -> dict[str, Any]:
    """The figures of some features for the history, by the keys of :mod:`nonneg.metrics.figures`.

    Args:
        features: Of held-out samples, ``(n, d)``.
        labels: ``(n,)``; without them there is no class consistency.

    Raises:
        FloatingPointError: If a feature is not a number: training has diverged.
    """
    if not features.isfinite().all():
        raise FloatingPointError("features of held-out samples are not finite")
    sparsity = metrics.sparsity(features)
    record: dict[str, Any] = {
        "alive_features": sparsity.n_alive,
        "sparsity": sparsity.value,
        "zero_row_rate": float((features == 0).all(1).float().mean()),
        "effective_rank": _or_none(float(metrics.effective_rank(features))),
    }
    if labels is not None:
        consistency = float(metrics.class_consistency(features, labels))
        record["class_consistency"] = _or_none(consistency)
    return record


def progress_rate(
    loss: float, *, batch_size: int, is_nonnegative: bool, config: TrainConfig
) -> float | None:
    """Where the loss stands between its ceiling (0: nothing learnt) and its floor (1).

    For InfoNCE as in ``info_nce_bounds``; the spectral loss is 0 for all-zero features and cannot
    fall below minus the number of features, which says little: there any fall counts as progress.
    None for losses whose ends are not known.

    Example:
        >>> rate = progress_rate(math.log(511), batch_size=256, is_nonnegative=True,
        ...                      config=TrainConfig())
        >>> round(abs(rate), 6)
        0.0
    """
    if config.loss.name == "spectral":
        return 1.0 if loss < -MIN_PROGRESS else 0.0
    # A queue of k keys is as k + 1 pairs compared across: k negatives each.
    sizes = {"info_nce": (batch_size, "both"), "queue": (config.loss.queue_size + 1, "cross")}
    if config.loss.name not in sizes:
        return None
    n_pairs, negatives = sizes[config.loss.name]
    floor, ceiling = info_nce_bounds(
        n_pairs,
        temperature=config.loss.temperature,
        negatives=negatives,
        nonnegative=is_nonnegative,
    )
    return (ceiling - loss) / (ceiling - floor)


def collapse_warning(
    record: dict[str, Any],
    n_features: int,
    *,
    max_on_rate: float = 1.0,
    can_be_normed: bool = False,
) -> str | None:
    """One sentence if an epoch's record shows a collapsed run, None for a healthy one.

    Args:
        record: With ``zero_row_rate`` and ``alive_features``, and ``progress_rate`` if known.
        n_features: Alive and dead together.
        max_on_rate: Of the run; the cap on features may be too low.
        can_be_normed: Whether the projector has inner layers without batch normalisation.
    """
    if record["zero_row_rate"] > MAX_ZERO_ROWS:
        what = f"{record['zero_row_rate']:.0%} of the samples have no active feature"
    elif record["alive_features"] < max(2, MIN_ALIVE * n_features):
        what = f"only {record['alive_features']} of {n_features} features are alive"
    elif record.get("progress_rate", 1.0) < 0:
        what = f"the loss {record['loss']:.3f} is above that of features that are all alike"
    elif record.get("progress_rate", 1.0) < MIN_PROGRESS:
        what = (
            f"the loss {record['loss']:.3f} has come only {record['progress_rate']:.0%} of the way "
            "from its ceiling to its floor"
        )
    else:
        return None
    cures = ["set encoder.projector.norm=batch"] if can_be_normed else []
    cures += ["lower optimizer.lr", "try encoder.nonnegative=rep_relu"]
    if max_on_rate < 1:
        cures.append(f"raise training.max_on_rate ({max_on_rate:g})")
    return f"the run has collapsed: {what}; {', '.join(cures[:-1])}, or {cures[-1]}"


def monitored(data: Data, n_samples: int) -> tuple[Tensor, Tensor | None]:
    """A fixed draw of samples to measure, with their labels; all of them if there are fewer."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    chosen = order[:n_samples].sort().values
    return data.fetch(chosen), None if data.labels is None else data.labels[chosen]


def _or_none(value: float) -> float | None:
    """JSON has no NaN: what could not be measured is null."""
    return value if math.isfinite(value) else None
