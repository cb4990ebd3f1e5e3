"""What does ``transform`` give? Features tile by tile, dense or sparse, the largest kept."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from nonneg.encoder import Encoder
from nonneg.estimators.steering import above_threshold
from nonneg.estimators.vectors import tiles
from nonneg.inference import evaluation_mode


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
