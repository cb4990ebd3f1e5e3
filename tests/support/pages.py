"""The project's pages of Markdown, and what tests ask of them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
)


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, language=""):
    """The fenced blocks of a language; without one, those that name none, such as commands."""
    fenced = re.findall(r"^```(.*?)\n(.*?)^```", text_of(page), flags=re.MULTILINE | re.DOTALL)
    return [block for name, block in fenced if name.strip() == language]


def python_of(page):
    """Blocks to run in order; those with prompts are doctests, which pytest runs by itself."""
    return [block for block in blocks(page, "python") if not block.startswith(">>>")]


def run(page):
    """Run the Python of a page, block after block, in one namespace, as a reader would paste it."""
    names = {}
    for block in python_of(page):
        exec(compile(block, page, "exec"), names)
    return names
