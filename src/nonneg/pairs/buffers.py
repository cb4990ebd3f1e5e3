"""Where do intermediate results go? On a CPU, into memory that is kept from call to call."""

import math
import threading

import torch
from torch import Tensor


class Buffers(threading.local):
    """Memory by name, for results that nobody sees; each thread has its own.

    An operating system hands out fresh memory page by page, which takes longer than the
    arithmetic on small images. Other devices have allocators that keep memory by themselves.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, *shape: int, device: torch.device) -> Tensor:
        """Float32 of this shape, with any content; what had this name before is overwritten."""
        if device.type != "cpu":
            return torch.empty(shape, device=device)
        n_numbers = math.prod(shape)
        kept = self._kept.get(name)
        if kept is None or kept.numel() < n_numbers:
            # A tensor made in inference mode could not be written outside of it.
            with torch.inference_mode(False):
                kept = self._kept[name] = torch.empty(n_numbers)
        return kept[:n_numbers].view(shape)
