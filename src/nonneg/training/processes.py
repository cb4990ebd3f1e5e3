"""The processes and devices of a run: those of the settings, or those of torchrun."""

import atexit
import os
from typing import TYPE_CHECKING

import torch

from nonneg.training.settings import LoopSettings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launched_fabric(settings: LoopSettings) -> "Fabric":
    """The processes and devices of the settings; under torchrun, those that it has started."""
    # Imported on use: it takes as long as all else together, and most commands do not train.
    from lightning_fabric import Fabric

    devices, n_nodes = settings.devices, 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        n_nodes = int(os.environ["WORLD_SIZE"]) // devices
        _join_this_attempt()
    try:
        fabric = Fabric(
            accelerator=settings.accelerator,
            devices=devices,
            num_nodes=n_nodes,
            strategy=settings.strategy,
            precision=settings.precision,
        )
    except (RuntimeError, ValueError, TypeError, ImportError) as error:
        default = LoopSettings()
        chosen = ", ".join(
            f"training.{key}={getattr(settings, key)}"
            for key in ("accelerator", "devices", "strategy", "precision")
            if getattr(settings, key) != getattr(default, key)
        )
        raise ValueError(
            f"this machine cannot train with {chosen or 'the default settings'} ({error}); "
            "set training.accelerator=cpu, or change what is named here"
        ) from error
    fabric.launch()
    return fabric


def _join_this_attempt() -> None:
    """Join the other processes of this start, not the remains of a killed one.

    torchrun's store outlives a restart, and gloo would find addresses of the dead in it. Fabric
    takes over a group that is already there. On GPUs NCCL is left to Fabric.
    """
    if torch.distributed.is_initialized() or torch.cuda.is_available():
        return
    world_size = int(os.environ["WORLD_SIZE"])
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

    store = TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size, is_master=False
    )
    attempt = PrefixStore(f"attempt-{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    torch.distributed.init_process_group(
        "gloo", store=attempt, rank=int(os.environ["RANK"]), world_size=world_size
    )
    # Whoever makes a group ends it: gloo's threads can abort a process that leaves without.
    atexit.register(_leave)


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
