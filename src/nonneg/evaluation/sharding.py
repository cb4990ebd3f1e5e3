"""How do several processes encode a data set? Each a part of its batches, and all get the whole."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from nonneg.data import Data, subset
from nonneg.encoder import Encoded, Encoder
from nonneg.losses.distributed import has_processes


def encoded_together(
    encoder: Encoder,
    data: Data,
    batch_size: int = 512,
    *,
    after: Callable[[int], None] = lambda _: None,
) -> Encoded:
    """What ``encoder.encode`` gives, computed by all processes; all of them have to call it.

    Batches are cut as one process would cut them, so that the result is the same bit by bit on
    devices of one kind. Without processes it is ``encoder.encode``.

    Args:
        encoder: The same in every process.
        data: The same in every process.
        batch_size: How many samples go through at once.
        after: Told the number of samples of each batch that this process has done.
    """
    if not has_processes():
        return encoder.encode(data, batch_size, after=after)
    batches = torch.arange(len(data)).split(batch_size)
    n_ranks, rank = dist.get_world_size(), dist.get_rank()
    share = -(-len(batches) // n_ranks)
    parts = []
    for owner in range(n_ranks):
        rows = batches[owner * share : (owner + 1) * share]
        indices = torch.cat(rows) if rows else torch.arange(0)
        if not len(indices):
            continue
        part = (
            encoder.encode(subset(data, indices), batch_size, after=after)
            if owner == rank
            else _empty(encoder, len(indices))
        )
        parts.append((owner, part))
    return Encoded(*(torch.cat(column) for column in zip(*map(_shared, parts), strict=True)))


def _empty(encoder: Encoder, n: int) -> Encoded:
    """Room for what another process computes."""
    dtype = next(encoder.projector.parameters()).dtype
    widths = (encoder.hidden_size, encoder.n_features, encoder.n_features)
    return Encoded(*(torch.empty(n, width, dtype=dtype) for width in widths))


def _shared(owned: tuple[int, Encoded]) -> list[Tensor]:
    """The part of its owner, in every process."""
    owner, part = owned
    # NCCL moves what is on the device; what is shared here goes through it and back.
    device = torch.device("cuda") if dist.get_backend() == "nccl" else torch.device("cpu")
    tensors = [column.contiguous().to(device) for column in part]
    for tensor in tensors:
        dist.broadcast(tensor, src=owner)
    return [tensor.cpu() for tensor in tensors]
