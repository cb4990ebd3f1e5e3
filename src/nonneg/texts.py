"""Texts as vectors, by any sentence encoder; kept by content, and resumed where they ended."""

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nonneg.data.arrays import npy_array
from nonneg.io import check_folder, digest_of_file, read_json, write_json
from nonneg.settings import Settings
from nonneg.training.run_folder import locked

# Texts per call of a model. Fixed: how texts are batched moves the last digits of their vectors.
_CHUNK = 256
# What a folder of a model has, one or the other.
_MODEL_FILES = ("modules.json", "config.json")
_ROWS_FILE = "rows.npy"

Watch = Callable[[int, int], None]
Vectors = NDArray[np.float32]


class EncoderFacts(Settings):
    """What a sentence encoder is known by."""

    name: str
    """A folder, as an absolute path, the name of a model on the hub, or the class of an object."""
    digest: str | None = None
    """SHA-256 of the files in its folder, or of an object's weights; absent where it has none."""
    pooling: str | None = None
    """How vectors of words become one, such as ``mean``; absent where the model does not say."""
    width: int
    """Numbers per vector."""
    max_seq_length: int | None = None
    """So many tokens of a text are read; absent where the model does not say."""


class CachedVectors(NamedTuple):
    """Vectors in a file."""

    path: Path
    """An npy file, float32 ``(n, width)``."""
    encoder: EncoderFacts


def embed(
    texts: Sequence[str],
    model: Any,  # noqa: ANN401
    *,
    cache: str | Path | None = None,
    watch: Watch = lambda n_done, n_texts: None,
) -> Vectors:
    """The vectors of texts, float32 ``(n, width)``, as long as the model gives them.

    A text of white space only has no vector: its row is zero, and so are its features in ``NCL``.
    With a cache, texts that were embedded by the same model are read from there, and a call that
    was interrupted goes on where it ended.

    Args:
        texts: One per row; any sequence that can be sliced.
        model: The folder of a sentence-transformers model, which needs no network; the name of one
            on the Hugging Face hub; or an object whose ``encode`` maps a list of texts to rows.
        cache: A folder for vectors; None keeps none.
        watch: Called with the number of texts that are done, and with that of all.

    Raises:
        ImportError: sentence-transformers is needed and not installed.
        ValueError: The model cannot be loaded, or gives something else than a row per text.

    Example:
        >>> class Lengths:
        ...     def encode(self, texts):
        ...         return [[len(text), text.count("e")] for text in texts]
        >>> embed(["tree", " ", "ox"], Lengths())
        array([[4., 2.],
               [0., 0.],
               [2., 0.]], dtype=float32)
    """
    encoder = TextEncoder(model)
    if cache is not None:
        found = npy_array(cached_vectors(texts, encoder, cache, watch=watch).path)
        return np.asarray(found, dtype=np.float32)
    deque(_checked(texts), maxlen=0)
    return np.concatenate(list(_chunks(texts, encoder, 0, watch)))


def cached_vectors(
    texts: Sequence[str],
    encoder: "TextEncoder",
    folder: str | Path,
    *,
    watch: Watch = lambda n_done, n_texts: None,
) -> CachedVectors:
    """The file of the vectors of texts, made where it is not there yet.

    Its name is a digest of model and texts. Rows are appended as they are done, so that another
    call goes on after the last whole part; the file has its name only when all rows are there. A
    model in a folder is not loaded where nothing is left to do.

    Raises:
        BlockingIOError: Another process is embedding the same texts.
    """
    folder, content = Path(folder), _digest_of_texts(texts)
    check_folder(folder)
    if encoder.digest is None:
        raise ValueError(
            f"vectors by {encoder.name} cannot be kept: it has no weights to tell it by; leave the "
            "cache out, or give the folder of a model"
        )
    key = hashlib.sha256(f"{encoder.digest} {content}".encode()).hexdigest()[:32]
    path, facts = folder / f"{key}.npy", folder / f"{key}.json"
    if not path.is_file():
        work = folder / f"{key}.part"
        with locked(work):
            if not path.is_file():  # made by a process that has just ended
                _append_rows(work / _ROWS_FILE, texts, encoder, watch)
                write_json(facts, encoder.facts.model_dump(mode="json"))
                (work / _ROWS_FILE).replace(path)
        with suppress(OSError):
            work.rmdir()
    remedy = f"remove {facts} and {path}, and embed again"
    known = EncoderFacts.read(read_json(facts, remedy=remedy))
    # The same model may lie elsewhere now.
    return CachedVectors(path, known.model_copy(update={"name": encoder.name}))


