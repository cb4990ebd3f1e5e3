"""Checks of data sets before training, which name the first thing wrong in one sentence."""

import torch
from torch import Tensor

from nonneg.data.dataset import Data

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_CHUNK = 1 << 22  # numbers looked at in one go: 16 MB of float32


def check(data: Data) -> None:
    """Raise ``ValueError`` for data that cannot be trained on; return nothing otherwise.

    Looks at shapes, types and labels, and reads every number of float data once, in chunks, so
    that a mapped file is never in memory as a whole. Bytes cannot be wrong in value, so folders
    of images and other ``uint8`` data are not read beyond their first sample.

    Example:
        >>> from nonneg.data import ArrayData
        >>> check(ArrayData(torch.tensor([[1.0], [float("nan")]]), name="mine"))
        Traceback (most recent call last):
        ValueError: mine has NaN or Inf in 1 of 2 samples, first in sample 1; repair or drop them
    """
    check_inputs(data.name, (len(data), *data.sample_shape), _type_of_samples(data))
    if data.labels is not None:
        check_labels(data.name, data.labels, len(data), data.class_names)
    _check_values(data)


def check_inputs(called: str, shape: tuple[int, ...], dtype: str) -> None:
    """Raise ``ValueError`` where no data set can have inputs like these.

    Args:
        called: How the sentence names the data: a name or a path.
        shape: Of all inputs together, ``(n, c, h, w)`` or ``(n, d)``.
        dtype: The bare name of their type, ``"uint8"``.
    """
    if shape and shape[0] == 0:
        raise ValueError(f"{called} holds no samples")
    if len(shape) not in (2, 4):
        raise ValueError(
            f"{called} has inputs of shape {shape}; give images (n, c, h, w) or vectors (n, d)"
        )
    if 0 in shape:
        raise ValueError(f"{called} has inputs of shape {shape}: its samples are empty")
    if len(shape) == 2 and dtype not in _FLOATS:
        raise ValueError(f"{called} has vectors of type {dtype}; give them as float32")
    if len(shape) == 4 and dtype not in ("uint8", *_FLOATS):
        raise ValueError(
            f"{called} has images of type {dtype}; give them as uint8 or as float32 in [0, 1]"
        )
    if len(shape) == 4 and shape[1] > 4 and shape[3] in (1, 3, 4):
        raise ValueError(f"{called} has inputs of shape {shape}, channels last; give (n, c, h, w)")


def check_labels(
    called: str, labels: Tensor, n_samples: int, class_names: tuple[str, ...] = ()
) -> None:
    """Raise ``ValueError`` unless labels are class numbers, int64 ``(n_samples,)``."""
    if labels.shape != (n_samples,):
        raise ValueError(
            f"{called} has labels of shape {tuple(labels.shape)} for {n_samples} samples;"
            f" give one per sample, ({n_samples},)"
        )
    if labels.dtype != torch.int64:
        raise ValueError(f"{called} has labels of type {_bare(labels.dtype)}; give int64")
    smallest, largest = int(labels.min()), int(labels.max())
    if smallest < 0:
        raise ValueError(f"{called} has the label {smallest}; labels count from 0")
    if class_names and largest >= len(class_names):
        raise ValueError(
            f"{called} has the label {largest} but names only for classes 0 to"
            f" {len(class_names) - 1}"
        )


def _type_of_samples(data: Data) -> str:
    """The type that ``fetch`` gives; an error where its shape is not the promised one."""
    if len(data) == 0:
        return "nothing"
    first = data.fetch(torch.tensor([0]))
    if first.shape != (1, *data.sample_shape):
        raise ValueError(
            f"{data.name} says its samples have shape {data.sample_shape}, but fetching one gave"
            f" {tuple(first.shape)}; fetch must give (1, *sample_shape)"
        )
    return _bare(first.dtype)


def _check_values(data: Data) -> None:
    """Raise for numbers that are not finite, and for float images outside [0, 1]."""
    if not data.fetch(torch.tensor([0])).is_floating_point():
        return
    n_broken, first_broken = 0, -1
    smallest, largest = float("inf"), float("-inf")
    step = max(1, _CHUNK // torch.Size(data.sample_shape).numel())
    for start in range(0, len(data), step):
        chunk = data.fetch(torch.arange(start, min(start + step, len(data)))).flatten(1)
        broken = ~torch.isfinite(chunk).all(dim=1)
        if broken.any():
            first_broken = start + int(broken.nonzero()[0]) if n_broken == 0 else first_broken
            n_broken += int(broken.sum())
        smallest = min(smallest, float(chunk.min()))
        largest = max(largest, float(chunk.max()))
    if n_broken:
        raise ValueError(
            f"{data.name} has NaN or Inf in {n_broken} of {len(data)} samples, first in sample"
            f" {first_broken}; repair or drop them"
        )
    if len(data.sample_shape) == 3 and not (smallest >= 0 and largest <= 1):
        raise ValueError(
            f"{data.name} has float images with values from {smallest:.4g} to {largest:.4g};"
            " scale them to [0, 1] or give them as uint8"
        )


def _bare(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
