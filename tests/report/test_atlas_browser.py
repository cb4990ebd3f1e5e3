"""The atlas in a real browser: it opens from disk, asks for nothing, and everything is a link."""

import shutil

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
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """Open a file at an address; at the end there must have been no error and no request."""
    contexts, wrong = [], []

    def opened(path, route="", **settings):
        context = browser.new_context(**settings)
        contexts.append(context)
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


def go(page, route):
    """Follow a link to an address, and wait until it is shown."""
    page.evaluate("route => { location.hash = '#/' + route }", route)
    page.wait_for_function("route => shown === '#/' + route", arg=route)


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
    page.wait_for_function("sheets.get(samples)[0].bitmap !== null")
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
    page.wait_for_function("location.hash === '#/features?sort=purity'")
    shown = [
        float(text.split()[1])
        for text in page.locator(".facts").all_text_contents()
        if text.startswith("purity")
    ]
    assert shown == sorted(shown, reverse=True)
    page.get_by_label("Sort by").select_option("sepin")
    page.wait_for_function("location.hash.includes('sort=sepin')")
    assert page.locator(".facts").first.text_content().endswith("SEPIN 0.907")
    page.get_by_label("Order").select_option("up")
    page.wait_for_function("location.hash.includes('order=up')")
    page.get_by_label("Class", exact=True).select_option(label="3")
    page.wait_for_function("location.hash.includes('class=3')")
    assert 0 < int(status.text_content().split()[0]) < 40
    page.get_by_label("Class", exact=True).select_option("")
    page.get_by_label("State").select_option("dead")
    page.wait_for_function("location.hash.includes('state=dead')")
    assert status.text_content() == "4 features"
    page.get_by_label("State").select_option("all")
    page.get_by_label("Name", exact=True).fill("#42")
    assert status.text_content() == "1 feature"
    assert "find=%2342" in address(page)
    assert page.locator("input[type=search]").nth(1).evaluate("e => e === document.activeElement")


def test_from_feature_to_sample_to_explanation_and_back(visit, digits):
    page = visit(digits, "features")
    page.locator(".card a.cover").first.click()
    page.wait_for_function("location.hash.startsWith('#/feature/')")
    feature = address(page)
    assert page.locator("h2").all_text_contents()[:2] == [
        "Its strongest samples",
        "Over its whole range",
    ]
    page.locator(".gallery .tile").first.click()
    page.wait_for_function("location.hash.startsWith('#/sample/')")
    sample = address(page)
    cosine = float(page.locator(".why").first.text_content().split()[0])
    page.locator(".why").first.click()
    page.wait_for_function("location.hash.startsWith('#/match/')")
    parts = [float(text) for text in page.locator(".rows.match .value").all_text_contents()]
    assert sum(parts) == pytest.approx(cosine, abs=0.01)
    page.go_back()
    page.wait_for_function(f"location.hash === '{sample}'")
    assert page.text_content("h1").startswith("sample")
    page.go_back()
    page.wait_for_function(f"location.hash === '{feature}'")
    page.go_back()
    assert page.wait_for_selector("h1 >> text=Features")


def test_back_returns_to_where_one_was_and_a_link_leads_to_the_top(visit, digits):
    page = visit(digits, "features", viewport={"width": 1000, "height": 500})
    page.evaluate("scrollTo(0, 900)")
    page.wait_for_function("scrolls.get(step) === 900")
    go(page, "feature/3")
    assert page.evaluate("scrollY") == 0
    page.go_back()
    page.wait_for_function("shown === '#/features'")
    page.wait_for_function("scrollY === 900")
    go(page, "space")
    page.locator("nav a", has_text="Features").click()
    page.wait_for_function("shown === '#/features'")
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
    page.wait_for_function("location.hash === '#/samples?find=5'")
    page.get_by_label("Class", exact=True).select_option(label="5")
    page.get_by_label("Label, text, id or number").fill("")
    n = int((world.labels == 5).sum())
    assert page.locator("h2").all_text_contents() == [f"{n} samples"]
    assert page.locator(".gallery .tile").count() == n


def test_compare_puts_the_two_side_by_side(visit, digits):
    page = visit(digits, "compare")
    assert page.locator(".heads h3").all_text_contents() == ["● CL", "■ NCL"]
    assert page.locator(".versus").count() == 25
    assert page.locator(".versus .side").nth(0).locator(".tile").count() == 10
    page.get_by_label("Order").select_option("random")
    page.wait_for_function("location.hash === '#/compare?by=random'")
    first = page.locator(".side-head").first.text_content()
    page.reload()
    assert page.locator(".side-head").first.text_content() == first


def test_the_keyboard_reaches_everything(visit, digits):
    page = visit(digits, "features")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className")
        )
    assert {"A.skip", "BUTTON.theme", "SELECT.", "A.cover"} <= reached
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash.startsWith('#/feature/')")
    assert page.evaluate("document.activeElement.tagName") == "H1"


def test_the_link_that_skips_the_menu_leads_to_the_content(visit, digits):
    page = visit(digits, "features")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#main'")
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


def test_400_pixels_are_wide_enough(visit, digits):
    page = visit(digits, viewport={"width": 400, "height": 800})
    for route in ROUTES:
        go(page, route)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, route


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
    page.wait_for_function("document.querySelectorAll('.gallery .tile').length === 1")
    assert page.locator(".gallery .tile").text_content() == "engine number 17"
    go(page, "")
    page.wait_for_selector(".notes-list")
    assert "There are no labels" in page.text_content(".notes-list")


def test_pairs_show_images_beside_captions(visit, world, tmp_path):
    captions = [f"a drawing of a {label}" for label in world.labels]
    captions[3] = HOSTILE
    atlas = Atlas(
        samples=Samples(features=world.features, images=world.images, labels=world.labels),
        captions=Samples(features=world.features, texts=captions, kind="caption"),
        caption_of=np.arange(len(captions)),
    )
    write_atlas(tmp_path / "pairs.html", atlas)
    page = visit(tmp_path / "pairs.html", "feature/3")
    assert page.locator(".pairwise h2").all_text_contents() == [
        "Its strongest samples",
        "Its strongest captions",
    ]
    assert page.locator(".pairwise .tile.text").first.text_content().startswith("a drawing of a")
    go(page, "sample/3")
    page.wait_for_selector("h2 >> text=Its captions")
    assert HOSTILE in page.locator(".words").all_text_contents()
    go(page, "caption/3")
    page.wait_for_selector("blockquote")
    assert page.text_content("blockquote") == HOSTILE
    assert "Nearest samples" in page.locator("h2").all_text_contents()


def test_nothing_alive_is_a_page_too(visit, tmp_path):
    path = tmp_path / "dead.html"
    written = write_atlas(path, Atlas(samples=Samples(features=np.zeros((5, 3)))))
    assert "All features are dead: none is active for any sample." in written.notes
    page = visit(path)
    for route in ("features?state=all", "feature/1", "sample/2", "samples", "space"):
        go(page, route)


def test_2048_features_come_a_page_at_a_time(visit, tmp_path):
    rng = np.random.default_rng(0)
    features = sparse.random_array((1000, 2048), density=0.01, rng=rng, format="csr")
    path = tmp_path / "many.html"
    written = write_atlas(path, Atlas(samples=Samples(features=features)))
    assert written.n_bytes < 3_000_000
    page = visit(path, "features")
    assert page.locator("[role=status]").text_content() == "2,048 features"
    assert page.locator(".card").count() == 48
    page.locator(".pager a").last.click()
    page.wait_for_function("location.hash === '#/features?page=42'")
    assert page.locator(".card").count() == 2048 - 42 * 48
