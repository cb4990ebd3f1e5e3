"""How are vectors that exist read? As directions: centred, on fixed axes, each of one length."""

import math

import torch
from torch import Tensor, nn

# Powers of two beyond these are no float32.
_EXPONENTS = (-120, 120)


class Projection(nn.Module):
    """Vectors as directions: centred, on fixed axes, each scaled to the same length.

    The length is the square root of the number of axes, so that entries are of size 1. Nothing of
    it is learnt by gradients: :class:`nonneg.NCL` sets centre and axes, and they are kept with the
    weights.

    Args:
        in_features: Columns of the vectors.
        hidden_size: Number of axes.

    Example:
        >>> projection = Projection(3, 2)
        >>> _ = projection.axes.copy_(torch.eye(3)[:, :2])
        >>> projection(torch.tensor([[5.0, 0.0, 7.0]]))
        tensor([[1.4142, 0.0000]])
    """

    def __init__(self, in_features: int, hidden_size: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.hidden_size = hidden_size
        self.center: Tensor
        self.axes: Tensor
        self.register_buffer("center", torch.zeros(in_features))
        self.register_buffer("axes", torch.zeros(in_features, hidden_size))

    def forward(self, vectors: Tensor) -> Tensor:
        """Hidden vectors ``(n, hidden_size)`` of vectors ``(n, in_features)``.

        A vector that equals the centre has no direction and gives zeros.
        """
        placed = (vectors - self.center) @ self.axes  # (n, hidden_size)
        # Scaled by a power of two, which rounds nothing, squares neither overflow nor vanish.
        _, exponent = torch.frexp(placed.abs().amax(dim=1, keepdim=True))
        scaled = torch.ldexp(placed, -exponent.clamp(*_EXPONENTS))
        lengths = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
        unit: Tensor = scaled / lengths.where(lengths > 0, 1)
        return unit * math.sqrt(self.hidden_size)
