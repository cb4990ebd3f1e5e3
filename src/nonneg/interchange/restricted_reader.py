"""Files of ``torch.save``, read without running anything or taking more memory than their size.

torch's restricted reader rebuilds tensors and plain values only. What it still allows is refused
here: archives that unpack to many times their size, and tensors of any shape over one number.
"""

import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nonneg.untrusted import check_regular

_MOST_BYTES = 4 << 30
# Of all but the tensors: the settings, and the state of optimisers.
_MOST_BYTES_BESIDE = 64 << 20
_LONGEST_REASON = 200


def read_restricted(path: Path) -> Any:  # noqa: ANN401
    """What ``torch.save`` wrote: tensors, numbers, texts, and lists and tables of them.

    Raises:
        ValueError: The file is damaged, forged, larger than 4 GB, or holds anything else.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the checkpoint in it")
    check_regular(path)
    _check_archive(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        # A forged file can fail anywhere in the reader.
        named: list[str] = []
        with suppress(Exception):
            named = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        if named:
            raise ValueError(
                f"{path} holds more than weights ({_words(', '.join(sorted(named)[:3]))}), which "
                "may run code when read, and is refused; where you trust it, keep only the "
                "weights: torch.save({'state_dict': weights}, FILE)"
            ) from error
        raise ValueError(
            f"{path} is no checkpoint that can be read safely ({_words(str(error))}); it may be "
            "damaged, or hold more than weights"
        ) from error


def _words(text: str) -> str:
    """What a damaged file made somebody say, fit for one line of a terminal."""
    shown = "".join(c for c in text.strip().partition("\n")[0] if c.isprintable())
    return shown if len(shown) <= _LONGEST_REASON else shown[:_LONGEST_REASON] + "…"


def _check_archive(path: Path) -> None:
    """Raise a sentence for a file that is no plain archive, or would take more than its size."""
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise ValueError(f"{path} has {size / 2**30:.1f} GB; checkpoints of up to 4 GB are read")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile as error:
        raise ValueError(
            f"{path} is no checkpoint of PyTorch 1.6 or later, or was cut short; copy it again, or "
            "write it anew with torch.save"
        ) from error
    beside = sum(entry.file_size for entry in entries if "/data/" not in f"/{entry.filename}")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError(f"{path} is no checkpoint: unpacked it would be larger than the file")
    if beside > _MOST_BYTES_BESIDE:
        raise ValueError(f"{path} holds {beside / 2**20:.0f} MB beside its tensors; 64 are read")


def check_tensors(path: Path, tensors: Mapping[str, object]) -> None:
    """Raise a sentence for what is no tensor, for NaN, and for tensors larger than the file.

    Args:
        path: The file that they are from.
        tensors: By name, as read.
    """
    n_bytes = 0
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.layout is not torch.strided:
            raise ValueError(f"{path}: {name} is no plain tensor; write the checkpoint again")
        if tensor.is_quantized or tensor.device.type != "cpu" or tensor.is_complex():
            raise ValueError(f"{path}: {name} holds no real numbers; write the checkpoint again")
        n_bytes += tensor.numel() * tensor.element_size()
    if n_bytes > path.stat().st_size:  # by strides of zero, for example
        raise ValueError(f"{path} is forged: its tensors are larger than the file")
    for name, tensor in tensors.items():
        assert isinstance(tensor, Tensor)
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{path}: {name} holds NaN or infinite numbers; its training failed")
        if name.endswith("running_var") and (tensor < 0).any():
            raise ValueError(f"{path}: {name} holds negative variances; the file is damaged")
