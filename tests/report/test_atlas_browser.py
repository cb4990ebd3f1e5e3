"""The atlas in a real browser: it opens from disk, asks for nothing, and everything is a link."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from nonneg.report import Atlas, Samples, SelectionPoint, Story, Training, write_atlas

api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed; it is in the dev extra"
)
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)></script><!-- \u2028"


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield running
        running.close()


@pytest.fixture(scope="module")
def tabs(browser):
    """Pages that stay open for the next test, by file; and what went wrong on any page."""
    return SimpleNamespace(open={}, wrong=[])


@pytest.fixture
def visit(browser, tabs):
    """Open a file at an address; at the end there must have been no error and no request.

    Without settings, a page that another test left open is used again: that is much faster.
    """
    contexts, wrong = [], tabs.wrong
    wrong.clear()

    def opened(path, route="", **settings):
        if not settings and path in tabs.open:
            page = tabs.open[path]
            go(page, route)
            return page
        context = browser.new_context(**settings)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on(
            "request",
            lambda request: None if request.url.startswith("file:") else wrong.append(request.url),
        )
        page.goto(f"{path.as_uri()}#/{route}")
        page.wait_for_selector("h1")
        if settings:
            contexts.append(context)
        else:
            tabs.open[path] = page
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def digits(world, tmp_path_factory):
    """CL beside NCL, with a history and a selection result."""
    path = tmp_path_factory.mktemp("atlas") / "digits.html"
    records = [
        {"epoch": e, "loss": 5 / e, "sparsity": 0.9, "alive_features": 40} for e in (1, 2, 3)
    ]
    points = [
        SelectionPoint("probe", ranking, n, 0.9 + n / 1000)
        for ranking, n in (("ea_rectified", 10), ("random", 10), ("all", 44))
    ]
    atlas = Atlas(
        samples=Samples(
            features=world.features,
            labels=world.labels,
            class_names=world.class_names,
            images=world.images,
        ),
        title="Digits",
        method="NCL",
        against=world.signed,
        against_method="CL",
        other_seed=world.features[:, ::-1],
        reference=world.pixels,
        sepin=np.linspace(0, 1, 44),
        story=Story(
            about=["Trained on digits."],
            selection=points,
            training={"NCL": Training(records, {"loss": 4.5})},
        ),
    )
    write_atlas(path, atlas)
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Texts of three kinds without labels, one of them hostile."""
    path = tmp_path_factory.mktemp("atlas") / "texts.html"
    lines = [f"{word} number {i}" for i, word in enumerate(["apple", "river", "engine"] * 20)]
    lines[0] = HOSTILE
    features = np.tile(np.eye(3), (20, 1)) + 0.1
    samples = Samples(features=features, texts=lines, ids=[f"id-{i}" for i in range(60)])
    write_atlas(path, Atlas(samples=samples, title=HOSTILE, story=Story(notes=[HOSTILE])))
    return path


def address(page):
    return page.evaluate("location.hash")


def until(page, condition, argument=None):
    """Wait for a condition; Playwright's own wait needs eval, which the page's policy forbids."""
    for _ in range(500):
        if page.evaluate(condition, argument):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never came true: {condition}")


def go(page, route):
    """Follow a link to an address, and wait until it is shown."""
    page.evaluate("route => { location.hash = '#/' + route }", route)
    until(page, "route => shown === '#/' + route", route)


ROUTES = {
    "": "Digits",
    "features": "Features",
    "feature/3": "",
    "feature/43": "dead",
    "samples": "Samples",
    "sample/7": "sample 7",
    "space": "The space",
    "training": "Training",
    "compare": "CL beside NCL",
    "match/sample/7/sample/9": "Why are these two alike?",
    "feature/4000": "Not here",
    "sample/4000": "Not here",
    "nowhere": "Not here",
}


def test_every_part_opens_without_error_or_request(visit, digits):
    page = visit(digits)
    for route, heading in ROUTES.items():
        go(page, route)
        assert page.text_content("h1").startswith(heading), route


def test_the_glance_shows_figures_with_their_chance(visit, digits):
    page = visit(digits)
    assert "40of 44 features are alive" in page.text_content(".bigs")
    purity = page.locator("table.figures tr", has_text="Purity of the top 20")
    assert "chance" in purity.text_content()
    assert page.locator("table.figures thead th").all_text_contents()[1:3] == ["● CL", "■ NCL"]
    assert "CL has negative features" in page.text_content(".notes-list")