def _append_rows(path: Path, texts: Sequence[str], encoder: "TextEncoder", watch: Watch) -> None:
    """Write all rows as an npy file, from the first part on that an earlier call did not finish."""
    path.touch()
    with path.open("r+b") as file:
        width = _begun_width(file, len(texts))
        header = b"" if width is None else _header(len(texts), width)
        n_done = 0
        if width is not None:
            n_whole = (path.stat().st_size - len(header)) // (4 * width * _CHUNK)
            n_done = min(n_whole * _CHUNK, len(texts))
            file.seek(len(header) + 4 * width * n_done)
        file.truncate()
        for rows in _chunks(texts, encoder, n_done, watch):
            if not header:
                header = _header(len(texts), rows.shape[1])
                file.write(header)
            file.write(rows.astype("<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())


def _header(n_rows: int, width: int) -> bytes:
    buffer = BytesIO()
    description = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, width)}
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


def _begun_width(file: IO[bytes], n_rows: int) -> int | None:
    """The width of rows that an earlier call wrote; None, at the start of the file, without any."""
    try:
        np.lib.format.read_magic(file)
        shape, _, _ = np.lib.format.read_array_header_1_0(file)
        if len(shape) == 2 and shape[0] == n_rows:
            return int(shape[1])
    except ValueError:  # cut short
        pass
    file.seek(0)
    return None


def _chunks(
    texts: Sequence[str], encoder: "TextEncoder", start: int, watch: Watch
) -> Iterator[Vectors]:
    """Rows of the texts from some number on, a chunk at a time; empty texts have rows of zeros."""
    for at in range(start, len(texts), _CHUNK):
        some = list(texts[at : at + _CHUNK])
        told = [place for place, text in enumerate(some) if text.strip()]
        # Of empty texts alone a full stop tells the width.
        found = encoder.encode([some[place] for place in told] or ["."])
        rows = np.zeros((len(some), found.shape[1]), dtype=np.float32)
        rows[told] = found[: len(told)]
        yield rows
        watch(at + len(some), len(texts))


def _checked(texts: Sequence[str]) -> Iterator[str]:
    """The texts; a sentence for what cannot be embedded, before hours of work or any file."""
    if isinstance(texts, str):
        raise TypeError("texts is one text; give a list of texts, also of one")
    has_some = False
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"texts holds {type(text).__name__} in place {number}; give a text each, empty "
                "where there is none"
            )
        has_some = has_some or bool(text.strip())
        yield text
    if not has_some:
        raise ValueError("there is no text to embed: all are empty")


