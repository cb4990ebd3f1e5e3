"""RESULTS.md shows the tables as they are in results/."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent
refreshed = runpy.run_path(str(ROOT / "benchmarks" / "results_page.py"))["refreshed"]

MARKED = "Words.\n<!-- table a-b -->\nold\n<!-- end -->\nMore.\n<!-- table d/c -->\n<!-- end -->\n"


def test_tables_are_put_between_their_marks(tmp_path):
    folder = tmp_path / "results"
    (folder / "d").mkdir(parents=True)
    (folder / "a-b.md").write_text("# a-b\n\n| x |\n\n![curve](a-b.png)\n")
    (folder / "d" / "c.md").write_text("# c\n\nshort\n\n![curve](c.png)\n")
    page = refreshed(MARKED, folder)
    assert "### a-b\n\n| x |" in page
    assert "](results/a-b.png)" in page
    assert "](results/d/c.png)" in page
    assert "old" not in page
    assert page.startswith("Words.\n")
    assert page.index("More.") < page.index("### d/c")
    assert refreshed(page, folder) == page


def test_the_page_is_up_to_date():
    page = (ROOT / "RESULTS.md").read_text()
    assert "<!-- table " in page
    assert refreshed(page, ROOT / "results") == page
