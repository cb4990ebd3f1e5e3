"""Is RESULTS.md what the tables say? Puts each table of ``results/`` between its two marks.

python -m benchmarks.results_page
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "RESULTS.md"
_TABLE = re.compile(r"(<!-- table (?P<name>[\w/-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


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


def main() -> None:
    """Rewrite the page in place."""
    PAGE.write_text(refreshed(PAGE.read_text(), ROOT / "results"))


if __name__ == "__main__":
    main()