def _digest_of_texts(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in _checked(texts):
        content = text.encode(errors="surrogatepass")
        digest.update(f"{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()


class TextEncoder:
    """A sentence encoder, loaded when it is first needed.

    Args:
        model: As in :func:`embed`.

    Raises:
        OSError: There is no such folder, or no model in it.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        is_named = isinstance(model, str | os.PathLike)
        if not is_named and not hasattr(model, "encode"):
            raise TypeError(
                "a model is a folder, a name, or an object with encode(texts), got "
                f"{type(model).__name__}"
            )
        self._object = None if is_named else model
        self._folder = _model_folder(model) if is_named else None
        self.name = str(self._folder or model) if is_named else type(model).__name__

    @cached_property
    def model(self) -> Any:  # noqa: ANN401
        """The model itself."""
        if self._object is not None:
            return self._object
        library = _sentence_transformers()
        try:
            with no_bars():
                if self._folder is None:
                    return library.SentenceTransformer(self.name, trust_remote_code=False)
                return library.SentenceTransformer(
                    self.name, local_files_only=True, trust_remote_code=False
                )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ValueError(
                f"{self.name} cannot be loaded as a sentence-transformers model ({reason}); give "
                "the folder of one, or its name on the Hugging Face hub"
            ) from error

    @cached_property
    def digest(self) -> str | None:
        """See :class:`EncoderFacts`; a folder is read for it, a model from the hub is loaded."""
        if self._folder is not None:
            return _digest_of_folder(self._folder)
        if self._object is None:
            _ = self.model  # it is downloaded where it is not there yet
            return _digest_of_folder(_hub_folder(self.name))
        if not isinstance(self._object, nn.Module):
            return None
        facts = [repr(self._object), self._max_seq_length, self._pooling]
        digest = hashlib.sha256(json.dumps(facts).encode())
        for name, weight in sorted(self._object.state_dict().items()):
            digest.update(name.encode())
            digest.update(weight.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    @cached_property
    def facts(self) -> EncoderFacts:
        """What it is known by; loads the model."""
        return EncoderFacts(
            name=self.name,
            digest=self.digest,
            pooling=self._pooling,
            width=self.encode(["."]).shape[1],
            max_seq_length=self._max_seq_length,
        )

    def encode(self, texts: list[str]) -> Vectors:
        """Vectors of some texts, at least one, float32 ``(n, width)``."""
        found = self.model.encode(texts)
        if isinstance(found, Tensor):
            found = found.detach().cpu().float().numpy()
        rows = np.asarray(found, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or rows.shape[1] == 0:
            raise ValueError(
                f"{self.name} gave an array of shape {rows.shape} for {len(texts)} texts; it has "
                "to give one row of numbers per text"
            )
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise ValueError(
                f"{self.name} gave NaN or infinity for {len(bad)} of {len(texts)} texts, first for "
                f"{texts[bad[0]][:60]!r}; use another model or precision"
            )
        return rows

    @property
    def _max_seq_length(self) -> int | None:
        length = getattr(self.model, "max_seq_length", None)
        return length if isinstance(length, int) else None

    @property
    def _pooling(self) -> str | None:
        for part in self.model.children() if isinstance(self.model, nn.Module) else ():
            mode: Any = getattr(part, "pooling_mode", None)
            if mode is not None:
                return mode if isinstance(mode, str) else "+".join(map(str, mode))
        return None


def _model_folder(model: "str | os.PathLike[str]") -> Path | None:
    """The folder of a model; None for what is the name of one on the hub."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not any((path / name).is_file() for name in _MODEL_FILES):
            raise FileNotFoundError(
                f"{path} holds no sentence-transformers model: {' or '.join(_MODEL_FILES)} is "
                "missing; give the folder that model.save wrote"
            )
        return path.resolve()
    # On the hub a name is name or owner/name.
    if not isinstance(model, str) or len(path.parts) > 2 or model.startswith((".", "/", "~")):
        raise FileNotFoundError(f"there is no folder {path}")
    return None


def _sentence_transformers() -> Any:  # noqa: ANN401
    try:
        return import_module("sentence_transformers")
    except (ImportError, RuntimeError, OSError) as error:
        raise ImportError(
            f"embedding texts needs sentence-transformers, which cannot be imported ({error}); "
            "install it with: pip install 'nonneg[texts]'"
        ) from error


@contextmanager
def no_bars() -> Iterator[None]:
    """Without the bar that transformers shows for each model it loads."""
    logging = import_module("transformers.utils.logging")
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


def _hub_folder(name: str) -> Path:
    """Where the files of a model from the hub lie on this machine."""
    hub = import_module("huggingface_hub")
    whole = name if "/" in name else f"sentence-transformers/{name}"
    return Path(hub.snapshot_download(whole, local_files_only=True))


def _digest_of_folder(folder: Path) -> str:
    """SHA-256 over the names and contents of all files that are not hidden, sorted by name."""
    names = sorted(
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()
    )
    digest = hashlib.sha256()
    for name in names:
        if not any(part.startswith(".") for part in Path(name).parts):
            digest.update(f"{name} {digest_of_file(folder / name)}\n".encode())
    return digest.hexdigest()
