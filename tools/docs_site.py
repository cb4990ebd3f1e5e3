"""Hooks of the documentation site: pages from outside ``docs/``, source code, the digits atlas.

Pages link to each other as files of the repository, so that links work there too. The hooks add
RESULTS.md and the like to the site under ``project/`` and point the links at them; files that the
site does not show become plain text.
"""

import ast
import importlib
import inspect
import posixpath
import re
import tempfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PROJECT_PAGES = ("RESULTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PROJECT_GLOBS = ("results/**/*.md", "results/**/*.png", "benchmarks/results.md")
ATLAS = "atlas-digits.html"
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_SOURCE = re.compile(r"^<!-- source: (?P<name>[\w.]+) -->$", re.MULTILINE)


def project_files() -> list[str]:
    """Files outside ``docs/`` that are a part of the site, as paths from the root."""
    found = [path for pattern in PROJECT_GLOBS for path in sorted(ROOT.glob(pattern))]
    return [*PROJECT_PAGES, *(path.relative_to(ROOT).as_posix() for path in found)]


def site_link(page: str, target: str) -> str | None:
    """The address of a link's target within the site, from the page; None for what is not shown.

    Args:
        page: Where the link stands, as a path from the root, such as ``docs/theory.md``.
        target: As written in the page.

    Example:
        >>> site_link("docs/theory.md", "../RESULTS.md#claims")
        'project/RESULTS.md#claims'
        >>> site_link("RESULTS.md", "docs/metrics.md")
        '../metrics.md'
    """
    if re.match(r"[a-z]+:|#", target) or target == ATLAS:
        return target
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    place = _place(path)
    if place is None:
        return None
    address = posixpath.relpath(place, posixpath.dirname(_place(page) or "") or ".")
    return f"{address}#{anchor}" if anchor else address


def _place(path: str) -> str | None:
    """Where a file of the repository is in the site; None if it is not there."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/") if (ROOT / path).is_file() else None
    return f"project/{path}" if path in project_files() else None


def with_site_links(text: str, page: str) -> str:
    """A page whose links lead to places of the site; links to other files become their text."""

    def link(found: re.Match[str]) -> str:
        target = site_link(page, found["target"])
        return found["text"] if target is None else f"{found['image']}[{found['text']}]({target})"

    return _LINK.sub(link, text)


def source_of(name: str) -> str:
    """The source of a function or method without its docstring.

    Args:
        name: Full, such as ``nonneg.encoder.Encoder.forward``.

    Raises:
        AttributeError: If there is no such function.
    """
    parts = name.split(".")
    found: Any = None
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        # A function may share its module's name, which the package's front then hides.
        for part in parts[end:]:
            found = getattr(found, part)
        break
    if found is None or isinstance(found, ModuleType):
        raise AttributeError(f"there is no function {name}")
    lines = inspect.cleandoc("\n" + inspect.getsource(found)).splitlines()
    function = ast.parse("\n".join(lines)).body[0]
    assert isinstance(function, ast.FunctionDef)
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        assert first.end_lineno is not None
        lines[first.lineno - 1 : first.end_lineno] = []
    return "\n".join(lines)


def with_sources(text: str) -> str:
    """A page with the code in place of each ``<!-- source: name -->``."""
    return _SOURCE.sub(lambda found: f"```python\n{source_of(found['name'])}\n```", text)


def write_digits_atlas(path: Path) -> None:
    """A small atlas: NCL beside CL on scikit-learn's digits."""
    import numpy as np
    from sklearn.datasets import load_digits

    from nonneg import NCL
    from nonneg.report import Atlas, Samples, write_atlas

    digits = load_digits()
    ncl = NCL(64, max_steps=200, random_state=0).fit(digits.data)
    cl = NCL(64, nonnegative="identity", max_steps=200, random_state=0).fit(digits.data)
    samples = Samples(
        features=ncl.transform(digits.data),
        labels=digits.target,
        images=(digits.images * 255 / 16).astype(np.uint8),
    )
    atlas = Atlas(
        samples=samples,
        title="Digits",
        method="NCL",
        against=cl.transform(digits.data),
        against_method="CL",
        reference=digits.data - digits.data.mean(axis=0),
    )
    write_atlas(path, atlas)


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages from outside ``docs/``, and the atlas of the gallery."""
    from mkdocs.structure.files import File

    for name in project_files():
        source = str(ROOT / name)
        files.append(File.generated(config, f"project/{name}", abs_src_path=source))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ATLAS
        write_digits_atlas(path)
        files.append(File.generated(config, ATLAS, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """Point links at places of the site, and put source code in."""
    place = page.file.src_uri
    name = place.removeprefix("project/") if place.startswith("project/") else f"docs/{place}"
    return with_sources(with_site_links(markdown, name))
