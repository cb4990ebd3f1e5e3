"""Optimisers and the learning-rate schedule."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nonneg.training.settings import OptimizerSettings


def learning_rate_factor(step: int, *, n_warmup: float, n_steps: int) -> float:
    """The share of the peak learning rate at a step, in [0, 1].

    Args:
        step: Counted from 0; the first step already moves.
        n_warmup: Steps of the warm-up.
        n_steps: Steps in all; from there on the share is 0.

    Example:
        >>> [learning_rate_factor(s, n_warmup=2, n_steps=6) for s in (0, 1, 2, 4, 6)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    if step < n_warmup:
        return min(1.0, (step + 1) / n_warmup)
    progress = min(1.0, (step - n_warmup) / (n_steps - n_warmup))
    return 0.5 * (1 + math.cos(math.pi * progress))


def optimizer(model: nn.Module, settings: OptimizerSettings) -> Optimizer:
    """An optimiser of all parameters that learn; biases and norms are not decayed.

    Args:
        model: What learns.
        settings: Which optimiser, with which numbers.
    """
    learning = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in learning if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in learning if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if settings.name == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr)
    if settings.name == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)
    return LARS(groups, lr=settings.lr, momentum=settings.momentum, eta=settings.eta)


class LARS(Optimizer):
    """SGD with momentum whose steps are scaled layer by layer (You et al. 2017, algorithm 1).

    For a weight of two or more dimensions, gradient and decay are multiplied by
    ``min(eta · |w| / (|g| + decay · |w|) / lr, 1)``, so that with the learning rate the step is
    never longer than the trust ratio, and never longer than plain SGD's. Biases and norms (one
    dimension) take plain steps without decay.

    Args:
        params: Parameters or groups of them.
        lr: Peak learning rate.
        momentum: Share of the last step that is kept.
        weight_decay: Pull towards zero.
        eta: Trust coefficient: the length of a step as a share of the length of the weight.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        eta: float = 0.02,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "eta": eta}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)
        return loss

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        direction = gradient.clone()
        if weight.ndim > 1:
            direction.add_(weight, alpha=group["weight_decay"])
            direction.mul_(_trust(weight, gradient, group))
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        velocity = state["momentum_buffer"].mul_(group["momentum"]).add_(direction)
        weight.add_(velocity, alpha=-group["lr"])


def _trust(weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
    """The clipped trust ratio; 1 where weight or gradient is all zero. Stays on the device."""
    length, slope = weight.norm(), gradient.norm()
    ratio = group["eta"] * length / (slope + group["weight_decay"] * length + 1e-8)
    # A learning rate of zero (the last step of the cosine) moves nothing, whatever the ratio.
    clipped = (ratio / max(group["lr"], 1e-12)).clamp(max=1.0)
    return torch.where((length > 0) & (slope > 0), clipped, torch.ones_like(clipped))
