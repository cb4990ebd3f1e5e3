"""What ``transform`` gives: features by tiles, dense or sparse, and how many are on."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from nonneg.encoder import Encoder
from nonneg.estimators.vectors import tiles
from nonneg.inference import evaluation_mode
from nonneg.metrics.activity import ACTIVE_THRESHOLD
from nonneg.metrics.results import FloatArray
from nonneg.rows import unit_rows


def active_per_sample(features: Tensor) -> float:
    """The mean number of active features a sample, of features ``(n, d)``.

    Example:
        >>> active_per_sample(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        1.5
    """
    return float((unit_rows(features).abs() > ACTIVE_THRESHOLD).sum(dim=1).double().mean())


@torch.no_grad()
def raise_bias(
    last: nn.Linear, scores: Tensor, target_active: float, *, share: float = 1.0
) -> float:
    """Raise all biases by one number, towards the target, if too few scores are above zero.

    Args:
        last: The layer that makes the scores; its bias changes in place.
        scores: Of samples like those to come, ``(n, d)``.
        target_active: Mean number of scores above zero a sample.
        share: How much of the way to go, up to 1.

    Returns:
        What was added to every bias: 0 where enough are on already.

    Example:
        >>> layer, scores = nn.Linear(1, 3), torch.tensor([[1.0, -2.0, -4.0]])
        >>> raise_bias(layer, scores, target_active=2)
        3.0
    """
    shift = share * max(0.0, -_border(scores, target_active))
    last.bias.add_(shift)
    return shift


def row_threshold(features: Tensor, target_active: float) -> float:
    """The size, in rows scaled to length 1, above which the target's number of entries lies.

    Dropping by one bias for all would empty the rows of weak samples; relative to the length of
    the row, each sample keeps its strongest.

    Args:
        features: Of samples like those to come, non-negative ``(n, d)``.
        target_active: Mean number of entries a sample to keep.

    Returns:
        0 where no more are on than that.

    Example:
        >>> round(row_threshold(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), target_active=1), 6)
        0.7
    """
    return max(0.0, _border(unit_rows(features), target_active))


def above_threshold(features: Tensor, threshold: float) -> Tensor:
    """Features ``(n, d)`` with zeros for entries below a share of the length of their row.

    Example:
        >>> above_threshold(torch.tensor([[3.0, 4.0]]), 0.7)
        tensor([[0., 4.]])
    """
    return features * (unit_rows(features) > threshold)


def _border(values: Tensor, per_row: float) -> float:
    """Halfway between the last value that belongs to the largest ones and the next."""
    flat: FloatArray = values.flatten().cpu().numpy()
    n_kept = max(1, min(round(per_row * len(values)), len(flat) - 1))
    places = (len(flat) - n_kept - 1, len(flat) - n_kept)
    ordered = np.partition(flat, places)
    return float(ordered[places[0]] + ordered[places[1]]) / 2


@torch.no_grad()
def features_of(
    encoder: Encoder,
    X: Any,  # noqa: ANN401
    *,
    device: torch.device,
    threshold: float = 0.0,
    max_active: int | None = None,
    sparse_output: bool = False,
) -> NDArray[np.float32] | sparse.csr_array:
    """The features of vectors, float32 ``(n, n_features)``.

    Args:
        encoder: On the CPU; it works on ``device`` in evaluation mode, and both are put back.
        X: ``(n, d)``, an array, a memory map or SciPy CSR.
        device: Where to compute.
        threshold: See :func:`above_threshold`; 0 drops nothing.
        max_active: See :func:`kept_largest`.
        sparse_output: Whether to give a CSR array; the dense matrix is then never held whole.
    """
    n_features = encoder.n_features
    parts: list[sparse.csr_array] = []
    dense = np.empty((0 if sparse_output else X.shape[0], n_features), dtype=np.float32)
    encoder.to(device)
    try:
        with evaluation_mode(encoder):
            for rows, part in tiles(X, width=n_features):
                features = thinned(
                    encoder(part.to(device)).features, threshold=threshold, max_active=max_active
                )
                if sparse_output:
                    parts.append(sparse.csr_array(features.cpu().numpy()))
                else:
                    dense[rows] = features.cpu().numpy()
    finally:
        encoder.cpu()
    return sparse.vstack(parts, format="csr") if sparse_output else dense


def thinned(features: Tensor, *, threshold: float, max_active: int | None) -> Tensor:
    """Features ``(n, d)`` without what a threshold and a limit drop, in this order.

    Args:
        features: Of vectors.
        threshold: See :func:`above_threshold`; 0 drops nothing.
        max_active: See :func:`kept_largest`; None drops nothing.
    """
    if threshold > 0:
        features = above_threshold(features, threshold)
    if max_active is not None and max_active < features.shape[1]:
        features = kept_largest(features, max_active)
    return features


def kept_largest(features: Tensor, k: int) -> Tensor:
    """Features with the k largest of each row as they are and zeros elsewhere, ``(n, d)``.

    Signed features are ranked by their size without sign.

    Example:
        >>> kept_largest(torch.tensor([[3.0, 1.0, 2.0]]), 2)
        tensor([[3., 0., 2.]])
    """
    largest = features.abs().topk(k, dim=1).indices
    return torch.zeros_like(features).scatter_(1, largest, features.gather(1, largest))
