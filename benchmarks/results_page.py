"""The generated part of RESULTS.md, the figures that it may quote, and the tables' pictures.

python -m benchmarks.results_page
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "RESULTS.md"
_TABLE = re.compile(r"(<!-- table (?P<name>[\w/-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_FIGURE = re.compile(r"(?<![\d.,])(\d[\d,]*(?:\.\d+)?|\.\d+) ± (\d+(?:\.\d+)?|\.\d+)")


def refreshed(page: str, folder: Path) -> str:
    """The page with every table as it now is in a folder, under its name as a heading.

    Args:
        page: With marks such as ``<!-- table transfer-digits -->`` and ``<!-- end -->``; the name
            may be in a folder within the folder.
        folder: Where ``transfer-digits.md`` is.
    """

    def table(mark: re.Match[str]) -> str:
        text = (folder / f"{mark['name']}.md").read_text()
        text = re.sub(r"^# .*", f"### {mark['name']}", text)
        place = (Path(folder.name) / mark["name"]).parent.as_posix()
        text = re.sub(r"!\[(.*?)\]\(", rf"![\1]({place}/", text)
        return f"{mark[1]}\n{text.strip()}\n\n{mark[3]}"

    return _TABLE.sub(table, page)


def figures(text: str) -> set[str]:
    """Every ``mean ± deviation`` in a text, with a digit before each decimal point."""
    numbers = (
        (f"0{n}" if n.startswith(".") else n for n in found) for found in _FIGURE.findall(text)
    )
    return {" ± ".join(pair) for pair in numbers}


def recorded_figures(root: Path) -> set[str]:
    """Every ``mean ± deviation`` in the tables of ``results/`` and in the benchmarks."""
    tables = [*(root / "results").rglob("*.md"), root / "benchmarks" / "results.md"]
    return set().union(*(figures(path.read_text()) for path in tables))


def main() -> None:
    """Rewrite the page in place, and draw the pictures of all tables again."""
    # Imported on use: reading the page needs none of it.
    from nonneg.paper.writing import write_picture

    PAGE.write_text(refreshed(PAGE.read_text(), ROOT / "results"))
    for path in sorted((ROOT / "results").rglob("*-*.json")):
        write_picture(path)


if __name__ == "__main__":
    main()