def test_thumbnails_hold_the_pixels_of_their_samples(visit, digits, world):
    page = visit(digits, "sample/7")
    until(page, "sheets.get(samples)[0].bitmap !== null")
    drawn = page.evaluate(
        "[...document.querySelector('.portrait canvas').getContext('2d')"
        ".getImageData(0, 0, 8, 8).data].filter((_, i) => i % 4 === 0)"
    )
    assert drawn == world.images[7].ravel().tolist()


def test_sort_filter_and_find(visit, digits):
    page = visit(digits, "features")
    status = page.locator("[role=status]")
    assert status.text_content() == "40 features"
    page.get_by_label("Sort by").select_option("purity")
    until(page, "location.hash === '#/features?sort=purity'")
    shown = [
        float(text.split()[1])
        for text in page.locator(".facts").all_text_contents()
        if text.startswith("purity")
    ]
    assert shown == sorted(shown, reverse=True)
    page.get_by_label("Sort by").select_option("sepin")
    until(page, "location.hash.includes('sort=sepin')")
    assert page.locator(".facts").first.text_content().endswith("SEPIN 0.907")
    page.get_by_label("Order").select_option("up")
    until(page, "location.hash.includes('order=up')")
    page.get_by_label("Class", exact=True).select_option(label="3")
    until(page, "location.hash.includes('class=3')")
    assert 0 < int(status.text_content().split()[0]) < 40
    page.get_by_label("Class", exact=True).select_option("")
    page.get_by_label("State").select_option("dead")
    until(page, "location.hash.includes('state=dead')")
    assert status.text_content() == "4 features"
    page.get_by_label("State").select_option("all")
    page.get_by_label("Name", exact=True).fill("#42")
    assert status.text_content() == "1 feature"
    assert "find=%2342" in address(page)
    assert page.locator("input[type=search]").nth(1).evaluate("e => e === document.activeElement")


def test_from_feature_to_sample_to_explanation_and_back(visit, digits):
    page = visit(digits, "features")
    page.locator(".card a.cover").first.click()
    until(page, "location.hash.startsWith('#/feature/')")
    feature = address(page)
    assert page.locator("h2").all_text_contents()[:2] == [
        "Its strongest samples",
        "Over its whole range",
    ]
    page.locator(".gallery .tile").first.click()
    until(page, "location.hash.startsWith('#/sample/')")
    sample = address(page)
    cosine = float(page.locator(".why").first.text_content().split()[0])
    page.locator(".why").first.click()
    until(page, "location.hash.startsWith('#/match/')")
    parts = [float(text) for text in page.locator(".rows.match .value").all_text_contents()]
    assert sum(parts) == pytest.approx(cosine, abs=0.01)
    page.go_back()
    until(page, f"location.hash === '{sample}'")
    assert page.text_content("h1").startswith("sample")
    page.go_back()
    until(page, f"location.hash === '{feature}'")
    page.go_back()
    assert page.wait_for_selector("h1 >> text=Features")


def test_back_returns_to_where_one_was_and_a_link_leads_to_the_top(visit, digits):
    page = visit(digits, "features", viewport={"width": 1000, "height": 500})
    page.evaluate("scrollTo(0, 900)")
    until(page, "scrolls.get(step) === 900")
    go(page, "feature/3")
    assert page.evaluate("scrollY") == 0
    page.go_back()
    until(page, "shown === '#/features'")
    until(page, "scrollY === 900")
    go(page, "space")
    page.locator("nav a", has_text="Features").click()
    until(page, "shown === '#/features'")
    assert page.evaluate("scrollY") == 0


def test_neighbours_are_those_of_the_cosine(visit, digits, world):
    page = visit(digits, "sample/7")
    lengths = np.linalg.norm(world.features, axis=1, keepdims=True)
    unit = world.features / np.where(lengths > 0, lengths, 1)
    cosine = unit @ unit[7]
    cosine[7] = -1
    best = np.sort(cosine)[::-1][:12]
    found = page.evaluate("neighbours(samples, 7, samples, 12).map((n) => [n.number, n.cosine])")
    np.testing.assert_allclose([c for _, c in found], best, atol=2e-3)
    np.testing.assert_allclose([cosine[i] for i, _ in found], best, atol=2e-3)


