"""The page: one HTML file with its style, its script and its data inside."""

import base64
import hashlib
import html
import json
import math
import re
from importlib import resources
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg.report.samples import ImageSheets

# What JavaScript's typed arrays can hold.
_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32")


def packed_array(array: NDArray[Any], dtype: str) -> dict[str, Any]:
    """An array as JSON: its type, its shape, and its bytes in base64, little end first.

    Raises:
        ValueError: If whole numbers do not fit the type.

    Example:
        >>> packed_array(np.array([1, 2]), "uint8")
        {'type': 'uint8', 'shape': [2], 'data': 'AQI='}
    """
    if dtype not in _TYPES:
        raise ValueError(f"unknown type {dtype!r}; known: {', '.join(_TYPES)}")
    if dtype != "float32" and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise ValueError(f"numbers from {array.min()} to {array.max()} do not fit {dtype}")
    little = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
    return {"type": dtype, "shape": list(array.shape), "data": _base64(little.tobytes())}


def packed_image_sheets(images: ImageSheets) -> dict[str, Any]:
    """Sheets of images as JSON."""
    return {
        "width": images.width,
        "height": images.height,
        "a_row": images.a_row,
        "a_sheet": images.a_sheet,
        "sheets": [
            {"type": sheet.media_type, "data": _base64(sheet.content)} for sheet in images.sheets
        ],
    }


def embedded_json(value: Any) -> str:  # noqa: ANN401
    r"""JSON for a script element: whatever a text holds, it ends neither element nor comment.

    NaN and infinity become null: JSON has neither.

    Example:
        >>> embedded_json({"caption": "</script><!--", "value": float("nan")})
        '{"caption":"\\u003c/script\\u003e\\u003c!--","value":null}'
    """
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Inside JSON these signs occur in texts only, where their escapes mean the same. The two
    # separators are line ends for old browsers; lone surrogates cannot be written as UTF-8.
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def _finite(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


# In the order in which the page needs them; together they are one script.
SCRIPTS = (
    "dom",
    "data",
    "image_sheets",
    "charts",
    "changes",
    "words",
    "time",
    "curate",
    "glance",
    "features",
    "feature",
    "samples",
    "sample",
    "plot",
    "documents",
    "groups",
    "map",
    "space",
    "compare",
    "training",
    "try",
    "main",
)
# Of the page that a server shows where there is no atlas.
_PLAIN_SCRIPTS = ("dom", "plain", "try")
_CONTENT = re.compile(r'<script type="application/json" id="content">(.*?)</script>', re.DOTALL)


def page(title: str, content: object) -> str:
    """The whole page. A policy inside forbids every script but its own and every request.

    Args:
        title: Shown as text, whatever it holds.
        content: What the page shows, as values that JSON can hold.
    """
    return _page("atlas.html", SCRIPTS, title, content)


def can_be_served(atlas: str) -> bool:
    """Whether a page is an atlas by the present script: only that one knows how to show it."""
    return (
        _CONTENT.search(atlas) is not None and f"script-src '{_digest(_script(SCRIPTS))}'" in atlas
    )


def served_page(title: str, atlas: str | None, facts: dict[str, Any]) -> str:
    """A page that may ask the server it comes from, and nobody else: an atlas with a box to try.

    Args:
        title: Of the page without an atlas.
        atlas: What :func:`page` made and :func:`can_be_served` accepts; None for the box alone.
        facts: Of the server, for ``try.js``.
    """
    connect = "; connect-src 'self'"
    found = None if atlas is None else _CONTENT.search(atlas)
    if found is None:
        content: dict[str, Any] = {"served": facts | {"has_atlas": False}}
        return _page("plain.html", _PLAIN_SCRIPTS, title, content, connect=connect)
    content = json.loads(found[1]) | {"served": facts | {"has_atlas": True}}
    return _page("atlas.html", SCRIPTS, content["title"], content, connect=connect)


def _page(
    template: str, scripts: tuple[str, ...], title: str, content: object, *, connect: str = ""
) -> str:
    script, style = _script(scripts), _part("atlas.css")
    return Template(_part(template)).substitute(
        title=html.escape(title),
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
        connect=connect,
        content=embedded_json(content),
    )


def _script(names: tuple[str, ...]) -> str:
    return '"use strict";\n' + "\n".join(_part(f"{name}.js") for name in names)


def _part(name: str) -> str:
    text = resources.files("nonneg.report").joinpath("page", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _digest(text: str) -> str:
    """As a content security policy names a script or style that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
