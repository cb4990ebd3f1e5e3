"""What commands share: checks of output files, and names of figures."""

import re
from collections.abc import Iterable
from pathlib import Path


def check_output(out: Path, ending: str, *, read: Iterable[str | Path | None]) -> None:
    """Raise a sentence for a file that must not be written, before any work is done.

    Args:
        out: Where the command is told to write.
        ending: Of the files that it writes, such as ``.npz``.
        read: What the command reads: names or paths, of which some may not be there.
    """
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; name a file in it, such as {out / 'a'}{ending}")
    if out.suffix != ending:
        raise ValueError(f"--out {out} would be a {ending} file; let its name end in {ending}")
    if out.exists() and any(path and Path(path).exists() and out.samefile(path) for path in read):
        raise ValueError(f"--out {out} is read by this command; give another name to write to")


def figure_name(key: str) -> str:
    """The name of a figure for a reader.

    Example:
        >>> figure_name("class_consistency_min20"), figure_name("sparsity")
        ('class consistency (≥ 20 active)', 'sparsity')
    """
    if key == "class_consistency":
        return "class consistency (all alive)"
    return re.sub(r"^class_consistency_min(\d+)$", r"class consistency (≥ \1 active)", key)
