"""How is a head trained on a model that must not change? The model is wrapped, and held still."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn


class Frozen(nn.Module):
    """A module that gives its output and never learns: only what stands on it does.

    Its parameters require no gradient, it stays in evaluation mode whatever ``train()`` is called
    on the parent (so batch norm keeps its statistics), and it runs without building a graph. In a
    state dict its names begin with ``frozen.``.

    Args:
        module: Maps a batch to ``(n, h)``. Its own parameters are changed to require no gradient.

    Example:
        >>> still = Frozen(nn.BatchNorm1d(4)).train()
        >>> still.training, still.frozen.training, still(torch.ones(2, 4)).requires_grad
        (True, False, False)
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.frozen = module.requires_grad_(False).eval()

    @property
    def hidden_size(self) -> int:
        """The wrapped module's own; a module that does not say it raises ``TypeError``."""
        size: Any = getattr(self.frozen, "hidden_size", None)
        if not isinstance(size, int):
            raise TypeError(
                f"{type(self.frozen).__name__} does not say its hidden_size; "
                "use nonneg.backbones.hidden_size(module, sample_shape)"
            )
        return size

    def train(self, mode: bool = True) -> Self:
        """Set the mode of this wrapper; the module inside stays in evaluation mode."""
        super().train(mode)
        self.frozen.eval()
        return self

    @torch.no_grad()
    def forward(self, inputs: Tensor | Mapping[str, Tensor]) -> Tensor:
        """The module's output ``(n, h)``, without gradient."""
        return self.frozen(inputs)  # type: ignore[no-any-return]
