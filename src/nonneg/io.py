"""Files on disk: written whole or not at all, and read with an error that names the remedy."""

import ctypes
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from nonneg.untrusted import check_regular, json_value, read_regular

if sys.platform != "win32":
    import fcntl

_PART, _OLD = ".part", ".old"
# Where a file system has no locks, a file that nobody has written to for so long is left over.
_OLD_SECONDS = 600


def check_output(out: Path, ending: str, *, read: Iterable[str | Path | None]) -> None:
    """Raise ``ValueError`` for a file that must not be written, before any work is done.

    Args:
        out: Where the result is to go.
        ending: Of files of its kind, such as ``.npz``.
        read: What the result is made from: names or paths, some of which may not exist.
    """
    if out.is_dir():
        raise ValueError(f"{out} is a folder; name a file in it, such as {out / 'a'}{ending}")
    if out.suffix != ending:
        raise ValueError(f"{out} would be a {ending} file; let its name end in {ending}")
    if out.exists() and any(path and Path(path).exists() and out.samefile(path) for path in read):
        raise ValueError(f"{out} is what the result is made from; give another name to write to")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file at once, whole or not at all; raises as :func:`replaced` does."""
    with replaced(path) as file:
        file.write(content)


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its place when the block ends: old or new, never half.

    It has a temporary name until then; file and folder are synced. If the block fails, nothing
    changes. What killed writers of the same file have left is removed first.

    Raises:
        OSError: With the path in it, when the folder cannot be written or the disk is full; what
            was at ``path`` before is still there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(path.parent, path.name)
        handle, temporary = _own_part(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # as long as it is locked, no other writer removes it
                _take_place(temporary, path)
        if sys.platform == "win32":  # where an open file cannot be renamed
            _take_place(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise _cannot_write(path, error) from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _take_place(temporary: str, path: Path) -> None:
    Path(temporary).chmod(0o666 & ~_umask())
    Path(temporary).replace(path)


def clear_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove temporary files and folders of writers that were killed; those of living ones stay.

    Args:
        folder: Need not be there.
        name: Of what they were to become; None for any.
    """
    wanted = re.escape(name) if name else ".+"
    form = re.compile(rf"\.{wanted}\.[a-z0-9_]{{8}}{re.escape(_PART)}")
    with suppress(OSError):  # whoever writes will say what is wrong with the folder
        for entry in os.scandir(folder):
            if form.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_left(entry.path)


def _own_part(path: Path) -> tuple[int, str]:
    """A new temporary file beside the path, locked as long as its handle is open."""
    while True:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PART)
        if _is_locked(handle, temporary):
            return handle, temporary


def _own_folder(path: Path) -> tuple[int | None, Path]:
    """A new temporary folder beside the path, locked as long as its handle is open."""
    while True:
        made = tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PART)
        if sys.platform == "win32":  # where a folder cannot be opened
            return None, Path(made)
        with suppress(FileNotFoundError):
            handle = os.open(made, os.O_RDONLY)
            if _is_locked(handle, made):
                return handle, Path(made)


def _is_locked(handle: int, temporary: str) -> bool:
    """Lock what was just made; False, with the handle closed, if it is gone."""
    if sys.platform != "win32":
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
    # Another writer may have taken it for left over, in the moment before it was locked.
    if os.path.exists(temporary):  # noqa: PTH110
        return True
    os.close(handle)
    return False


def _remove_if_left(path: str) -> None:
    if sys.platform == "win32":
        if not Path(path).is_dir():
            Path(path).unlink()  # refused while it is open
        elif _is_old(Path(path)):
            shutil.rmtree(path)
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except OSError:
            if not _is_old(Path(path)):
                return
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink()
    finally:
        os.close(handle)


