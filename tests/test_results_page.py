"""RESULTS.md and the README quote the tables in results/ and in the benchmarks as they are."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
results_page = runpy.run_path(str(ROOT / "benchmarks" / "results_page.py"))
refreshed, figures = results_page["refreshed"], results_page["figures"]

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
    assert "<!-- table bars -->" in page
    assert refreshed(page, ROOT / "results") == page


def test_figures_are_read_with_and_without_a_leading_zero():
    assert figures("| .83 ± .01 (567) | 1,024.0 ± 0.0, 7.8 ± 0.2 % |") == {
        "0.83 ± 0.01",
        "1,024.0 ± 0.0",
        "7.8 ± 0.2",
    }


@pytest.mark.parametrize("page", ["README.md", "RESULTS.md", "docs/claims.md"])
def test_every_quoted_figure_is_recorded(page):
    quoted = figures((ROOT / page).read_text())
    assert len(quoted) >= 10
    assert quoted <= results_page["recorded_figures"](ROOT)


def test_the_page_links_to_every_table():
    page = (ROOT / "RESULTS.md").read_text() + (ROOT / "docs/history/results.md").read_text()
    for path in (ROOT / "results").glob("*-*.md"):
        assert f"results/{path.name}" in page, path.name