def test_a_search_finds_samples_by_label(visit, digits, world):
    page = visit(digits)
    page.get_by_label("Find samples or features").fill("5")
    page.keyboard.press("Enter")
    until(page, "location.hash === '#/samples?find=5'")
    page.get_by_label("Class", exact=True).select_option(label="5")
    page.get_by_label("Label, text, id or number").fill("")
    n = int((world.labels == 5).sum())
    assert page.locator("h2").all_text_contents() == [f"{n} samples"]
    assert page.locator(".gallery .tile").count() == n


def test_compare_puts_the_two_side_by_side(visit, digits):
    page = visit(digits, "compare")
    assert page.locator(".heads h2").all_text_contents() == ["● CL", "■ NCL"]
    assert page.locator(".versus").count() == 25
    assert page.locator(".versus .side").nth(0).locator(".tile").count() == 10
    page.get_by_label("Order").select_option("random")
    until(page, "location.hash === '#/compare?by=random'")
    first = page.locator(".side-head").first.text_content()
    page.reload()
    assert page.locator(".side-head").first.text_content() == first


FRESH = {"viewport": {"width": 1280, "height": 720}}


def test_the_keyboard_reaches_everything(visit, digits):
    page = visit(digits, "features", **FRESH)
    reached = set()
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className")
        )
    assert {"A.skip", "BUTTON.theme", "SELECT.", "A.cover"} <= reached
    page.keyboard.press("Enter")
    until(page, "location.hash.startsWith('#/feature/')")
    assert page.evaluate("document.activeElement.tagName") == "H1"


def test_a_list_keeps_the_keyboard_while_it_is_changed(visit, digits):
    page = visit(digits, "features")
    page.get_by_label("Sort by").focus()
    for key in ("purity", "frequency"):
        page.keyboard.press("ArrowDown")
        until(page, f"shown === '#/features?sort={key}'")
        assert page.evaluate("document.activeElement.ariaLabel") == "Sort by"


def test_everything_that_can_be_used_has_a_name(visit, digits, pairs):
    roles = {"link", "button", "searchbox", "combobox", "image", "DisclosureTriangle"}
    for path, routes in ((digits, ROUTES), (pairs, PAIR_ROUTES)):
        page = visit(path)
        tree = page.context.new_cdp_session(page)
        for route in routes:
            go(page, route)
            nodes = tree.send("Accessibility.getFullAXTree")["nodes"]
            found = [n for n in nodes if not n["ignored"] and n["role"]["value"] in roles]
            assert len(found) > 5, route
            assert [n for n in found if not n.get("name", {}).get("value")] == [], route


def test_headings_leave_no_level_out(visit, digits):
    page = visit(digits)
    for route in ROUTES:
        go(page, route)
        found = "[...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))"
        levels = page.evaluate(found)
        assert levels[0] == 1, route
        assert max(np.diff(levels), default=0) <= 1, route


def test_the_link_that_skips_the_menu_leads_to_the_content(visit, digits):
    page = visit(digits, "features", **FRESH)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    until(page, "location.hash === '#main'")
    assert page.text_content("h1") == "Features"
    page.reload()
    assert page.text_content("h1") == "Digits"


def test_light_dark_and_the_switch_between_them(visit, digits):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = visit(digits, color_scheme="light")
    dark = visit(digits, color_scheme="dark")
    assert light.evaluate(ground) == "rgb(253, 253, 252)"
    assert dark.evaluate(ground) == "rgb(21, 23, 26)"
    light.get_by_role("button", name="light and dark").click()
    assert light.evaluate(ground) == dark.evaluate(ground)
    light.reload()
    assert light.evaluate(ground) == dark.evaluate(ground)


def test_400_pixels_are_wide_enough(visit, digits, pairs):
    for path, routes in ((digits, ROUTES), (pairs, PAIR_ROUTES)):
        page = visit(path, viewport={"width": 400, "height": 800})
        for route in routes:
            go(page, route)
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, (path, route)


def test_hostile_texts_are_shown_as_text(visit, texts):
    page = visit(texts, "sample/0")
    assert page.text_content("blockquote") == HOSTILE
    go(page, "")
    page.wait_for_selector(".notes-list")
    assert HOSTILE in page.locator(".notes-list li").all_text_contents()
    assert page.title() == HOSTILE.replace("\u2028", " ").strip() or HOSTILE in page.title()
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 2


