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
from nonneg.metrics.results import FloatArray
from nonneg.rows import unit_rows


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
    return min(1.0, max(0.0, _border(unit_rows(features), target_active)))


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
    sparse_output: bool = False,
) -> NDArray[np.float32] | sparse.csr_array:
    """The features of vectors, float32 ``(n, n_features)``.

    Args:
        encoder: On the CPU; it works on ``device`` in evaluation mode, and both are put back.
        X: ``(n, d)``, an array, a memory map or SciPy CSR.
        device: Where to compute.
        sparse_output: Whether to give a CSR array; the dense matrix is then never held whole.
    """
    n_features = encoder.n_features
    parts: list[sparse.csr_array] = []
    dense = np.empty((0 if sparse_output else X.shape[0], n_features), dtype=np.float32)
    encoder.to(device)
    try:
        with evaluation_mode(encoder):
            for rows, part in tiles(X, width=n_features):
                features = encoder(part.to(device)).features.cpu().numpy()
                if sparse_output:
                    parts.append(sparse.csr_array(features))
                else:
                    dense[rows] = features
    finally:
        encoder.cpu()
    return sparse.vstack(parts, format="csr") if sparse_output else dense
