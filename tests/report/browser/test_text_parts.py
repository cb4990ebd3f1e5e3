"""Words, groups and time in the page."""

from browsing import HOSTILE, TEXT_ROUTES, go, until

from nonneg.report import Atlas, Samples, write_atlas


def test_every_part_of_texts_opens_without_error(visit, letters):
    page = visit(letters)
    for route, heading in TEXT_ROUTES.items():
        go(page, route)
        assert page.text_content("h1").startswith(heading), route


def test_words_are_listed_with_what_they_add_and_marked_in_the_texts(visit, letters):
    page = visit(letters, "feature/4")
    rows = page.locator(".words-table tbody tr")
    assert rows.count() >= 2
    cells = rows.first.locator("th, td").all_text_contents()
    assert int(cells[1]) == 20
    assert int(cells[2]) == 30
    assert cells[3].startswith("+0.")
    marks = page.locator(".gallery mark").all_text_contents()
    assert marks
    assert all(mark in "fresh bread and butter for breakfast" for mark in marks)
    assert page.locator(".gallery mark").first.get_attribute("title").startswith("adds +0.")


def test_marks_are_of_whole_words_in_any_case_and_phrases_of_two(visit, letters):
    page = visit(letters, "feature/4")
    marked = """([words, text]) => {
      const known = words.map((word) => ({ word, added: 0.25 }));
      const old = wordsOf; wordsOf = () => known;
      const parts = markedText(text, wordFinder(0)); wordsOf = old;
      return parts.map((p) => typeof p === 'string' ? p : `[${p.textContent}|${p.title}]`).join('');
    }"""

    def of(words, text):
        return page.evaluate(marked, [words, text])

    assert (
        of(["tea"], "Tea, steam and TEA-time")
        == "[Tea|adds +0.250], steam and [TEA|adds +0.250]-time"
    )
    assert of(["black tea", "tea"], "Black  tea. black. Tea") == (
        "[Black  tea|adds +0.250]. black. [Tea|adds +0.250]"
    )
    assert of(["élise"], "für Élise, élises") == "für [Élise|adds +0.250], élises"
    assert of(["学习"], "机器学习的") == "机器[学习|adds +0.250]的"
    assert of(["c++"], "c++ is c+") == "[c++|adds +0.250] is c+"
    assert of(["script"], HOSTILE).startswith("<[script|adds +0.250]>alert")
    long = "word " * 100 + "tea " + "more " * 20
    assert of(["tea"], long).startswith("… word")


def test_groups_open_and_are_cut_by_the_slider(visit, letters):
    page = visit(letters, "groups", viewport={"width": 1280, "height": 900})
    slider = page.get_by_label("Number of groups")
    slider.focus()
    slider.press("Home")
    assert page.locator("output").text_content() == "1 group"
    assert page.locator(".tree > details").count() == 1
    page.locator(".tree > details > summary").press("Enter")
    until(page, "document.querySelectorAll('.tree details details, .tree .leaves li').length > 1")
    slider.press("End")
    assert page.locator("output").text_content() == "11 groups"
    assert page.locator(".leaves a").count() == 11
    for _ in range(6):
        slider.press("ArrowLeft")
    assert page.locator("output").text_content() == "5 groups"
    listed = page.evaluate("branches(2 * tree.features.length - 2, 5).map((b) => b.members).flat()")
    assert sorted(listed) == list(range(11))
    go(page, "space")
    go(page, "groups")
    assert page.locator("output").text_content() == "5 groups"


def test_a_small_group_can_be_merged(visit, letters):
    page = visit(letters, "groups", viewport={"width": 1280, "height": 900})
    group = page.locator(".tree > details").first
    group.locator("summary").first.click()
    button = group.get_by_role("button", name="Merge these")
    until(page, "document.querySelector('.tree details button') !== null")
    n = int(button.first.text_content().split()[2])
    button.first.click()
    assert page.evaluate("changesFile().merge[0].length") == n


def test_what_rose_and_what_fell(visit, letters):
    page = visit(letters, "time")
    rose, fell = (page.locator(".pairwise section").nth(k) for k in (0, 1))
    assert "#1" in rose.locator("li").first.text_content()
    assert "#0" in fell.locator("li").first.text_content()
    assert "+0." in rose.locator("li small").first.text_content()
    rose.locator("li a").first.click()
    until(page, "shown === '#/feature/1'")
    chart = page.locator("section", has_text="Over time").locator("svg").first
    assert "Mean activation per" in chart.get_attribute("aria-label")
    assert chart.locator(".band-area").count() == 1


def test_without_dates_and_texts_these_parts_are_left_out(visit, digits, tmp_path):
    page = visit(digits)
    assert page.locator("header nav a", has_text="Over time").count() == 0
    go(page, "feature/3")
    assert page.locator(".words-table").count() == 0
    write_atlas(tmp_path / "two.html", Atlas(samples=Samples(features=[[1, 0], [0, 1]])))
    page = visit(tmp_path / "two.html")
    assert page.locator("header nav a", has_text="Groups").count() == 0
    go(page, "map")
    assert page.locator(".legend-entry").count() == 2
