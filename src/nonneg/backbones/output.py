"""How wide is the output of a module that one knows nothing about? Try it once and look."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from nonneg.inference import evaluation_mode

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
