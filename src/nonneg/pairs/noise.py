"""Which two views has a vector of which nothing is known? The vector with noise, drawn twice."""

from dataclasses import dataclass

from torch import Tensor

from nonneg.pairs.plan import VIEW_STREAMS
from nonneg.pairs.protocol import Batch


@dataclass(frozen=True)
class NoisePairs:
    """Two copies of each vector, each with its own Gaussian noise.

    The weakest of pairs: neighbours, labels or edges, where there are any, say more.

    Args:
        std: Standard deviation of the noise, in the units of the vectors; 0 adds none.
    """

    std: float

    def __post_init__(self) -> None:
        if not 0 <= self.std < float("inf"):
            raise ValueError(f"std must be a number from 0 on, got {self.std}")

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Two noisy copies of ``batch.inputs``, floats ``(n, d)``."""
        vectors = batch.inputs
        if vectors.ndim != 2:
            raise ValueError(f"vectors must have shape (n, d), got {tuple(vectors.shape)}")
        if not vectors.is_floating_point():
            raise TypeError(f"vectors must be floats, got {vectors.dtype}")
        view_a, view_b = (
            vectors + self.std * batch.draws.normal(vectors.shape[1], stream=stream).to(vectors)
            for stream in VIEW_STREAMS
        )
        return view_a, view_b