def test_texts_without_labels_are_named_by_words_and_found(visit, texts):
    page = visit(texts, "features")
    names = page.locator(".card h3 a").all_text_contents()
    assert sorted(name.split(",")[0] for name in names) == ["apple", "engine", "river"]
    assert page.get_by_label("Class", exact=True).count() == 0
    go(page, "samples?find=id-17")
    until(page, "document.querySelectorAll('.gallery .tile').length === 1")
    assert page.locator(".gallery .tile").text_content() == "engine number 17"
    go(page, "")
    page.wait_for_selector(".notes-list")
    assert "There are no labels" in page.text_content(".notes-list")


PAIR_ROUTES = ("", "features", "feature/3", "sample/3", "caption/3", "match/caption/3/sample/3")


@pytest.fixture(scope="module")
def pairs(world, tmp_path_factory):
    """Images with two captions each, one of them hostile; feature 43 is on for one caption only."""
    path = tmp_path_factory.mktemp("atlas") / "pairs.html"
    of = np.repeat(np.arange(len(world.labels)), 2)
    texts = [f"drawing {i % 2} of a {'oiatwrfhxnv'[world.labels[n]] * 3}" for i, n in enumerate(of)]
    texts[6] = HOSTILE
    spoken = world.features[of]
    spoken[9, 43] = 0.5
    atlas = Atlas(
        samples=Samples(features=world.features, images=world.images, kind="image"),
        captions=Samples(features=spoken, texts=texts, kind="caption"),
        caption_of=of,
    )
    write_atlas(path, atlas)
    return path


def test_pairs_show_images_beside_captions(visit, pairs):
    page = visit(pairs, "feature/3")
    assert page.locator(".pairwise h2").all_text_contents() == [
        "Its strongest images",
        "Its strongest captions",
    ]
    assert page.locator(".pairwise .tile.text").first.text_content().startswith("drawing ")
    bands = page.locator(".bands")
    assert bands.count() == 2
    assert "captions" in bands.nth(1).locator(".band-head").last.text_content()
    facts = page.locator(".facts-list div").all_text_contents()
    assert any(text.startswith("agreement of both sides1.0") for text in facts)
    go(page, "feature/43")
    assert "Active for no image, but for 1 caption." in page.text_content("main")
    assert page.locator("h2").all_text_contents() == ["Its strongest captions"]


def test_a_caption_and_its_image_say_how_near_they_are(visit, pairs):
    page = visit(pairs, "sample/3")
    own = page.locator(".portrait .neighbour")
    assert page.locator(".portrait h2").text_content() == "Its captions"
    assert own.count() == 2
    assert HOSTILE in page.locator(".portrait .words").all_text_contents()
    go(page, "caption/6")
    assert page.text_content("blockquote") == HOSTILE
    assert page.locator(".portrait h2").text_content() == "Its image"
    assert page.locator(".place").text_content() == "place 1 of 360"
    assert page.locator("h2").all_text_contents()[-2:] == ["Nearest images", "Nearest captions"]
    page.locator(".portrait .why").click()
    until(page, "shown === '#/match/caption/6/sample/3'")
    assert page.text_content(".two strong") == "cosine 1.000"


def test_features_of_pairs_are_sorted_by_agreement(visit, pairs):
    page = visit(pairs, "features?sort=agreement&order=up")
    assert "agreement of both sides" in page.locator(".facts").first.text_content()
    go(page, "")
    assert "of captions have their image among the ten nearest" in page.text_content(".bigs")


def test_nothing_alive_is_a_page_too(visit, tmp_path):
    path = tmp_path / "dead.html"
    written = write_atlas(path, Atlas(samples=Samples(features=np.zeros((5, 3)))))
    assert "All features are dead: none is active for any sample." in written.notes
    page = visit(path)
    for route in ("features?state=all", "feature/1", "sample/2", "samples", "space"):
        go(page, route)


def test_2048_features_come_a_page_at_a_time(visit, tmp_path, monkeypatch):
    monkeypatch.setattr("nonneg.report.contents.MAX_MAPPED", 64)  # a map of more takes seconds
    rng = np.random.default_rng(0)
    features = sparse.random_array((1000, 2048), density=0.01, rng=rng, format="csr")
    path = tmp_path / "many.html"
    written = write_atlas(path, Atlas(samples=Samples(features=features)))
    assert written.n_bytes < 3_000_000
    page = visit(path, "features")
    assert page.locator("[role=status]").text_content() == "2,048 features"
    assert page.locator(".card").count() == 48
    page.locator(".pager a").last.click()
    until(page, "location.hash === '#/features?page=42'")
    assert page.locator(".card").count() == 2048 - 42 * 48
