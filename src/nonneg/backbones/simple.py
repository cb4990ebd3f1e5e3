"""Backbones without convolutions: a perceptron, fixed axes, or any frozen module."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from nonneg.inference import evaluation_mode
from nonneg.rows import unit_rows

# What modules raise when they are given a batch that they were not made for.
_REFUSALS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def hidden_size(module: nn.Module, sample_shape: Sequence[int]) -> int:
    """The width h of a module that maps a batch ``(n, *sample_shape)`` to ``(n, h)``.

    Runs the module once on zeros in evaluation mode, without gradient. Modes, buffers and the
    state of torch's random number generator are afterwards what they were before.

    Args:
        module: Any module that takes one tensor.
        sample_shape: Of one sample, ``(c, h, w)`` or ``(d,)``.

    Raises:
        ValueError: When the module does not take such a batch, or gives anything but ``(n, h)``.

    Example:
        >>> hidden_size(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), (3, 2, 2))
        5
    """
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(0))
    zeros = torch.zeros(2, *sample_shape, dtype=like.dtype, device=like.device)
    return trial_width(module, zeros, f"a batch of shape {tuple(zeros.shape)}")


def trial_width(module: nn.Module, inputs: object, called: str) -> int:
    """The width h of a module's output ``(n, h)`` for one batch; nothing in the module changes.

    Args:
        module: Maps a batch to ``(n, h)``.
        inputs: The batch.
        called: What to call the batch in errors.
    """
    copies = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), evaluation_mode(module):
            output = functional_call(module, copies, (inputs,))
    except _REFUSALS as error:
        raise ValueError(f"{type(module).__name__} cannot read {called}: {error}") from error
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if not isinstance(output, Tensor) or output.ndim != 2:
        raise ValueError(
            f"{type(module).__name__} turns {called} into {shape}, but a backbone has to give "
            "(n, h); add pooling or nn.Flatten() behind it"
        )
    return output.shape[1]


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
    """The samples themselves as hidden vectors: for a head on existing embeddings.

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


class Projection(nn.Module):
    """Vectors as directions: centred, on fixed axes, each scaled to the same length.

    The length is the square root of the number of axes, so that entries are of size 1; then each
    axis may be stretched. Nothing of it is learnt by gradients: :class:`nonneg.NCL` sets centre,
    axes and stretch, and they are kept with the weights.

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
        self.stretch: Tensor
        self.register_buffer("center", torch.zeros(in_features))
        self.register_buffer("axes", torch.zeros(in_features, hidden_size))
        self.register_buffer("stretch", torch.ones(hidden_size))

    def forward(self, vectors: Tensor) -> Tensor:
        """Hidden vectors ``(n, hidden_size)`` of vectors ``(n, in_features)``.

        A vector that equals the centre has no direction and gives zeros.
        """
        placed = (vectors - self.center) @ self.axes  # (n, hidden_size)
        return unit_rows(placed).to(placed.dtype) * (self.stretch * math.sqrt(self.hidden_size))

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        *others: Any,  # noqa: ANN401
    ) -> None:
        # Version 0.1 stretched no axis.
        state_dict.setdefault(f"{prefix}stretch", torch.ones_like(self.stretch))
        super()._load_from_state_dict(state_dict, prefix, *others)


class Frozen(nn.Module):
    """A module that never learns: only the layers on top of it do.

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
