"""Where may a command write? To a file of its own kind, never over what it reads."""

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
