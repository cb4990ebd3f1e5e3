"""How is the page put together? One HTML file with its style, its script and its data inside."""

import base64
import hashlib
from importlib import resources

from nonneg.report.packing import embedded_json

# In the order in which the page needs them; together they are one script.
SCRIPTS = (
    "dom",
    "data",
    "sprites",
    "charts",
    "glance",
    "features",
    "feature",
    "samples",
    "sample",
    "map",
    "space",
    "compare",
    "training",
    "main",
)


def page(title: str, content: object) -> str:
    """The whole page. A policy inside forbids every script but its own and every request.

    Args:
        title: Shown as text, whatever it holds.
        content: What the page shows, as values that JSON can hold.
    """
    import jinja2  # slow to import, and needed here only

    template = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    ).from_string(_part("atlas.html"))
    script = '"use strict";\n' + "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    style = _part("atlas.css")
    return template.render(
        title=title,
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
        content=embedded_json(content),
    )


def _part(name: str) -> str:
    text = resources.files("nonneg.report").joinpath("page", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _digest(text: str) -> str:
    """As a content security policy names a script or style that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
