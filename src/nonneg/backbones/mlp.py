"""Which network turns vectors into vectors? A perceptron, or nothing at all."""

from collections.abc import Callable, Sequence
from typing import Literal

from torch import Tensor, nn

VectorNorm = Literal["batch", "layer", "none"]

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "none": lambda _: nn.Identity(),
}


class MLP(nn.Module):
    """Linear, norm and ReLU for each width; samples of any shape are flattened first.

    Args:
        in_features: Numbers in one sample.
        hidden: The width of each layer; the last is ``hidden_size``.
        norm: ``"batch"``, ``"layer"`` (no statistics across samples) or ``"none"``.

    Example:
        Weights and no bias (which batch norm would take away), then scale and shift:

        >>> sum(parameter.numel() for parameter in MLP(10, (4,)).parameters())
        48
    """

    def __init__(
        self, in_features: int, hidden: Sequence[int] = (512, 512), *, norm: VectorNorm = "batch"
    ) -> None:
        super().__init__()
        if norm not in NORMS:
            raise ValueError(f"unknown norm of an MLP {norm!r}; known: {', '.join(NORMS)}")
        if not hidden:
            raise ValueError("an MLP needs at least one width in hidden; use 'identity' for none")
        self.in_features = in_features
        self.hidden_size = hidden[-1]
        layers: list[nn.Module] = []
        for n_in, n_out in zip((in_features, *hidden), hidden, strict=False):
            linear = nn.Linear(n_in, n_out, bias=norm != "batch")
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
            layers += [linear, NORMS[norm](n_out), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, samples: Tensor) -> Tensor:
        """Hidden vectors ``(n, hidden_size)`` ≥ 0 of samples ``(n, ...)``."""
        return self.layers(_flat(samples, self.in_features))  # type: ignore[no-any-return]


class Flatten(nn.Module):
    """The samples themselves as hidden vectors: for a head on embeddings that exist.

    Args:
        in_features: Numbers in one sample; also ``hidden_size``.
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.hidden_size = in_features

    def forward(self, samples: Tensor) -> Tensor:
        """The samples ``(n, ...)`` as ``(n, hidden_size)``."""
        return _flat(samples, self.in_features)


def _flat(samples: Tensor, in_features: int) -> Tensor:
    vectors = samples.flatten(1) if samples.ndim > 1 else samples
    if vectors.ndim != 2 or vectors.shape[1] != in_features:
        raise ValueError(
            f"this backbone needs samples of {in_features} numbers each, "
            f"got a batch of shape {tuple(samples.shape)}"
        )
    return vectors
