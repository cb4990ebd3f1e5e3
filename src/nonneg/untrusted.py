"""What anybody may have written: regular files only, JSON and TOML of limited depth, plain text.

Whatever is wrong with a file's content is a ``ValueError``. Loads neither NumPy nor PyTorch.
"""

import json
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.markup import escape

# Of groups within groups. Settings of the largest networks have fewer than ten; what goes through
# them call by call, as checks of settings do, would fail where there are hundreds.
MAX_DEPTH = 64
# With them a text could clear the screen, write to the clipboard, or hide what comes before it.
_CONTROLS = dict.fromkeys({*range(32), *range(127, 160)} - {ord("\t"), ord("\n")}, "\ufffd")


def read_regular(path: Path) -> bytes:
    """The content of a file.

    Raises:
        ValueError: If it is a pipe or a device, which may never end.
        OSError: If it cannot be read.
    """
    check_regular(path)
    return path.read_bytes()


def check_regular(path: Path) -> None:
    """Raise ``ValueError`` for a pipe, a socket or a device, also behind a link."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a folder says what it is
        raise ValueError(f"{path} is a pipe, a socket or a device, not a file; give a file")


def json_value(content: str | bytes) -> Any:  # noqa: ANN401
    """What JSON text holds.

    Raises:
        ValueError: If it is no JSON, or nested too deeply.

    Example:
        >>> json_value('{"a": [1, null]}')
        {'a': [1, None]}
        >>> json_value("[" * 1000 + "]" * 1000)
        Traceback (most recent call last):
        ValueError: it is nested more than 64 levels deep
    """
    return _limited(json.loads, content)


def toml_table(text: str) -> dict[str, Any]:
    """What TOML text holds; raises as :func:`json_value` does."""
    table: dict[str, Any] = _limited(tomllib.loads, text)
    return table


def _limited(parse: Callable[[Any], Any], content: str | bytes) -> Any:  # noqa: ANN401
    try:
        value = parse(content)
    except RecursionError:
        raise _too_deep() from None
    _check_depth(value)
    return value


def _check_depth(value: Any) -> None:  # noqa: ANN401
    groups = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        groups = [
            inner
            for group in groups
            for inner in (group.values() if isinstance(group, dict) else group)
            if isinstance(inner, dict | list)
        ]
    if groups:
        raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


def for_terminal(text: str) -> str:
    """A text for Rich to print as it is: without control characters, and no markup.

    Example:
        >>> for_terminal(chr(27) + "[2J")
        '�[2J'
    """
    return escape(text.translate(_CONTROLS))