def _is_old(path: Path) -> bool:
    """Whether nobody has written to a file, or to anything in a folder, for long."""
    written = max(part.lstat().st_mtime for part in (path, *path.rglob("*")))
    return time.time() - written >= _OLD_SECONDS


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes its place when the block ends: old or new, never half.

    It lies beside ``path`` under a hidden name until then; all files are synced. If the block
    fails, it is removed and nothing changes. What killed writers of the same folder have left is
    removed first. Of a link the folder that it leads to is replaced, and the link stays.

    Raises:
        OSError: With the path in it, when it cannot be written or the disk is full; errors of files
            elsewhere, such as those that are read meanwhile, are raised as they are.
    """
    try:
        path = path.resolve() if path.is_symlink() else path
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(path.parent, path.name)
        _settle(path)
        handle, beside = _own_folder(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        yield beside
        for file in (*beside.rglob("*"), beside):
            _sync_folder(file)
        beside.chmod(0o777 & ~_umask())
        _swap(beside, path)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        is_ours = error.filename is None or Path(error.filename).is_relative_to(beside)
        if error.errno is None or not is_ours:
            raise
        raise _cannot_write(path, error) from error
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)
    _sync_folder(path.parent)


def _swap(new: Path, path: Path) -> None:
    """Put a folder in the place of another, which is removed when that is done."""
    if not path.exists():
        new.replace(path)
    elif _exchanged(new, path):
        _sync_folder(path.parent)
        shutil.rmtree(new, ignore_errors=True)
    else:
        # Not called a leftover: if we are killed in between, it is all that there is.
        old = new.with_suffix(_OLD)
        path.replace(old)
        try:
            new.replace(path)
        except OSError:
            old.replace(path)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _settle(path: Path) -> None:
    """Take back the old folder of a writer that was killed in ``_swap``, or remove it."""
    form = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}{re.escape(_OLD)}")
    for old in path.parent.iterdir():
        if form.fullmatch(old.name) and path.exists():
            shutil.rmtree(old, ignore_errors=True)
        elif form.fullmatch(old.name):
            old.replace(path)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders change their names at one instant; False where the system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # only Linux has it
        return False
    here, both = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return bool(call(here, os.fsencode(one), here, os.fsencode(other), both) == 0)


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401
    """Write JSON that a person can read, whole or not at all."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode())


def read_json(path: Path, *, remedy: str = "copy or make it again") -> Any:  # noqa: ANN401
    """The content of a JSON file, or an error that names the file and what to do."""
    try:
        return json_value(read_regular(path))
    except ValueError as error:
        raise ValueError(f"{path} is not readable JSON ({error}); {remedy}") from error


def write_tensors(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors as safetensors, whole or not at all; tied ones are written once each."""
    separate: dict[str, Tensor] = {}
    seen = set()
    for name, tensor in tensors.items():
        here = tensor.detach().cpu().contiguous()
        place = here.untyped_storage().data_ptr()
        separate[name] = here.clone() if place in seen else here
        seen.add(place)
    write_bytes(path, save_safetensors(separate, metadata=metadata))


def read_tensors(
    path: Path, *, remedy: str = "copy or make it again", digest: str | None = None
) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or an error that names the file and what to do.

    Args:
        path: Where it lies.
        remedy: What to do if it cannot be read.
        digest: SHA-256 that its bytes must have; None for any.
    """
    content = read_regular(path)
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(
            f"{path} is not the file that was saved: it is damaged, from another folder, or of a "
            f"later save that was interrupted; {remedy}"
        )
    try:
        return load_safetensors(content)
    except Exception as error:
        # safetensors raises its own type, which is not a ValueError.
        raise ValueError(
            f"{path} is not a readable safetensors file ({error}), it may be cut short or damaged; "
            f"{remedy}"
        ) from error


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The digest of each of these files in a folder, for the ``digests`` of a JSON file there."""
    return {name: digest_of_file(folder / name) for name in names}


def read_beside(config: Path, name: str, *, remedy: str) -> dict[str, Tensor]:
    """The tensors of a file, with the digest that a JSON file beside it may keep for it.

    Args:
        config: The JSON file.
        name: Of the file with tensors.
        remedy: What to do if one cannot be read.
    """
    kept = read_json(config, remedy=remedy)
    found = kept.get("digests", {}) if isinstance(kept, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get(name, ""), str):
        raise ValueError(f"the digests in {config} are no table of texts; copy it again")
    return read_tensors(config.parent / name, remedy=remedy, digest=found.get(name))


def check_folder(path: Path) -> None:
    """Make a folder where it is missing, and raise at once if no file can be written there.

    For long work whose result is written at the end; raises as :func:`replaced` does.
    """
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file; choose another folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot write {path}: {error.strerror}")


def _sync_folder(folder: Path) -> None:
    """A rename is only safe once the folder itself is on disk (where folders can be synced)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
