"""The non-negative transform: the one switch that sets NCL apart from CL."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def straight_through_relu(scores: Tensor) -> Tensor:
    """Rectified scores whose gradient is GELU's instead of ReLU's.

    ReLU passes no gradient below zero, so a unit that is off for every sample cannot learn. GELU
    passes some down to about -0.75; the value that the loss sees is ``max(scores, 0)`` exactly.

    Args:
        scores: Any shape.

    Example:
        >>> scores = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
        >>> straight_through_relu(scores).tolist()
        [0.0, 0.0, 2.0]
    """
    # Not gelu + (relu - gelu).detach(): its rounding leaves 1e-8 where a zero must be exact.
    return _StraightThroughReLU.apply(scores)  # type: ignore[no-any-return, no-untyped-call]


class _StraightThroughReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(scores)
        return scores.clamp_min(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        (scores,) = ctx.saved_tensors
        return torch.ops.aten.gelu_backward(gradient, scores)  # type: ignore[no-any-return]


class Transform(NamedTuple):
    """A function of the scores, and what its values can be."""

    function: Callable[[Tensor], Tensor]
    is_nonnegative: bool
    gives_zeros: bool = False
    """Whether all scores up to zero become exactly zero."""


TRANSFORMS = {
    "relu": Transform(F.relu, is_nonnegative=True, gives_zeros=True),
    "rep_relu": Transform(straight_through_relu, is_nonnegative=True, gives_zeros=True),
    "softplus": Transform(F.softplus, is_nonnegative=True),
    "sigmoid": Transform(torch.sigmoid, is_nonnegative=True),
    "exp": Transform(torch.exp, is_nonnegative=True),
    # The signed controls: identity is ordinary contrastive learning.
    "identity": Transform(lambda scores: scores, is_nonnegative=False),
    "gelu": Transform(F.gelu, is_nonnegative=False),
    "leaky_relu": Transform(F.leaky_relu, is_nonnegative=False),
}


class NonNegative(nn.Module):
    """The last layer of an encoder: ``features = transform(scores)``.

    Args:
        kind: A key of ``TRANSFORMS``. ``relu`` gives exact zeros; ``rep_relu`` gives the same
            values and revives units near zero; ``identity`` switches NCL off.

    Example:
        >>> NonNegative("relu")(torch.tensor([-2.0, 3.0]))
        tensor([0., 3.])
        >>> NonNegative("identity").is_nonnegative
        False
    """

    def __init__(self, kind: str = "relu") -> None:
        super().__init__()
        if kind not in TRANSFORMS:
            raise ValueError(f"unknown transform {kind!r}; known: {', '.join(TRANSFORMS)}")
        self.kind = kind

    @property
    def is_nonnegative(self) -> bool:
        """Whether every value this layer can give is at least zero."""
        return TRANSFORMS[self.kind].is_nonnegative

    @property
    def gives_zeros(self) -> bool:
        """Whether a feature is exactly zero where its score is not above zero."""
        return TRANSFORMS[self.kind].gives_zeros

    def forward(self, scores: Tensor) -> Tensor:
        """Features of the same shape as the scores."""
        return TRANSFORMS[self.kind].function(scores)

    def extra_repr(self) -> str:
        """The kind, for printing."""
        return repr(self.kind)
