"""The non-negative transform: the one switch that sets NCL apart from CL."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nonneg.rows import unit_rows


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
    """The last layer of an encoder: ``features = transform(scores)``, thinned on request.

    Thinning sets the weak entries of a row to zero, which then get no gradient; those that are
    kept stay as they are. Signed features are ranked by absolute value.

    Args:
        kind: A key of ``TRANSFORMS``. ``relu`` gives exact zeros; ``rep_relu`` gives the same
            values and revives units near zero; ``identity`` switches NCL off.
        threshold: Entries up to this share of the length of their row become 0; None keeps all.
        max_active: The most entries per row that are kept, the largest; None keeps all.

    Example:
        >>> NonNegative("relu")(torch.tensor([-2.0, 3.0]))
        tensor([0., 3.])
        >>> NonNegative("relu", threshold=0.7)(torch.tensor([[3.0, 4.0, -5.0]]))
        tensor([[0., 4., 0.]])
        >>> NonNegative("identity").is_nonnegative
        False
    """

    def __init__(
        self, kind: str = "relu", *, threshold: float | None = None, max_active: int | None = None
    ) -> None:
        super().__init__()
        if kind not in TRANSFORMS:
            raise ValueError(f"unknown transform {kind!r}; known: {', '.join(TRANSFORMS)}")
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"threshold is a share of a row's length, in [0, 1], got {threshold}")
        if max_active is not None and max_active < 1:
            raise ValueError(f"max_active must be at least 1, got {max_active}")
        self.kind, self.threshold, self.max_active = kind, threshold, max_active

    @property
    def is_nonnegative(self) -> bool:
        """Whether every value this layer can give is at least zero."""
        return TRANSFORMS[self.kind].is_nonnegative

    @property
    def gives_zeros(self) -> bool:
        """Whether a feature is exactly zero where its score is not above zero."""
        return TRANSFORMS[self.kind].gives_zeros

    def forward(self, scores: Tensor, *, off: Sequence[int] = ()) -> Tensor:
        """Features of the same shape as the scores; rows lie along the last dimension.

        Args:
            scores: Any shape.
            off: Numbers of features that are zero, and do not count where others are thinned.
        """
        features = TRANSFORMS[self.kind].function(scores)
        if off:
            features = features.index_fill(-1, torch.tensor(off, device=scores.device), 0)
        if self.threshold:
            features = features * _above(features.detach(), self.threshold)
        if self.max_active is not None and self.max_active < features.shape[-1]:
            largest = features.detach().abs().topk(self.max_active, dim=-1).indices
            kept = features.gather(-1, largest)
            features = torch.zeros_like(features).scatter(-1, largest, kept)
        return features

    def extra_repr(self) -> str:
        """The kind and the thinning, for printing."""
        limits = {"threshold": self.threshold, "max_active": self.max_active}
        told = [f"{name}={value:g}" for name, value in limits.items() if value is not None]
        return ", ".join([repr(self.kind), *told])


def _above(features: Tensor, threshold: float) -> Tensor:
    """Which entries are larger than a share of the length of their row, bool."""
    rows = features.flatten(end_dim=-2) if features.ndim > 1 else features[None]
    rows = rows.float() if rows.itemsize < 4 else rows  # squares overflow float16
    return (unit_rows(rows).abs() > threshold).view_as(features)
